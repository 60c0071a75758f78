"""The networks of both papers, and ensembles, as models for a search."""

import math
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rnnsearch_fairseq.modules.fused.forms import has_fused_form
from rnnsearch_fairseq.modules.fused.products import packed_matmul
from rnnsearch_fairseq.modules.fused.rnn import FusedDecoder
from rnnsearch_fairseq.modules.fused.search_step import SearchStep
from rnnsearch_fairseq.modules.fused.tree import FusedTreeDecoder
from rnnsearch_fairseq.modules.tree_lstm import Forest


class SearchModel:
    """A network, or an ensemble of several, as a search sees it. A state holds rows: the hypotheses of all sentences.

    The rows of a sentence are adjacent, and the sentences keep the order of the batch. An ensemble's networks have one
    target vocabulary; its probabilities and its attention are the means of theirs. Parameters are copied: make a new
    search model when they change.
    """

    def __init__(self, halves: Sequence[tuple[nn.Module, nn.Module]]) -> None:
        """``halves`` are the encoder and decoder of each network."""
        self.networks = [_Network(encoder, decoder) for encoder, decoder in halves]

    def begin(self, words: Tensor, forest: Forest | None) -> list["_State"]:
        """The state before the first target word, one row a sentence.

        Args:
            words: int64 ``(batch, src_len)``, each sentence ended by end-of-sentence, padded right or left.
            forest: the sentences' trees, for a model that reads trees.
        """
        return [network.begin(words, forest) for network in self.networks]

    def step(self, words: Tensor, state: list["_State"]) -> tuple[Tensor, Tensor | None, list["_State"]]:
        """Score the next words, given the last word of each row ``(rows,)``, end-of-sentence at the beginning.

        Returns:
            Log-probabilities in float32 at least, which the caller may overwrite, ``(rows, K_y)``; the attention
            ``(rows, source columns)`` or None; and the state with these words.
        """
        log_probs, weights, states = zip(*(network.step(words, own) for network, own in zip(self.networks, state)))
        if len(states) == 1:
            return log_probs[0], weights[0], list(states)
        mean = torch.stack(log_probs).logsumexp(dim=0) - math.log(len(states))
        return mean, mean_attention(weights), list(states)

    def select(self, state: list["_State"], rows: Sequence[int]) -> list["_State"]:
        """The state of the chosen ``rows``, in this order; a row may be chosen several times."""
        return [network.select(own, rows) for network, own in zip(self.networks, state)]


class _State(NamedTuple):
    """``recurrent`` has a row for each hypothesis, and ``sentences`` are the numbers of the hypotheses' sentences.

    ``source`` has a row for each hypothesis, too, or for each sentence in a network with a ``search_step``.
    """

    recurrent: tuple[Tensor | None, ...]
    source: tuple[Tensor | None, ...]
    sentences: list[int]


class _Network:
    """One network of a :class:`SearchModel`."""

    def __init__(self, encoder: nn.Module, decoder: nn.Module) -> None:
        self.encoder, self.decoder, self.to_vocabulary = encoder, decoder, decoder.to_vocabulary
        self.search_step = SearchStep(decoder) if has_fused_form(decoder, FusedDecoder) else None
        if has_fused_form(decoder, FusedTreeDecoder):
            times_weight = packed_matmul(decoder.to_vocabulary.weight.detach())
            self.to_vocabulary = partial(times_weight, summand=decoder.to_vocabulary.bias)

    def begin(self, words: Tensor, forest: Forest | None) -> _State:
        recurrent, source = self.decoder.begin(self.encoder(words, forest))
        if self.search_step is not None:
            source = self.search_step.prepare_memory(source)
        return _State(recurrent, source, list(range(len(words))))

    def step(self, words: Tensor, state: _State) -> tuple[Tensor, Tensor | None, _State]:
        if self.search_step is not None:
            sizes = list(Counter(state.sentences).values())
            scores, weights, recurrent = self.search_step(words, state.recurrent, state.source, sizes)
        else:
            features, weights, recurrent = self.decoder(words.unsqueeze(1), state.recurrent, state.source)
            scores, weights = self.to_vocabulary(features[:, 0]), None if weights is None else weights[:, 0]
        precise = scores if scores.dtype.itemsize >= 4 else scores.float()
        return precise.log_softmax(dim=1), weights, state._replace(recurrent=recurrent)

    def select(self, state: _State, rows: Sequence[int]) -> _State:
        if rows == list(range(len(state.sentences))):
            return state
        sentences = [state.sentences[row] for row in rows]
        before, after, source_rows = state.sentences, sentences, rows
        if self.search_step is not None:
            before, after = dict.fromkeys(before), dict.fromkeys(after)
            source_rows = [row for row, number in enumerate(before) if number in after]
        device = state.recurrent[0].device
        source = state.source if before == after else select_rows(state.source, send(source_rows, device))
        return _State(select_rows(state.recurrent, send(rows, device)), source, sentences)


def send(values: Sequence[Any], device: torch.device) -> Tensor:
    """``values`` as a tensor on ``device``, without waiting for a GPU's earlier work: float64, int64 or bool."""
    tensor = torch.from_numpy(np.array(values))  # NumPy converts lists several times as fast as PyTorch
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor


def select_rows(value: Any, rows: Tensor) -> Any:
    """The ``rows`` of each tensor in a tuple, which may hold other tuples, numbers and None."""
    if isinstance(value, tuple):
        chosen = (select_rows(item, rows) for item in value)
        return type(value)(*chosen) if hasattr(value, "_fields") else tuple(chosen)
    return value.index_select(0, rows) if isinstance(value, Tensor) else value


def mean_attention(weights: Sequence[Tensor | None]) -> Tensor | None:
    """The mean of the members' attention ``(..., columns)``; None if no member has any.

    A member that reads no trees has no columns of phrases: its weights of phrases are zero.
    """
    present = [tensor for tensor in weights if tensor is not None]
    columns = max((tensor.size(-1) for tensor in present), default=0)
    filled = [F.pad(tensor, (0, columns - tensor.size(-1))) for tensor in present]
    return torch.stack(filled).mean(dim=0) if filled else None
