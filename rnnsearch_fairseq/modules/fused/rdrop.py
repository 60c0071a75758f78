"""The cost of R-Drop with a hand-written gradient, which is computed together with the cost."""

import functools
from typing import Any

import torch
from torch import Tensor

from rnnsearch_fairseq.modules.fused import dispatch
from rnnsearch_fairseq.modules.fused.loss import split_scale


def rdrop_loss(
    first: Tensor, second: Tensor, targets: Tensor, smoothing: float, alpha: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The cost of Liang et al. (2021), *R-Drop*, Eq. 4, over label-smoothed cross entropy, summed over the words::

        L = H(q, P1) + H(q, P2) + alpha · D,    D = [KL(P1 || P2) + KL(P2 || P1)] / 2

    where P1 and P2 are the softmax of the scores of two passes with different dropout, and q is 1 - ``smoothing`` for
    the target and ``smoothing`` / (K_y - 1) for each other word.

    Args:
        first, second: the scores, ``(words, K_y)`` each, which are overwritten with their gradients.
        targets: ``(words,)``.

    Returns:
        L; -log P1 - log P2 of the targets; and D: scalars in float32 at least. Only L has a gradient.
    """
    return _RDropLoss.apply(first, second, targets, smoothing, alpha)


class _RDropLoss(torch.autograd.Function):
    """With log-ratios d = log P1 - log P2, the gradient of the scores z1 is::

        dL/dz1 = P1 - q + alpha / 2 · [P1 ∘ (d - KL(P1 || P2)) + P1 - P2]

    and that of z2 is the same with 1 and 2 exchanged.
    """

    @staticmethod
    def forward(
        ctx: Any, first: Tensor, second: Tensor, targets: Tensor, smoothing: float, alpha: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        precise = torch.promote_types(first.dtype, torch.float32)
        share = smoothing / (first.size(1) - 1)  # of each word other than the target
        nll, rest, divergence = (first.new_zeros((), dtype=precise) for _ in range(3))
        rows = dispatch.kernels_for(first).ROWS // 4  # some eight tensors are computed, where the softmax cost has one
        for *scores, words in zip(*(tensor.split(rows) for tensor in (first, second, targets.unsqueeze(1)))):
            logs = [torch.log_softmax(each, dim=1, dtype=precise) for each in scores]
            probs = [each.exp() for each in logs]
            apart = probs[0] - probs[1]
            ratios = logs[0] - logs[1]
            for own, log, out, sign in zip(probs, logs, scores, (1, -1)):
                nll -= log.gather(1, words).sum()
                rest -= log.sum()
                products = (own * ratios).mul_(sign)
                kl = products.sum(dim=1, keepdim=True)
                divergence += kl.sum() / 2
                value = products.addcmul_(own, kl, value=-1).add_(apart, alpha=sign).mul_(alpha / 2)
                value.add_(own).sub_(share)
                value.scatter_add_(1, words, value.new_full(words.shape, share + smoothing - 1))
                out.copy_(value)
        ctx.save_for_backward(first, second)
        ctx.mark_non_differentiable(nll, divergence)
        loss = (1 - smoothing - share) * nll + share * rest + alpha * divergence
        return loss, nll, divergence

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_loss: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        factors = split_scale(grad_loss, ctx.saved_tensors[0].dtype)
        first, second = (functools.reduce(Tensor.mul, factors, grad) for grad in ctx.saved_tensors)
        return first, second, None, None, None
