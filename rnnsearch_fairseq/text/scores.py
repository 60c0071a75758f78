"""Sentence pairs with a model's scores and alignments, and the JSON lines of ``rnnsearch score``."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rnnsearch_fairseq.errors import InputError, in_short
from rnnsearch_fairseq.text.lines import open_bytes

UNKNOWN = "<unk>"  # in place of each word that the model does not know
CURE = "give what rnnsearch score or rnnsearch translate --alignments wrote, with all lines in order"


@dataclass(eq=False)
class AlignedPair:
    """A source sentence, its translation, and the attention weights between their words, all on the CPU.

    Words include end-of-sentence: S source words, T target words, P phrases.

    Attributes:
        source, target: the words as the model sees them: unknown ones are ``<unk>``.
        alignment: ``(T, S)``; None if the model has no attention, or if it was not printed.
        phrases: the spans of :meth:`~rnnsearch_fairseq.text.trees.Tree.spans`, empty without a parse; None if the model
            does not read trees.
        phrase_attention: ``(T, P)``, or None like ``phrases``. Row t of ``alignment`` and row t of this sum to one.
        number: the pair's position in its file, from 0.
        where: the pair's file and line, for messages.
    """

    source: list[str]
    target: list[str]
    alignment: Tensor | None = None
    phrases: list[tuple[int, int]] | None = None
    phrase_attention: Tensor | None = None
    number: int = 0
    where: str = ""


def read_scores(path: Path) -> Iterator[AlignedPair]:
    """Yield the pairs of a file of scores, with finite alignment weights in float64.

    Whether the phrases form a tree is not checked.

    Raises:
        InputError: the file cannot be read or is empty, or a line, once it is reached, is not a score, has no
            alignment, or is out of order.
    """
    number = -1
    with open_bytes(path) as lines:
        for number, line in enumerate(lines):
            yield _parse(line, number, f"{path}, line {number + 1}")
    if number < 0:
        raise InputError(f"{path}: the file is empty; {CURE}")


def _parse(line: bytes, number: int, where: str) -> AlignedPair:
    try:
        record = json.loads(line)
        if not isinstance(record, dict):
            raise ValueError("no object")
        if record["id"] != number:
            raise ValueError(f"sentence {record['id']} and not {number}")
        if record["alignment"] is None:
            raise ValueError("no alignment, since the model has no attention")
        source, target = record["source"], record["target"]
        for words in (source, target):
            if not (isinstance(words, list) and words and all(isinstance(word, str) for word in words)):
                raise ValueError("source or target is no list of words")
        alignment = _weights(record["alignment"], (len(target), len(source)))
        pair = AlignedPair(source, target, alignment, number=number, where=where)
        if "phrases" in record:
            pair.phrases = [(start, end) for start, end in record["phrases"]]
            if any(type(place) is not int for phrase in pair.phrases for place in phrase):
                raise ValueError("phrases are not pairs of numbers")
            pair.phrase_attention = _weights(record["phrase_attention"], (len(target), len(pair.phrases)))
        return pair
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        why = f"it has no {error}" if isinstance(error, KeyError) else in_short(error)
        raise InputError(f"{where}: not a score that can be used ({why}); {CURE}") from None


def _weights(rows: Any, shape: tuple[int, int]) -> Tensor:
    """A matrix of finite weights; another one is a ValueError or a TypeError."""
    weights = np.array(rows, dtype=np.float64)
    if weights.shape != shape or not np.isfinite(weights).all():
        raise ValueError(f"its weights are not {shape[0]} rows of {shape[1]} numbers")
    return torch.from_numpy(weights)
