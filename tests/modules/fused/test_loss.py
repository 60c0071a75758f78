"""The memory-saving softmax cost against PyTorch's cross entropy."""

import pytest
import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from rnnsearch_fairseq.modules.fused.loss import smoothed_loss


def draw(words: int, dtype: torch.dtype = torch.float64) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Features, W and b, and targets from a vocabulary of 9 words."""
    generator = torch.Generator().manual_seed(1)
    shapes = ((words, 4), (9, 4), (9,))
    tensors = [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes]
    return [tensor.requires_grad_() for tensor in tensors], torch.randint(9, (words,), generator=generator)


@pytest.mark.parametrize("words", [0, 5, 12])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_it_is_cross_entropy(words: int, smoothing: float, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rnnsearch_fairseq.modules.fused.loss.ROWS", 5)
    given, targets = draw(words, dtype)
    precise = torch.promote_types(dtype, torch.float32)
    scores = F.linear(*given).to(precise)
    wanted = torch.full_like(scores, smoothing / 8).scatter_(1, targets[:, None], 1 - smoothing)
    expected = F.cross_entropy(scores, wanted, reduction="sum")
    found, nll = smoothed_loss(*given, targets, smoothing)
    assert found.dtype == nll.dtype == precise and not nll.requires_grad
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 2e-2}[dtype]
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(nll, F.cross_entropy(scores, targets, reduction="sum"), rtol=tolerance, atol=tolerance)
    gradients = (torch.autograd.grad(3 * loss, given) for loss in (found, expected))
    for ours, theirs in zip(*gradients):
        torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=5 * tolerance)


@pytest.mark.parametrize("padding_idx", [0, 1])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("on_gpu", [False, True])
def test_padding_costs_nothing(
    padding_idx: int, smoothing: float, on_gpu: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.Tensor, "is_cuda", on_gpu)
    given, targets = draw(12)
    targets[[2, 5]], targets[7] = padding_idx, 1 - padding_idx
    is_word = targets != padding_idx
    expected, _ = smoothed_loss(given[0][is_word], *given[1:], targets[is_word], smoothing)
    features = given[0].unflatten(0, (3, 4))
    found, _ = smoothed_loss(features, *given[1:], targets.view(3, 4), smoothing, padding_idx)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    for ours, theirs in zip(*(torch.autograd.grad(loss, given) for loss in (found, expected))):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("scale", [0.0, 1024.0])  # 0: of a batch that only fills up
def test_a_loss_scale_in_float16(scale: float) -> None:
    generator = torch.Generator().manual_seed(1)
    given = [(torch.randn(shape, generator=generator) / 64).half() for shape in ((3, 4), (9, 4), (9,))]
    targets = torch.tensor([3, 4, 5])
    found, expected = (
        torch.autograd.grad(smoothed_loss(*tensors, targets, 0.0)[0] * factor, tensors)
        for tensors, factor in (
            ([tensor.clone().requires_grad_() for tensor in given], scale),
            ([tensor.double().requires_grad_() for tensor in given], scale),
        )
    )
    for ours, exact in zip(found, expected):
        assert ours.dtype == torch.float16
        torch.testing.assert_close(ours.double(), exact, rtol=0.01, atol=0.01 * scale / 64)


def test_scores_far_apart_neither_overflow_nor_vanish() -> None:
    features = torch.tensor([[1e4], [-1e4]], requires_grad=True)
    weight, bias = torch.tensor([[1.0], [-1.0]]), torch.zeros(2)
    loss, _ = smoothed_loss(features, weight, bias, torch.tensor([1, 1]), 0.0)
    assert loss.item() == 2e4
    loss.backward()
    assert features.grad.tolist() == [[2.0], [0.0]]


def test_the_cost_alone_is_the_same_and_keeps_no_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rnnsearch_fairseq.modules.fused.loss.ROWS", 5)
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
        found, _ = smoothed_loss(*given, targets, 0.0)
    torch.testing.assert_close(found, smoothed_loss(*given, targets, 0.0)[0].detach(), rtol=0, atol=1e-12)
    assert largest < 12 * 9
