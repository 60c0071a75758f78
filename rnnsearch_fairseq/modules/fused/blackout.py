"""The cost of BlackOut (Ji et al., 2016) with a hand-written gradient: Eriguchi et al. (2016), Section 3.4."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from rnnsearch_fairseq.modules.fused.products import has_private_operators, selected_products

# If the vocabulary is more than this many times as large as the set of a word's candidates, only the candidates are
# scored, one by one. Otherwise all words are (both passes timed on one core with AVX-512, d = 256, K = 500, 2000).
WORDS_PER_CANDIDATE = 8


def blackout_loss(
    features: Tensor, targets: Tensor, negatives: Tensor, weight: Tensor, bias: Tensor, log_proposal: Tensor
) -> Tensor:
    """The cost, summed over the words: a scalar in float32 at least. With z = W_s s~ + b_s and w = 1 / Q::

        p~_i = w_i exp(z_i) / sum over the target and its negatives of w_j exp(z_j)
        cost = -log p~_target - sum over the negatives of log(1 - p~_i)

    A negative that was drawn twice counts twice. On a CPU, with a vocabulary much larger than K, only the target and
    the negatives are scored. Otherwise the whole vocabulary is scored.

    Args:
        features: s~, ``(words, d)``.
        targets, negatives: ``(words,)`` and ``(words, K)``.
        weight, bias, log_proposal: W_s ``(K_y, d)``, b_s and log Q ``(K_y,)``.
    """
    dtype = torch.promote_types(features.dtype, torch.float32)
    candidates = torch.cat([targets.unsqueeze(1), negatives], dim=1)
    is_large = len(weight) > WORDS_PER_CANDIDATE * candidates.size(1)
    features, weight = features.to(dtype), weight.to(dtype)
    if is_large and features.device.type == "cpu" and has_private_operators():
        products = _SampledProducts.apply(features, weight, candidates)
    else:
        products = (features @ weight.T).gather(1, candidates)
    offset = (bias - log_proposal).to(dtype)
    return _Cost.apply(products + offset.index_select(0, candidates.flatten()).view_as(candidates))


class _Cost(torch.autograd.Function):
    """The cost of the scores log w + z ``(words, 1 + K)``, target first, and its gradient.

    Let p be the softmax of the scores, r_i = p_i / (1 - p_i), and S the sum of r over the negatives. The gradient is::

        p_i (1 - S) - 1      for the target
        p_i (1 - S) + r_i    for a negative i

    One negative may have nearly all the probability: its 1 - p_i rounds to zero, and its r_i is huge. For the likeliest
    negative m, therefore, log(1 - p_m) is computed from the sum of the other p. S' = S - r_m is computed without r_m,
    and p_j r_m, which is at most one, is subtracted separately from each gradient. The gradient of m itself is
    p_m (1 - S' - r_m) + r_m = p_m (2 - S'), because r_m - p_m r_m = p_m.
    """

    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> Tensor:
        log_probs = torch.log_softmax(scores, dim=1)
        top, place = log_probs[:, 1:].max(dim=1, keepdim=True)
        log_complements = torch.log1p(-log_probs[:, 1:].exp())  # log(1 - p_i)
        log_complements.scatter_(1, place, log_probs.scatter(1, place + 1, -torch.inf).logsumexp(dim=1, keepdim=True))
        top_products = (log_probs + (top - log_complements.gather(1, place))).exp_()  # p_j r_m
        ratios = (log_probs[:, 1:] - log_complements).exp_().scatter_(1, place, 0.0)
        factor = 1 - ratios.sum(dim=1, keepdim=True)  # 1 - S without the likeliest negative
        gradient = log_probs.exp().mul_(factor).sub_(top_products)
        gradient[:, 0] -= 1
        gradient[:, 1:] += ratios
        gradient.scatter_(1, place + 1, top.exp() * (1 + factor))
        ctx.save_for_backward(gradient)
        return -log_probs[:, 0].sum() - log_complements.sum()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_cost: Tensor) -> Tensor:
        (gradient,) = ctx.saved_tensors
        return gradient * grad_cost


class _SampledProducts(torch.autograd.Function):
    """The products of each word's features with its candidates' weights, ``(words, 1 + K)``, one by one.

    Random memory access dominates the time. The pairs are therefore sorted by candidate where possible: the features
    of a batch fit in a core's cache, the weights do not.
    """

    @staticmethod
    def forward(ctx: Any, features: Tensor, weight: Tensor, candidates: Tensor) -> Tensor:
        flat = candidates.flatten().int()  # half the bytes sort twice as fast
        sorted_candidates, order = flat.sort(stable=True)
        words = order.div(candidates.size(1), rounding_mode="floor").int()
        begins = F.pad(torch.bincount(flat, minlength=len(weight)).cumsum(dim=0, dtype=torch.int32), (1, 0))
        ctx.save_for_backward(features, weight, flat, order, words, begins)
        products = selected_products(weight, features, words, begins[:-1], sorted_candidates)
        return torch.empty_like(products).index_copy_(0, order, products).view(candidates.shape)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        # embedding_bag saves nothing for a backward pass if its tables are detached.
        features, weight, flat, order, words, begins = (tensor.detach() for tensor in ctx.saved_tensors)
        grad_features = F.embedding_bag(flat.view(grad.shape), weight, mode="sum", per_sample_weights=grad)
        sorted_grad = grad.flatten().index_select(0, order)
        grad_weight = F.embedding_bag(
            words, features, begins, mode="sum", per_sample_weights=sorted_grad, include_last_offset=True
        )
        return grad_features, grad_weight, None
