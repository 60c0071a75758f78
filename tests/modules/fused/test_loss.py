"""The memory-saving softmax cost against PyTorch's cross entropy."""

import pytest
import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from rnnsearch_fairseq.modules.fused import loss as module
from rnnsearch_fairseq.modules.fused.loss import softmax_loss


def draw(words: int, dtype: torch.dtype = torch.float64) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Features, W and b, and targets from a vocabulary of 9 words."""
    generator = torch.Generator().manual_seed(1)
    shapes = ((words, 4), (9, 4), (9,))
    tensors = [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes]
    return [tensor.requires_grad_() for tensor in tensors], torch.randint(9, (words,), generator=generator)


@pytest.mark.parametrize("words", [1, 5, 12])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_it_is_cross_entropy(words: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS", 5)
    given, targets = draw(words, dtype)
    precise = torch.promote_types(dtype, torch.float32)
    expected = F.cross_entropy(F.linear(*given).to(precise), targets, reduction="sum")
    found = softmax_loss(*given, targets)
    assert found.dtype == precise
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 2e-2}[dtype]
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
    gradients = (torch.autograd.grad(3 * loss, given) for loss in (found, expected))
    for ours, theirs in zip(*gradients):
        torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=5 * tolerance)


def test_a_second_gradient_is_refused() -> None:
    given, targets = draw(7)
    loss = softmax_loss(*given, targets)
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="inplace"):
        loss.backward()


def test_scores_far_apart_neither_overflow_nor_vanish() -> None:
    features = torch.tensor([[1e4], [-1e4]], requires_grad=True)
    weight, bias = torch.tensor([[1.0], [-1.0]]), torch.zeros(2)
    loss = softmax_loss(features, weight, bias, torch.tensor([1, 1]))
    assert loss.item() == 2e4
    loss.backward()
    assert features.grad.tolist() == [[2.0], [0.0]]


def test_the_cost_alone_is_the_same_and_keeps_no_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS", 5)
    given, targets = draw(12)
    largest = 0

    class Watch(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):  # noqa: ANN001
            nonlocal largest
            result = function(*args, **(kwargs or {}))
            if isinstance(result, torch.Tensor):
                largest = max(largest, result.numel())
            return result

    with torch.no_grad(), Watch():
        found = softmax_loss(*given, targets)
    torch.testing.assert_close(found, softmax_loss(*given, targets).detach(), rtol=0, atol=1e-12)
    assert largest < 12 * 9


def test_no_words_cost_nothing() -> None:
    given, targets = draw(0)
    loss = softmax_loss(*given, targets)
    loss.backward()
    assert loss.item() == 0
    assert all(tensor.grad.eq(0).all() for tensor in given)
