"""The cost of the softmax over the target vocabulary, with one ``(words, K_y)`` tensor in memory instead of three."""

import functools
from typing import Any

import torch
from torch import Tensor

from rnnsearch_fairseq.modules.fused import kernels
from rnnsearch_fairseq.modules.fused.products import linear, transposed_product


def smoothed_loss(
    features: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, smoothing: float, padding_idx: int | None = None
) -> tuple[Tensor, Tensor]:
    """Label-smoothed cross entropy, and -sum log p, where p = softmax(W f + b): scalars in float32 at least.

    The second has no gradient, and is equal to the first if ``smoothing`` is 0.
    Szegedy et al. (2016), *Rethinking the Inception Architecture for Computer Vision*, Section 7, as in fairseq: the
    target has the probability 1 - ``smoothing``, and the other words share the rest.

    Args:
        features, weight, bias: f ``(..., l)``, W ``(K_y, l)`` and b ``(K_y,)``.
        targets: ``(...)``; ``padding_idx`` is that of padding, which costs nothing.
    """
    if padding_idx is None or features.is_cuda:  # to choose the words, the host would wait for a GPU
        features, targets = features.flatten(0, -2), targets.flatten()
    else:
        is_word = targets.ne(padding_idx)
        features, targets, padding_idx = features[is_word], targets[is_word], None
    tensors = (features, weight.to(features.dtype), bias.to(features.dtype))
    return _SoftmaxLoss.apply(*tensors, targets, padding_idx, smoothing, torch.is_grad_enabled())


class _SoftmaxLoss(torch.autograd.Function):
    """The gradient of the scores overwrites the scores."""

    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        weight: Tensor,
        bias: Tensor,
        targets: Tensor,
        padding_idx: int | None,
        smoothing: float,
        needs_gradient: bool,
    ) -> tuple[Tensor, Tensor]:
        size = kernels.ROWS_ON_GPU if features.is_cuda else kernels.ROWS
        if needs_gradient:
            scores = linear(features, weight, bias)
            parts = scores.split(size)
        else:  # the cost alone needs the scores of a few words at a time
            scores, parts = None, (linear(rows, weight, bias) for rows in features.split(size))
        costs = [
            kernels.softmax_cost(part, words, padding_idx, needs_gradient, smoothing)
            for part, words in zip(parts, targets.split(size))
        ]
        ctx.save_for_backward(features, weight, scores)
        loss, nll = functools.reduce(torch.add, costs)
        ctx.mark_non_differentiable(nll)
        return loss.clone(), nll  # a view must not be changed in place, as fairseq does with the cost

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_loss: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        features, weight, grads = ctx.saved_tensors
        scale = grad_loss.to(grads.dtype)  # of the products, which are smaller than grads
        grad_features = linear(grads, weight.T).mul_(scale)
        grad_weight = transposed_product(grads, features * scale)
        return grad_features, grad_weight, grads.sum(dim=0).mul_(scale), None, None, None, None
