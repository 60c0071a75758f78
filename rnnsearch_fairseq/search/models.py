"""The networks of both papers, and ensembles, as models for a search."""

import math
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rnnsearch_fairseq.modules.decoder import Decoder, RecurrentState
from rnnsearch_fairseq.modules.encoder import Encoder
from rnnsearch_fairseq.modules.fused.forms import has_fused_form
from rnnsearch_fairseq.modules.fused.products import packed_matmul
from rnnsearch_fairseq.modules.fused.rnn import FusedDecoder
from rnnsearch_fairseq.modules.fused.search_step import SearchStep
from rnnsearch_fairseq.modules.fused.tree import FusedTreeDecoder
from rnnsearch_fairseq.modules.tree_lstm import Forest
from rnnsearch_fairseq.search.steps import SearchModel, send


def search_model(halves: Sequence[tuple[nn.Module, nn.Module]]) -> SearchModel:
    """The network of an encoder and a decoder, or the ensemble of several, for a search.

    Parameters are copied: make a new search model when they change.
    """
    members: list[SearchModel] = []
    for encoder, decoder in halves:
        kind = _FusedRNNsearch if has_fused_form(decoder, FusedDecoder) else _Network
        members.append(kind(encoder, decoder))
    return members[0] if len(members) == 1 else Ensemble(members)


class _State(NamedTuple):
    """``recurrent`` has a row for each hypothesis, and ``sentences`` are the numbers of the hypotheses' sentences.

    ``source`` has a row for each hypothesis, too, or for each sentence in a network that ``shares_source``.
    """

    recurrent: tuple[Tensor | None, ...]
    source: tuple[Tensor | None, ...]
    sentences: list[int]


class _Network:
    """One network as a :class:`SearchModel`."""

    shares_source = False

    def __init__(self, encoder: nn.Module, decoder: nn.Module) -> None:
        self.encoder, self.decoder, self.to_vocabulary = encoder, decoder, decoder.to_vocabulary
        if has_fused_form(decoder, FusedTreeDecoder):
            times_weight = packed_matmul(decoder.to_vocabulary.weight.detach())
            self.to_vocabulary = partial(times_weight, summand=decoder.to_vocabulary.bias)

    def begin(self, words: Tensor, forest: Forest | None) -> _State:
        return _State(*self.decoder.begin(self.encoder(words, forest)), list(range(len(words))))

    def step(self, words: Tensor, state: _State) -> tuple[Tensor, Tensor | None, _State]:
        scores, weights, recurrent = self.score(words, state)
        precise = scores if scores.dtype.itemsize >= 4 else scores.float()
        return precise.log_softmax(dim=1), weights, state._replace(recurrent=recurrent)

    def score(self, words: Tensor, state: _State) -> tuple[Tensor, Tensor | None, Any]:
        """Unnormalised log-probabilities ``(rows, K_y)``, the attention and the new ``recurrent``."""
        features, weights, recurrent = self.decoder(words.unsqueeze(1), state.recurrent, state.source)
        return self.to_vocabulary(features[:, 0]), None if weights is None else weights[:, 0], recurrent

    def select(self, state: _State, rows: Sequence[int]) -> _State:
        if rows == list(range(len(state.sentences))):
            return state
        sentences = [state.sentences[row] for row in rows]
        before, after, source_rows = state.sentences, sentences, rows
        if self.shares_source:
            before, after = dict.fromkeys(before), dict.fromkeys(after)
            source_rows = [row for row, number in enumerate(before) if number in after]
        device = state.recurrent[0].device
        source = state.source
        if before != after:
            source = select_rows(source, send(source_rows, device))
        return _State(select_rows(state.recurrent, send(rows, device)), source, sentences)


def select_rows(value: Any, rows: Tensor) -> Any:
    """The ``rows`` of each tensor in a tuple, which may hold other tuples, numbers and None."""
    if isinstance(value, tuple):
        chosen = (select_rows(item, rows) for item in value)
        return type(value)(*chosen) if hasattr(value, "_fields") else tuple(chosen)
    return value.index_select(0, rows) if isinstance(value, Tensor) else value


class _FusedRNNsearch(_Network):
    shares_source = True

    def __init__(self, encoder: Encoder, decoder: Decoder) -> None:
        super().__init__(encoder, decoder)
        self.search_step = SearchStep(decoder)

    def begin(self, words: Tensor, forest: Forest | None) -> _State:
        state = super().begin(words, forest)
        return state._replace(source=self.search_step.prepare_memory(state.source))

    def score(self, words: Tensor, state: _State) -> tuple[Tensor, Tensor | None, RecurrentState]:
        return self.search_step(words, state.recurrent, state.source, list(Counter(state.sentences).values()))


class Ensemble:
    """Several models with one target vocabulary: the mean of their probabilities, and of their attention."""

    def __init__(self, members: Sequence[SearchModel]) -> None:
        self.members = members

    def begin(self, words: Tensor, forest: Forest | None) -> list[Any]:
        return [member.begin(words, forest) for member in self.members]

    def step(self, words: Tensor, state: list[Any]) -> tuple[Tensor, Tensor | None, list[Any]]:
        steps = [member.step(words, own) for member, own in zip(self.members, state)]
        log_probs, weights, states = zip(*steps)
        mean = torch.stack(log_probs).logsumexp(dim=0) - math.log(len(self.members))
        return mean, mean_attention(weights), list(states)

    def select(self, state: list[Any], rows: Sequence[int]) -> list[Any]:
        return [member.select(own, rows) for member, own in zip(self.members, state)]


def mean_attention(weights: Sequence[Tensor | None]) -> Tensor | None:
    """The mean of the members' attention ``(..., columns)``; None if no member has any.

    A member that reads no trees has no columns of phrases: its weights of phrases are zero.
    """
    present = [tensor for tensor in weights if tensor is not None]
    columns = max((tensor.size(-1) for tensor in present), default=0)
    filled = [F.pad(tensor, (0, columns - tensor.size(-1))) for tensor in present]
    return torch.stack(filled).mean(dim=0) if filled else None
