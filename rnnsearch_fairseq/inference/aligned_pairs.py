"""Sentence pairs with a model's scores and attention, and their lines of JSON."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rnnsearch_fairseq.errors import InputError, quote
from rnnsearch_fairseq.text.codec import END, merge_pieces
from rnnsearch_fairseq.text.lines import open_bytes

UNKNOWN = "<unk>"  # in place of each word that the model does not know
NO_ALIGNMENT = "the model has no alignment (RNNencdec, --context last); load an RNNsearch model"


@dataclass(eq=False)
class AlignedPair:
    """A sentence and its translation, with the model's scores and attention: S source words, T target words, P phrases.

    Each sentence ends with end-of-sentence; a text may have several. Tensors are on the CPU.

    Attributes:
        source, target: the model's words or subwords; in a file, unknown ones are ``<unk>``.
        source_unknown, target_unknown: whether each word is unknown to the model.
        text: the translation as plain text; None if it was given.
        score: of a translation that a search found, the value that ranks it (by default the mean ln p of its words;
            minus infinity if the search failed). Of a given translation, its ln p.
        logprobs: ``(T,)``, ln p of each target word.
        blocks: the attention matrix of each sentence of the text; empty if the model has no attention.
        phrases: of models that read trees, the first word of each phrase and the word after its last one, empty without
            a parse; None for other models.
        phrase_weights: ``(T, P)``, the attention to phrases, or None like ``phrases``. Row t of :attr:`weights` and row
            t of this sum to one.
        faults: what a translator should check in the text, such as a placeholder that it lacks.
        lost_names: names of the source for which the likeliest translation has a symbol of markup.
        number: the pair's position in its file, from 0.
    """

    source: list[str]
    target: list[str]
    source_unknown: Sequence[bool] = ()
    target_unknown: Sequence[bool] = ()
    text: str | None = None
    score: float | None = None
    logprobs: Tensor | None = None
    blocks: Sequence[Tensor] = ()
    phrases: list[tuple[int, int]] | None = None
    phrase_weights: Tensor | None = None
    faults: Sequence[str] = ()
    lost_names: Sequence[str] = ()
    number: int = 0

    @property
    def weights(self) -> Tensor | None:
        """``(T, S)``, the attention to words, zero between sentences; None if the model has no attention."""
        return torch.block_diag(*self.blocks) if self.blocks else None

    @property
    def words(self) -> list[str]:
        return self.target[:-1] if self.target[-1:] == [END] else self.target

    def by_word(self) -> tuple[list[str], list[str], np.ndarray]:
        """Source words, target words, and the attention between them, ``(target words, source words)``.

        End-of-sentence is the last of both. The weights of the pieces of a source word are added, since these pieces
        share the attention. The rows of the pieces of a target word are averaged, since each row sums to one. So every
        row still sums to one.

        Raises:
            InputError: the model has no attention.
        """
        if self.weights is None:
            raise InputError(NO_ALIGNMENT)
        (source, source_owner), (target, target_owner) = merge_pieces(self.source), merge_pieces(self.target)
        by_word = np.zeros((len(target), len(source)))
        np.add.at(by_word, (np.array(target_owner)[:, None], np.array(source_owner)[None]), self.weights.numpy())
        return source, target, by_word / np.bincount(target_owner)[:, None]

    def to_json(self) -> str:
        """The pair as a line of JSON, described in ``rnnsearch score --help``; numbers have six decimals."""
        sides = ((self.source, self.source_unknown), (self.target, self.target_unknown))
        source, target = ([UNKNOWN if unknown else word for word, unknown in zip(*side)] for side in sides)
        logprob = round(self.logprobs.sum().item(), 6)
        record = {"id": self.number, "source": source, "target": target, "logprob": logprob}
        record |= {"word_logprobs": _rounded(self.logprobs), "alignment": _rounded(self.weights)}
        if self.phrases is not None:
            record |= {"phrases": self.phrases, "phrase_attention": _rounded(self.phrase_weights)}
        return json.dumps(record, ensure_ascii=False)


def join_pairs(pairs: Sequence[AlignedPair]) -> AlignedPair:
    """The pair of a text, without its text, from the pairs of its sentences; its score is the mean of their scores."""
    if len(pairs) == 1:
        return pairs[0]
    parts = {name: [getattr(pair, name) for pair in pairs] for name in vars(pairs[0])}
    lists = ("source", "target", "source_unknown", "target_unknown", "blocks")
    joined = AlignedPair(**{name: [*chain.from_iterable(parts[name])] for name in lists})
    joined.score, joined.logprobs = sum(parts["score"]) / len(pairs), torch.cat(parts["logprobs"])
    if pairs[0].phrases is not None:  # without a parse
        joined.phrases, joined.phrase_weights = [], torch.cat(parts["phrase_weights"])
    return joined


def read_scores(path: Path) -> Iterator[AlignedPair]:
    """Yield the pairs of a file of scores; an InputError names the first line out of order or without alignment."""
    cure, number = "give what rnnsearch score or rnnsearch translate --alignments wrote", -1
    with open_bytes(path) as lines:
        for number, line in enumerate(lines):
            where = f"{path}, line {number + 1}"
            try:
                pair = _read_pair(json.loads(line), number)
            except (ValueError, TypeError, KeyError) as error:
                raise InputError(f"{where}: not a score that can be used ({quote(repr(error))}); {cure}") from None
            yield pair
    if number < 0:
        raise InputError(f"{path}: the file is empty; {cure}")


def _read_pair(record: Any, number: int) -> AlignedPair:
    """Make a pair from the ``number``-th record of `AlignedPair.to_json`; its weights are finite, and in float64."""
    source, target = record["source"], record["target"]
    if record["id"] != number:
        raise ValueError(f"sentence {record['id']} and not {number}")
    unknown = ([word == UNKNOWN for word in words] for words in (source, target))
    pair = AlignedPair(source, target, *unknown, number=number)
    pair.blocks = [_weights(record["alignment"], (len(target), len(source)))]
    if "phrases" in record:
        pair.phrases = [(start, end) for start, end in record["phrases"]]
        pair.phrase_weights = _weights(record["phrase_attention"], (len(target), len(pair.phrases)))
    return pair


def _rounded(tensor: Tensor | None) -> list[Any] | None:
    return None if tensor is None else np.round(tensor.double().numpy(), 6).tolist()


def _weights(rows: Any, shape: tuple[int, int]) -> Tensor:
    """Make a matrix of finite weights; a ValueError or a TypeError if they are not."""
    weights = np.array(rows, dtype=np.float64)
    if weights.shape != shape or not np.isfinite(weights).all():
        raise ValueError(f"there are no {shape[0]} rows of {shape[1]} weights; a model without attention has none")
    return torch.from_numpy(weights)
