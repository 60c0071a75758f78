"""BlackOut (Ji et al., 2016), as Eriguchi, Hashimoto and Tsuruoka (2016), Section 3.4, train with it."""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

# All words' scores by one matrix product cost, per candidate, as much as scores one by one where there are about eight
# words to a candidate (measured on one core with AVX-512: d = 256, K = 500 and 2000, forward and backward).
WORDS_PER_CANDIDATE = 8
CHUNK_NUMBERS = 2_000_000  # scores of all words that are held at a time: 8 MB in float32
SUM = 0  # torch's number for embedding_bag's mode="sum"


class AliasTable(NamedTuple):
    """A distribution over n words as n cells of equal probability, each shared by at most two words (Walker, 1977).

    Attributes:
        limits: ``(n,)``, float64: of cell i, which is [i, i + 1), word i has what lies below ``limits[i]``.
        aliases: ``(n,)``: the word that has the rest of the cell.
    """

    limits: Tensor
    aliases: Tensor


def alias_table(proposal: Tensor) -> AliasTable:
    """The table of ``proposal``: ``(n,)``, float64, not negative, summing up to one.

    Words with less than a cell's probability are taken in order, and what their cells lack is filled by those with
    more, also in order; one that is used up in the midst of a cell has its own cell filled by the next. Both orders
    are cumulative sums, so that no loop is needed (the sweep of Hübschle-Schneider and Sanders, 2019).
    """
    numbers = torch.arange(len(proposal), device=proposal.device)
    shares = proposal * len(proposal)
    light, heavy = numbers[shares < 1], numbers[shares >= 1]
    kept, aliases = shares.clamp(max=1), numbers.clone()
    if len(light) and len(heavy):
        lacking, spare = (1 - shares[light]).cumsum(dim=0), (shares[heavy] - 1).cumsum(dim=0)
        lacking_before = torch.cat([lacking.new_zeros(1), lacking[:-1]])
        # Rounding may leave the last light word without a giver, or the last heavy ones with something to spare.
        aliases[light] = heavy[torch.searchsorted(spare, lacking_before).clamp(max=len(heavy) - 1)]
        using_up = torch.searchsorted(lacking, spare[:-1], right=True).clamp(max=len(light) - 1)
        kept[heavy[:-1]] = 1 - (lacking[using_up] - spare[:-1])
        aliases[heavy[:-1]] = heavy[1:]
    return AliasTable(numbers + kept, aliases)


