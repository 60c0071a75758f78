"""The cost of the softmax over the target vocabulary, with one ``(words, K_y)`` tensor in memory instead of three."""

import functools
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from rnnsearch_fairseq.modules.fused.products import linear, transposed_product
from rnnsearch_fairseq.modules.fused.recording import compiled, compiling

# The number of words whose costs are computed together. On a CPU their scores must fit in the cache. On a GPU the
# number is greater, since each launch takes time.
ROWS, ROWS_ON_GPU = 64, 4096
Cost = Callable[[Tensor, Tensor], Tensor]  # `_softmax_cost` of scores and targets


def smoothed_loss(
    features: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, smoothing: float, padding_idx: int | None = None
) -> tuple[Tensor, Tensor]:
    """Label-smoothed cross entropy, and -sum log p, where p = softmax(W f + b): scalars in float32 at least.

    The second scalar has no gradient, and equals the first if ``smoothing`` is 0. Label smoothing is that of Szegedy et
    al. (2016), *Rethinking the Inception Architecture for Computer Vision*, Section 7. As in fairseq, the target has
    the probability 1 - ``smoothing``, and the other words share the rest.

    Args:
        features, weight, bias: f ``(..., l)``, W ``(K_y, l)`` and b ``(K_y,)``.
        targets: ``(...)``. Targets equal to ``padding_idx`` cost nothing.
    """
    if padding_idx is None or features.is_cuda:  # the host would wait for a GPU's mask
        features, targets = features.flatten(0, -2), targets.flatten()
    else:
        is_word = targets.ne(padding_idx)
        features, targets, padding_idx = features[is_word], targets[is_word], None
    needs_gradient = torch.is_grad_enabled()

    def cost(scores: Tensor, words: Tensor) -> Tensor:
        return _softmax_cost(scores, words, padding_idx, needs_gradient, smoothing)

    tensors = (features, weight.to(features.dtype), bias.to(features.dtype))
    return _SoftmaxLoss.apply(*tensors, targets, needs_gradient, cost)


class _SoftmaxLoss(torch.autograd.Function):
    """The gradient of the scores overwrites the scores."""

    @staticmethod
    def forward(
        ctx: Any, features: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, needs_gradient: bool, cost: Cost
    ) -> tuple[Tensor, Tensor]:
        size = ROWS_ON_GPU if features.is_cuda else ROWS
        if needs_gradient:
            scores = linear(features, weight, bias)
            parts = scores.split(size)
        else:  # the cost alone needs the scores of a few words at a time
            scores, parts = None, (linear(rows, weight, bias) for rows in features.split(size))
        ctx.save_for_backward(features, weight, scores)
        with compiling(features.device) if needs_gradient else nullcontext():
            loss, nll = functools.reduce(torch.add, map(cost, parts, targets.split(size)))
        ctx.mark_non_differentiable(nll)
        return loss.clone(), nll  # a view must not be changed in place, as fairseq does with the cost

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_loss: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        features, weight, grads = ctx.saved_tensors
        scale = grad_loss.to(grads.dtype)  # multiplies the products, which are smaller than grads
        grad_features = linear(grads, weight.T).mul_(scale)
        grad_weight = transposed_product(grads, features * scale)
        return grad_features, grad_weight, grads.sum(dim=0).mul_(scale), None, None, None


@compiled
def _softmax_cost(
    scores: Tensor, targets: Tensor, padding_idx: int | None, keep_gradient: bool, smoothing: float
) -> Tensor:
    """The cost H(q, p) of the ``targets`` ``(words,)``, and -sum log p: ``(2,)`` in float32 at least.

    p = softmax(scores), and q is 1 - ``smoothing`` for the target and ``smoothing`` / (K_y - 1) for each other word.
    The scores ``(words, K_y)`` are overwritten: with the gradient of the cost, p - q, if ``keep_gradient``. Targets
    equal to ``padding_idx`` have neither cost nor gradient.
    """
    share = smoothing / (scores.size(1) - 1) if smoothing else 0.0
    words = targets.unsqueeze(1)
    values = scores.to(torch.promote_types(scores.dtype, torch.float32))
    greatest = values.amax(dim=1, keepdim=True)
    values.sub_(greatest)
    target_scores = values.gather(1, words)
    all_scores = values.sum(dim=1, keepdim=True) if smoothing else None
    total = values.exp_().sum(dim=1, keepdim=True)
    if keep_gradient:
        torch.div(values, total, out=values)
        if smoothing:
            values.sub_(share)
        if values is not scores:
            scores.copy_(values)
        scores.scatter_add_(1, words, scores.new_full((), smoothing + share - 1).expand_as(words))
    log_total = total.log_()
    nll = log_total - target_scores
    costs = nll
    if smoothing:
        costs = (1 - smoothing - share) * nll + share * (scores.size(1) * log_total - all_scores)
    costs = torch.cat([costs, nll], dim=1)
    if padding_idx is not None:
        is_padding = words.eq(padding_idx)
        costs.masked_fill_(is_padding, 0)
        if keep_gradient:
            scores.masked_fill_(is_padding, 0)
    return costs.sum(dim=0)
