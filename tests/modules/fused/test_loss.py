"""The memory-saving softmax cost against PyTorch's cross entropy."""

import pytest
import torch
import torch.nn.functional as F
from torch.utils._pytree import tree_leaves

from rnnsearch_fairseq.modules.fused.loss import smoothed_loss
from tests.modules.fused.test_recording import Operations


@pytest.fixture(autouse=True)
def _parts_of_five_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rnnsearch_fairseq.modules.fused.loss.ROWS", 5)
    monkeypatch.setattr("rnnsearch_fairseq.modules.fused.loss.ROWS_ON_GPU", 5)


def draw(words: int, dtype: torch.dtype = torch.float64, scale: float = 1.0) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Features, W and b, and targets from a vocabulary of 9 words."""
    generator = torch.Generator().manual_seed(1)
    shapes = ((words, 4), (9, 4), (9,))
    tensors = [torch.randn(shape, generator=generator, dtype=torch.float64).mul(scale).to(dtype) for shape in shapes]
    return [tensor.requires_grad_() for tensor in tensors], torch.randint(9, (words,), generator=generator)


@pytest.mark.parametrize("words", [0, 5, 12])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_it_is_cross_entropy(words: int, smoothing: float, dtype: torch.dtype) -> None:
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 2e-2}[dtype]
    tensors, targets = draw(words, dtype)
    precise = torch.promote_types(dtype, torch.float32)
    scores = F.linear(*tensors).to(precise)
    smoothed = torch.full_like(scores, smoothing / 8).scatter_(1, targets[:, None], 1 - smoothing)
    expected = F.cross_entropy(scores, smoothed, reduction="sum")
    loss, nll = smoothed_loss(*tensors, targets, smoothing)
    assert loss.dtype == nll.dtype == precise and not nll.requires_grad
    torch.testing.assert_close(loss, expected, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(nll, F.cross_entropy(scores, targets, reduction="sum"), rtol=tolerance, atol=tolerance)
    ours, theirs = (torch.autograd.grad(3 * cost, tensors) for cost in (loss, expected))
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=5 * tolerance)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("on_gpu", [False, True])
def test_padding_costs_nothing(smoothing: float, on_gpu: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.Tensor, "is_cuda", on_gpu)
    tensors, targets = draw(12)
    is_word = targets.ne(1)
    costs = smoothed_loss(*tensors, targets, smoothing, padding_idx=1)
    expected = smoothed_loss(tensors[0][is_word], *tensors[1:], targets[is_word], smoothing)
    torch.testing.assert_close(costs, expected, rtol=0, atol=1e-12)
    ours, theirs = (torch.autograd.grad(loss, tensors) for loss, _ in (costs, expected))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("scale", [0.0, 1024.0])  # 0: of a batch that only fills up
def test_a_loss_scale_in_float16(scale: float) -> None:
    tensors, targets = draw(3, torch.float16, 1 / 64)
    exact = [tensor.detach().double().requires_grad_() for tensor in tensors]
    ours, expected = (
        torch.autograd.grad(smoothed_loss(*inputs, targets, 0.0)[0] * scale, inputs) for inputs in (tensors, exact)
    )
    assert {gradient.dtype for gradient in ours} == {torch.float16}
    torch.testing.assert_close(ours, expected, rtol=0.01, atol=0.01 * scale / 64, check_dtype=False)


def test_scores_far_apart_neither_overflow_nor_vanish() -> None:
    features = torch.tensor([[1e4], [-1e4]], requires_grad=True)
    loss, _ = smoothed_loss(features, torch.tensor([[1.0], [-1.0]]), torch.zeros(2), torch.tensor([1, 1]), 0.0)
    assert loss.item() == 2e4
    loss.backward()
    assert features.grad.tolist() == [[2.0], [0.0]]


def test_the_cost_alone_is_the_same_and_keeps_no_scores() -> None:
    tensors, targets = draw(12)
    with torch.no_grad(), Operations() as mode:
        loss, _ = smoothed_loss(*tensors, targets, 0.0)
    torch.testing.assert_close(loss, smoothed_loss(*tensors, targets, 0.0)[0].detach(), rtol=0, atol=1e-12)
    results = [leaf for *_, result in mode.records for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
    assert 0 < max(result.numel() for result in results) < 12 * 9