def draw_negatives(
    targets: Tensor, count: int, proposal: AliasTable, generator: torch.Generator | None = None
) -> Tensor:
    """``count`` negatives for each of ``targets`` ``(words,)``, with replacement, none the target: ``(words, count)``.

    Args:
        proposal: the distribution Q, with at least two possible words.
        generator: of the random numbers, on the device of ``targets``; default: torch's own.
    """
    drawn = _draw(len(targets) * count, proposal, generator)
    hits = drawn.view(-1, count).eq(targets.unsqueeze(1)).flatten().nonzero().squeeze(1)
    while len(hits):
        again = _draw(len(hits), proposal, generator)
        drawn[hits] = again
        hits = hits[again == targets[hits // count]]
    return drawn.view(-1, count)


def _draw(count: int, proposal: AliasTable, generator: torch.Generator | None) -> Tensor:
    limits, aliases = proposal
    points = torch.rand(count, dtype=limits.dtype, device=limits.device, generator=generator).mul_(len(limits))
    cells = points.long()
    return torch.where(points < limits.index_select(0, cells), cells, aliases.index_select(0, cells))


def blackout_loss(
    features: Tensor, targets: Tensor, negatives: Tensor, weight: Tensor, bias: Tensor, log_proposal: Tensor
) -> Tensor:
    """The cost of each word's negatives, summed over the words; a scalar. With z = W_s s~ + b_s, and w = 1 / Q::

        p~_i = w_i exp(z_i) / sum over the target and its negatives of w_j exp(z_j)
        cost = -log p~_target - sum over the negatives of log(1 - p~_i)

    A negative that was drawn twice counts twice. On the CPU, if the vocabulary is large beside K, only the scores of
    the target and of the negatives are computed; otherwise all are, some words' at a time, and the others left out.
    Half precision is computed, and the cost given, in float32.

    Args:
        features: s~, ``(words, d)``.
        targets: ``(words,)``.
        negatives: ``(words, K)``.
        weight, bias: W_s ``(K_y, d)`` and b_s ``(K_y,)``.
        log_proposal: log Q, ``(K_y,)``.
    """
    dtype = torch.promote_types(features.dtype, torch.float32)
    candidates = torch.cat([targets.unsqueeze(1), negatives], dim=1)
    few = features.device.type == "cpu" and len(weight) > WORDS_PER_CANDIDATE * candidates.size(1)
    products = (_SampledProducts if few else _DenseProducts).apply(features.to(dtype), weight.to(dtype), candidates)
    offset = (bias - log_proposal).to(dtype)
    return _Cost.apply(products + offset.index_select(0, candidates.flatten()).view_as(candidates))


def shared_blackout_loss(
    features: Tensor, targets: Tensor, negatives: Tensor, weight: Tensor, bias: Tensor, log_proposal: Tensor
) -> Tensor:
    """As :func:`blackout_loss`, with one set of negatives ``(K,)`` for all words: not the paper's, but one product.

    Where a negative is a word's target, that word goes without it.
    """
    dtype = torch.promote_types(features.dtype, torch.float32)
    features, offset = features.to(dtype), (bias - log_proposal).to(dtype)
    of_targets = (features * weight[targets].to(dtype)).sum(dim=1) + offset[targets]
    of_negatives = torch.addmm(offset[negatives], features, weight[negatives].to(dtype).T)
    of_negatives = of_negatives.masked_fill(negatives.eq(targets.unsqueeze(1)), float("-inf"))
    return _Cost.apply(torch.cat([of_targets.unsqueeze(1), of_negatives], dim=1))


class _Cost(torch.autograd.Function):
    """Of scores log w + z, the target's first, ``(words, 1 + K)``: the cost, and by them its gradient.

    With r_i = p_i / (1 - p_i), and S the sum of all r, the gradient is p_i (1 - S) + r_i of a negative, and
    p_i (1 - S) - 1 of the target. The likeliest negative may be so likely that 1 - p_i rounds to zero: there 1 - p_i is
    taken as the sum of the others' p. Of r_i, which then is huge, only p_j r_i is needed (of the others, at most one),
    and of its own gradient p_i + r_i - p_i r_i = 2 p_i.
    """

    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> Tensor:
        log_probs = torch.log_softmax(scores, dim=1)
        top, place = log_probs[:, 1:].max(dim=1, keepdim=True)
        log_others = torch.log1p(-log_probs[:, 1:].exp())
        log_others.scatter_(1, place, log_probs.scatter(1, place + 1, -torch.inf).logsumexp(dim=1, keepdim=True))
        pull = (log_probs + (top - log_others.gather(1, place))).exp_()  # p_j r of the likeliest
        ratios = (log_probs[:, 1:] - log_others).exp_().scatter_(1, place, 0.0)
        left = 1 - ratios.sum(dim=1, keepdim=True)
        gradient = log_probs.exp().mul_(left).sub_(pull)
        gradient[:, 0] -= 1
        gradient[:, 1:] += ratios
        gradient.scatter_(1, place + 1, top.exp() * (1 + left))
        ctx.save_for_backward(gradient)
        return -log_probs[:, 0].sum() - log_others.sum()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_cost: Tensor) -> Tensor:
        (gradient,) = ctx.saved_tensors
        return gradient * grad_cost


class _SampledProducts(torch.autograd.Function):
    """Of each word's features and its candidates' weights, ``(words, 1 + K)``, each product by itself.

    Random reads of memory are what it costs: it goes through the pairs by candidate wherever it can, for a batch's
    features fit in the cache of a core and the weights do not.
    """

    @staticmethod
    def forward(ctx: Any, features: Tensor, weight: Tensor, candidates: Tensor) -> Tensor:
        numbers = candidates.flatten().int()  # half the bytes: twice as fast to sort
        ordered, order = numbers.sort(stable=True)
        words = order.div(candidates.size(1), rounding_mode="floor").int()
        begins = F.pad(torch.bincount(numbers, minlength=len(weight)).cumsum(dim=0, dtype=torch.int32), (1, 0))
        ctx.save_for_backward(features, weight, numbers, order, words, begins)
        # A product is also the gradient by a feature's weight in a weighted sum; torch has it only as this operator,
        # which the backward pass of embedding_bag calls.
        by_number = torch.ops.aten._embedding_bag_per_sample_weights_backward(
            weight, features, words, begins[:-1], ordered, SUM
        )
        return torch.empty_like(by_number).index_copy_(0, order, by_number).view(candidates.shape)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        # Detached, the tables need no gradient, and embedding_bag keeps nothing for one.
        features, weight, numbers, order, words, begins = (tensor.detach() for tensor in ctx.saved_tensors)
        grad_features = F.embedding_bag(numbers.view(grad.shape), weight, mode="sum", per_sample_weights=grad)
        by_number = grad.flatten().index_select(0, order)
        grad_weight = F.embedding_bag(
            words, features, begins, mode="sum", per_sample_weights=by_number, include_last_offset=True
        )
        return grad_features, grad_weight, None


class _DenseProducts(torch.autograd.Function):
    """The same by matrix products with all weights, :data:`CHUNK_NUMBERS` scores at a time."""

    @staticmethod
    def forward(ctx: Any, features: Tensor, weight: Tensor, candidates: Tensor) -> Tensor:
        ctx.save_for_backward(features, weight, candidates)
        products = features.new_empty(candidates.shape)
        for rows in _chunks(features, weight):
            products[rows] = (features[rows] @ weight.T).gather(1, candidates[rows])
        return products

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        features, weight, candidates = ctx.saved_tensors
        grad_features, grad_weight = torch.empty_like(features), torch.zeros_like(weight)
        for rows in _chunks(features, weight):
            scattered = grad.new_zeros(len(grad[rows]), len(weight)).scatter_add_(1, candidates[rows], grad[rows])
            grad_features[rows] = scattered @ weight
            grad_weight.addmm_(scattered.T, features[rows])
        return grad_features, grad_weight, None


def _chunks(features: Tensor, weight: Tensor) -> list[slice]:
    words = max(1, CHUNK_NUMBERS // len(weight))
    return [slice(begin, begin + words) for begin in range(0, len(features), words)]
