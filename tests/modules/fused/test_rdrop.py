"""The cost of R-Drop and its gradient against PyTorch's functions and automatic gradients."""

import pytest
import torch
import torch.nn.functional as F

from rnnsearch_fairseq.modules.fused import kernels
from rnnsearch_fairseq.modules.fused.rdrop import rdrop_loss

WORDS, VOCABULARY = 12, 9


@pytest.mark.parametrize("words", [0, 1, 5, 12])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("smoothing", "alpha"), [(0.0, 0.0), (0.1, 0.0), (0.0, 3.0), (0.2, 0.7)])
def test_it_is_cross_entropy_and_divergence(
    words: int, dtype: torch.dtype, smoothing: float, alpha: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "ROWS", 5)
    generator = torch.Generator().manual_seed(1)
    scores = [torch.randn(words, VOCABULARY, generator=generator).mul(2).to(dtype).requires_grad_() for _ in range(2)]
    targets = torch.randint(VOCABULARY, (words,), generator=generator)
    precise = torch.promote_types(dtype, torch.float32)

    logs = [torch.log_softmax(each.to(precise), dim=1) for each in scores]
    wanted = torch.full((words, VOCABULARY), smoothing / (VOCABULARY - 1), dtype=precise)
    wanted.scatter_(1, targets.unsqueeze(1), 1 - smoothing)
    kl = sum(F.kl_div(one, other, reduction="sum", log_target=True) for one, other in (logs, logs[::-1]))
    expected = -sum((wanted * log).sum() for log in logs) + alpha * kl / 2
    expected_nll = -sum(log.gather(1, targets.unsqueeze(1)).sum() for log in logs)

    loss, nll, divergence = rdrop_loss(*(each.clone() for each in scores), targets, smoothing, alpha)
    tolerance = 1e-10 if dtype == torch.float64 else 1e-4
    for found, value in ((loss, expected), (nll, expected_nll), (divergence, kl / 2)):
        assert found.dtype == precise
        torch.testing.assert_close(found, value, rtol=tolerance, atol=tolerance)
    assert loss.requires_grad
    assert not nll.requires_grad
    tolerance = 2e-2 if dtype == torch.bfloat16 else tolerance
    gradients = (torch.autograd.grad(3 * each, scores) for each in (loss, expected))
    for ours, theirs in zip(*gradients):
        torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


def test_scores_far_apart_neither_overflow_nor_vanish() -> None:
    first, second = (torch.tensor([[1e4, -1e4]]).mul(sign).requires_grad_() for sign in (1, -1))
    loss, _, divergence = rdrop_loss(first, second, torch.tensor([0]), 0.0, 1.0)
    assert (loss.item(), divergence.item()) == (4e4, 2e4)
    loss.backward()
    assert first.grad.isfinite().all()
    assert second.grad.tolist() == [[-1.5, 1.5]]
