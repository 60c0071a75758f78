"""The softmax over the target words and its cost, with one tensor of words × vocabulary in memory, not three."""

from typing import Any

import torch
from torch import Tensor

ROWS = 64  # words whose probabilities are made together: few enough to stay in a processor's cache


def softmax_loss(features: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
    """-sum log p of the ``targets`` ``(words,)``, where p = softmax(W f + b): a scalar in float32 at least.

    Args:
        features: f, ``(words, l)``.
        weight: W, ``(K_y, l)``; ``bias``: b, ``(K_y,)``.

    Its gradient can be taken once only, since it is made where the probabilities are.
    """
    tensors = (features, weight.to(features.dtype), bias.to(features.dtype))
    return _SoftmaxLoss.apply(*tensors, targets, torch.is_grad_enabled())


class _SoftmaxLoss(torch.autograd.Function):
    """The probabilities take the place of the scores, and their gradient that of the probabilities."""

    @staticmethod
    def forward(ctx: Any, features: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, is_way_back: bool) -> Tensor:
        precise = torch.promote_types(features.dtype, torch.float32)
        if is_way_back:
            scores = torch.addmm(bias, features, weight.T)
            parts = scores.split(ROWS)
        else:  # for the cost alone, none is kept
            scores, parts = None, (torch.addmm(bias, rows, weight.T) for rows in features.split(ROWS))
        costs = []
        for part, words in zip(parts, targets.split(ROWS)):
            precisely = part.to(precise)
            greatest = precisely.amax(dim=1, keepdim=True)
            precisely.sub_(greatest)
            of_targets = precisely.gather(1, words.unsqueeze(1))
            total = precisely.exp_().sum(dim=1, keepdim=True)
            costs.append((total.log() - of_targets).sum())
            if scores is not None:
                torch.div(precisely, total, out=precisely)
                if precisely is not part:
                    part.copy_(precisely)
        ctx.save_for_backward(features, weight, targets, scores)
        return torch.stack(costs).sum() if costs else features.new_zeros((), dtype=precise)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_loss: Tensor) -> tuple[Tensor | None, ...]:
        features, weight, targets, grads = ctx.saved_tensors
        grads[torch.arange(len(targets), device=targets.device), targets] -= 1
        scale = grad_loss.to(grads.dtype)  # of the products, which are smaller
        return (grads @ weight).mul_(scale), grads.T @ (features * scale), grads.sum(dim=0).mul_(scale), None, None
