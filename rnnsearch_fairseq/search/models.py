"""The networks of both papers, and ensembles, as models for a search."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rnnsearch_fairseq.modules.attention import Memory
from rnnsearch_fairseq.modules.decoder import Decoder
from rnnsearch_fairseq.modules.encoder import Encoder
from rnnsearch_fairseq.modules.fused.forms import has_fused_form
from rnnsearch_fairseq.modules.fused.products import packed_matmul
from rnnsearch_fairseq.modules.fused.rnn import FusedDecoder
from rnnsearch_fairseq.modules.fused.search_step import RecurrentState, SearchStep
from rnnsearch_fairseq.modules.fused.tree import FusedTreeDecoder
from rnnsearch_fairseq.modules.tree_decoder import TreeDecoder
from rnnsearch_fairseq.modules.tree_encoder import TreeEncoder
from rnnsearch_fairseq.modules.tree_lstm import Forest
from rnnsearch_fairseq.search.interface import SearchModel

Tensors = TypeVar("Tensors", bound=tuple[Tensor | None, ...])


def search_model(halves: Sequence[tuple[nn.Module, nn.Module]]) -> SearchModel:
    """The network of an encoder and a decoder, or the ensemble of several, for a search.

    Parameters are copied: make a new search model when they change.
    """
    members: list[SearchModel] = []
    for encoder, decoder in halves:
        kind = _FusedRNNsearch if has_fused_form(decoder, FusedDecoder) else _RNNsearch
        members.append((_Tree2Seq if isinstance(decoder, TreeDecoder) else kind)(encoder, decoder))
    return members[0] if len(members) == 1 else Ensemble(members)


class _State(NamedTuple):
    """``recurrent`` and ``source`` have a row for each hypothesis; ``sentences`` are the numbers of their sentences."""

    recurrent: tuple[Tensor | None, ...]
    source: tuple[Tensor | None, ...]
    sentences: list[int]


class _Network:
    """A network that computes each word with its own ``step``."""

    def __init__(self, encoder: nn.Module, decoder: nn.Module) -> None:
        self.encoder, self.decoder = encoder, decoder

    def select(self, state: _State, rows: Sequence[int]) -> _State:
        if rows == list(range(len(state.sentences))):
            return state
        sentences = [state.sentences[row] for row in rows]
        source = state.source if sentences == state.sentences else _take(state.source, rows)
        return _State(_take(state.recurrent, rows), source, sentences)


class _Recurrent(NamedTuple):
    """The arguments of a decoder's next call."""

    state: Tensor
    context: Tensor | None


class _RNNsearch(_Network):
    def begin(self, words: Tensor, forest: Forest | None) -> _State:
        state, memory = self.decoder.start(self.encoder(words))
        return _State(_Recurrent(state, None), memory, list(range(len(words))))

    def step(self, words: Tensor, state: _State) -> tuple[Tensor, Tensor | None, _State]:
        output = self.decoder(words.unsqueeze(1), memory=state.source, **state.recurrent._asdict())
        scores = self.decoder.to_vocabulary(output.features.squeeze(1))
        weights = None if output.weights is None else output.weights.squeeze(1)
        return _log_softmax(scores), weights, state._replace(recurrent=_Recurrent(output.state, output.context))


class _Tree2Seq(_Network):
    def __init__(self, encoder: TreeEncoder, decoder: TreeDecoder) -> None:
        super().__init__(encoder, decoder)
        self.to_vocabulary: Callable[[Tensor], Tensor] = decoder.to_vocabulary
        if has_fused_form(decoder, FusedTreeDecoder):
            times_weight = packed_matmul(decoder.to_vocabulary.weight.detach())
            self.to_vocabulary = partial(times_weight, summand=decoder.to_vocabulary.bias)

    def begin(self, words: Tensor, forest: Forest | None) -> _State:
        source = self.encoder(words, forest)
        start = self.decoder.initial_state(source)
        return _State(start, source._replace(end=None, root=None), list(range(len(words))))

    def step(self, words: Tensor, state: _State) -> tuple[Tensor, Tensor, _State]:
        features, weights, recurrent = self.decoder.step(words, state.recurrent, state.source)
        return _log_softmax(self.to_vocabulary(features)), weights, state._replace(recurrent=recurrent)


class _FusedState(NamedTuple):
    """``memory`` has a row for each sentence, and ``recurrent`` for each hypothesis; ``sizes`` count these."""

    recurrent: RecurrentState
    memory: Memory
    sizes: list[int]


class _FusedRNNsearch:
    def __init__(self, encoder: Encoder, decoder: Decoder) -> None:
        self.encoder, self.decoder, self.search_step = encoder, decoder, SearchStep(decoder)

    def begin(self, words: Tensor, forest: Forest | None) -> _FusedState:
        state, memory = self.decoder.start(self.encoder(words))
        return _FusedState(RecurrentState(state), self.search_step.prepare_memory(memory), [1] * len(words))

    def step(self, words: Tensor, state: _FusedState) -> tuple[Tensor, Tensor | None, _FusedState]:
        scores, weights, recurrent = self.search_step(words, *state)
        return _log_softmax(scores), weights, state._replace(recurrent=recurrent)

    def select(self, state: _FusedState, rows: Sequence[int]) -> _FusedState:
        sentences = [number for number, size in enumerate(state.sizes) for _ in range(size)]
        if rows == list(range(len(sentences))):
            return state
        counts = Counter(sentences[row] for row in rows)
        memory = state.memory if len(counts) == len(state.sizes) else _take(state.memory, list(counts))
        return _FusedState(_take(state.recurrent, rows), memory, list(counts.values()))


def _take(tensors: Tensors, rows: Sequence[int]) -> Tensors:
    """The chosen ``rows`` of each tensor of a named tuple; None stays None."""
    index = torch.tensor(rows, device=tensors[0].device)
    return type(tensors)(*(None if tensor is None else tensor.index_select(0, index) for tensor in tensors))


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


def _log_softmax(scores: Tensor) -> Tensor:
    return (scores if scores.dtype.itemsize >= 4 else scores.float()).log_softmax(dim=1)
