"""BlackOut (Ji et al., 2016), as Eriguchi, Hashimoto and Tsuruoka (2016), Section 3.4, train with it."""

from typing import Any

import torch
from torch import Tensor

CHUNK_NUMBERS = 8_000_000  # gathered output weights that are held at a time: 32 MB in float32


def draw_negatives(targets: Tensor, count: int, cumulative: Tensor) -> Tensor:
    """``count`` negatives for each of ``targets`` ``(words,)``, with replacement, none the target: ``(words, count)``.

    Args:
        cumulative: the distribution Q, summed up: ``(K_y,)``, float64, 1 from its last possible word on.
    """
    drawn = _draw((len(targets), count), cumulative)
    while (hits := drawn.eq(targets.unsqueeze(1))).any():
        drawn[hits] = _draw((int(hits.sum()),), cumulative)
    return drawn


def _draw(shape: tuple[int, ...], cumulative: Tensor) -> Tensor:
    points = torch.rand(shape, dtype=cumulative.dtype, device=cumulative.device)
    return torch.searchsorted(cumulative, points, right=True)


def blackout_loss(
    features: Tensor, targets: Tensor, negatives: Tensor, weight: Tensor, bias: Tensor, log_proposal: Tensor
) -> Tensor:
    """The cost of each word's negatives, summed over the words; a scalar. With z = W_s s~ + b_s, and w = 1 / Q::

        p~_i = w_i exp(z_i) / sum over the target and its negatives of w_j exp(z_j)
        cost = -log p~_target - sum over the negatives of log(1 - p~_i)

    A negative that was drawn twice counts twice. Only the scores of the target and of the negatives are computed.

    Args:
        features: s~, ``(words, d)``.
        targets: ``(words,)``.
        negatives: ``(words, K)``.
        weight, bias: W_s ``(K_y, d)`` and b_s ``(K_y,)``.
        log_proposal: log Q, ``(K_y,)``.
    """
    return _Sampled.apply(features, weight, bias, targets, negatives, log_proposal)


def shared_blackout_loss(
    features: Tensor, targets: Tensor, negatives: Tensor, weight: Tensor, bias: Tensor, log_proposal: Tensor
) -> Tensor:
    """As :func:`blackout_loss`, with one set of negatives ``(K,)`` for all words: not the paper's, but one product.

    Where a negative is a word's target, that word goes without it.
    """
    of_targets = (features * weight[targets]).sum(dim=1) + bias[targets] - log_proposal[targets]
    of_negatives = torch.addmm(bias[negatives] - log_proposal[negatives], features, weight[negatives].T)
    of_negatives = of_negatives.masked_fill(negatives.eq(targets.unsqueeze(1)), float("-inf"))
    scores = torch.cat([of_targets.unsqueeze(1), of_negatives], dim=1)
    log_probs = torch.log_softmax(scores, dim=1)
    return -log_probs[:, 0].sum() - log_of_complement(log_probs[:, 1:]).sum()


def log_of_complement(log_probs: Tensor) -> Tensor:
    """log(1 - p) for log p < 0, without loss of digits where p is small or near one."""
    tiny = torch.finfo(log_probs.dtype).tiny
    return torch.log((-torch.expm1(log_probs)).clamp(min=tiny))


class _Sampled(torch.autograd.Function):
    """A chunk of words at a time: cost and gradient together, so that gathered weights need not be kept."""

    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        weight: Tensor,
        bias: Tensor,
        targets: Tensor,
        negatives: Tensor,
        log_proposal: Tensor,
    ) -> Tensor:
        candidates = torch.cat([targets.unsqueeze(1), negatives], dim=1)
        offset = bias - log_proposal
        grad_features, grad_weight, grad_bias = (torch.zeros_like(tensor) for tensor in (features, weight, bias))
        cost = features.new_zeros(())
        words = max(1, CHUNK_NUMBERS // (candidates.size(1) * features.size(1)))
        for begin in range(0, len(features), words):
            rows = slice(begin, begin + words)
            chosen, given = candidates[rows], features[rows]
            gathered = weight[chosen]
            scores = torch.bmm(gathered, given.unsqueeze(2)).squeeze(2) + offset[chosen]
            log_probs = torch.log_softmax(scores, dim=1)
            log_others = log_of_complement(log_probs[:, 1:])
            cost -= log_probs[:, 0].sum() + log_others.sum()
            grad_scores = _gradient(log_probs, log_others)
            grad_features[rows] = torch.bmm(grad_scores.unsqueeze(1), gathered).squeeze(1)
            torch.mul(grad_scores.unsqueeze(2), given.unsqueeze(1), out=gathered)
            grad_weight.index_add_(0, chosen.flatten(), gathered.flatten(0, 1))
            grad_bias.index_add_(0, chosen.flatten(), grad_scores.flatten())
        ctx.save_for_backward(grad_features, grad_weight, grad_bias)
        return cost

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_cost: Tensor) -> tuple[Tensor | None, ...]:
        return *(gradient * grad_cost for gradient in ctx.saved_tensors), None, None, None


def _gradient(log_probs: Tensor, log_others: Tensor) -> Tensor:
    """Of the cost by the scores of the target (first) and the negatives, ``(words, 1 + K)``."""
    probs = log_probs.exp()
    ratios = (log_probs[:, 1:] - log_others).exp()  # p / (1 - p)
    gradient = probs * (1 - ratios.sum(dim=1, keepdim=True))
    gradient[:, 0] -= 1
    gradient[:, 1:] += ratios
    return gradient
