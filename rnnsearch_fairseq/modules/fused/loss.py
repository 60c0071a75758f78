"""The cost of the softmax over the target vocabulary, with one ``(words, K_y)`` tensor in memory instead of three."""

from typing import Any

import torch
from torch import Tensor

ROWS = 64  # words whose probabilities are computed together: few enough to stay in the CPU's cache


def softmax_loss(features: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
    """-sum log p of the ``targets`` ``(words,)``, where p = softmax(W f + b): a scalar in float32 at least.

    The backward pass overwrites the probabilities and therefore works only once.

    Args:
        features: f, ``(words, l)``.
        weight: W, ``(K_y, l)``.
        bias: b, ``(K_y,)``.
    """
    tensors = (features, weight.to(features.dtype), bias.to(features.dtype))
    return _SoftmaxLoss.apply(*tensors, targets, torch.is_grad_enabled())


class _SoftmaxLoss(torch.autograd.Function):
    """The probabilities overwrite the scores, and the gradient of the scores overwrites the probabilities."""

    @staticmethod
    def forward(
        ctx: Any, features: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, needs_gradient: bool
    ) -> Tensor:
        dtype = torch.promote_types(features.dtype, torch.float32)
        if needs_gradient:
            scores = torch.addmm(bias, features, weight.T)
            parts = scores.split(ROWS)
        else:  # the cost alone needs the scores of ROWS words at a time
            scores, parts = None, (torch.addmm(bias, rows, weight.T) for rows in features.split(ROWS))
        costs = []
        for part, words in zip(parts, targets.split(ROWS)):
            values = part.to(dtype)
            greatest = values.amax(dim=1, keepdim=True)
            values.sub_(greatest)
            target_scores = values.gather(1, words.unsqueeze(1))
            total = values.exp_().sum(dim=1, keepdim=True)
            costs.append((total.log() - target_scores).sum())
            if scores is not None:
                torch.div(values, total, out=values)
                if values is not part:
                    part.copy_(values)
        ctx.save_for_backward(features, weight, targets, scores)
        return torch.stack(costs).sum() if costs else features.new_zeros((), dtype=dtype)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_loss: Tensor) -> tuple[Tensor | None, ...]:
        features, weight, targets, grads = ctx.saved_tensors
        grads[torch.arange(len(targets), device=targets.device), targets] -= 1
        scale = grad_loss.to(grads.dtype)  # multiplies the products, which are smaller than grads
        return (grads @ weight).mul_(scale), grads.T @ (features * scale), grads.sum(dim=0).mul_(scale), None, None
