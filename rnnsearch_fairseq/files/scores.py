"""Read the files that ``rnnsearch score --format jsonl`` writes, for what aligns words by them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rnnsearch_fairseq.errors import InputError

FIELDS = ("id", "source", "target", "alignment")
TREE_FIELDS = ("phrases", "phrase_attention")
CURE = "give what rnnsearch score --format jsonl wrote"


@dataclass(frozen=True, eq=False)
class AlignedPair:
    """A sentence pair and its alignment. Words include end-of-sentence; S source words, T target words, P phrases.

    ``number`` counts from 0, and ``where`` names file and line, for messages. ``source`` and ``target`` are the words
    as the model sees them: unknown ones are ``<unk>``. ``alignment`` is ``(T, S)``. Of models that read trees,
    ``phrases`` are pairs of a first word and the word after the last one, none without a parse, and
    ``phrase_attention`` is ``(T, P)``; of others, both are None. Weights are finite and in float64. Whether the phrases
    are those of a tree is not checked.
    """

    number: int
    where: str
    source: list[str]
    target: list[str]
    alignment: np.ndarray
    phrases: list[tuple[int, int]] | None = None
    phrase_attention: np.ndarray | None = None


def read_scores(path: Path) -> Iterator[AlignedPair]:
    """The sentence pairs of a file of scores, a line at a time.

    Raises:
        InputError: the file cannot be read or is empty; or, when it comes to it, a line is not a score, has no
            alignment, or is not in its place.
    """
    number = -1
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines):
                yield _parse(line, number, f"{path}, line {number + 1}")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); {CURE}") from error
    if number < 0:
        raise InputError(f"{path}: the file is empty; {CURE}")


def _parse(line: bytes, number: int, where: str) -> AlignedPair:
    record = _record(line, where)
    if record["id"] != number:
        raise InputError(
            f"{where}: the score of sentence {record['id']}, not {number}; give each file that "
            "rnnsearch score wrote by itself, with all of its lines in their order"
        )
    if record["alignment"] is None:
        raise InputError(f"{where}: no alignment; score with a model that has attention, like bahdanau_gru")
    source, target = (_words(record, side, where) for side in ("source", "target"))
    alignment = _weights(record, "alignment", (len(target), len(source)), where)
    if "phrases" not in record:
        return AlignedPair(number, where, source, target, alignment)
    phrases = _phrases(record, where)
    to_phrases = _weights(record, "phrase_attention", (len(target), len(phrases)), where)
    return AlignedPair(number, where, source, target, alignment, phrases, to_phrases)


def _record(line: bytes, where: str) -> dict[str, Any]:
    """An object with all of its fields, whatever they hold."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        raise _not_a_score(where, "not JSON") from None
    if not isinstance(record, dict):
        raise _not_a_score(where, "no object")
    wanted = FIELDS + TREE_FIELDS if any(field in record for field in TREE_FIELDS) else FIELDS
    missing = [f'no "{field}"' for field in wanted if field not in record]
    if missing:
        raise _not_a_score(where, ", ".join(missing))
    return record


def _words(record: dict[str, Any], field: str, where: str) -> list[str]:
    words = record[field]
    if not (isinstance(words, list) and words and all(isinstance(word, str) for word in words)):
        raise _not_a_score(where, f'"{field}" is no list of words')
    return words


def _phrases(record: dict[str, Any], where: str) -> list[tuple[int, int]]:
    try:
        phrases = [(start, end) for start, end in record["phrases"]]
    except (TypeError, ValueError):
        phrases = None
    if phrases is None or any(type(place) is not int for phrase in phrases for place in phrase):
        raise _not_a_score(where, '"phrases" is no list of pairs of numbers')
    return phrases


def _weights(record: dict[str, Any], field: str, shape: tuple[int, int], where: str) -> np.ndarray:
    try:
        weights = np.array(record[field], dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        weights = None
    if weights is None or not np.isfinite(weights).all():
        raise _not_a_score(where, f'"{field}" is no matrix of numbers')
    if weights.shape != shape:
        raise _not_a_score(where, f'"{field}" has the shape {weights.shape} and not {shape}')
    return weights


def _not_a_score(where: str, why: str) -> InputError:
    return InputError(f"{where}: not a score ({why}); {CURE}")
