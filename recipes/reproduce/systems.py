"""A test set, systems' translations of it, and alignments."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.text.lines import check_text_files, read_lines
from rnnsearch_fairseq.text.words import merge_pieces

Links = set[tuple[int, int]]  # source word, target word, from 0
LINK = re.compile(r"([0-9]{1,9})([-sS?pP])([0-9]{1,9})")
POSSIBLE = "?pP"
Translations = Mapping[str, Sequence[str]]  # by the system's name


def join_pieces(line: str) -> str:
    """The words of a line of pieces."""
    return " ".join(merge_pieces(line.split())[0])


def read_parallel(*paths: Path) -> list[list[str]]:
    """Read the lines of each file, without their newlines; an InputError for files that are not parallel text."""
    check_text_files(*paths)
    return [[line.removesuffix("\n") for line in read_lines(path)] for path in paths]


@dataclass(frozen=True)
class TestSet:
    """Sentences and their reference translations, each a line of tokens, in pieces where the models read pieces."""

    __test__ = False  # pytest would collect it

    source: Sequence[str]
    reference: Sequence[str]

    def __len__(self) -> int:
        return len(self.source)

    @cached_property
    def reference_words(self) -> list[str]:
        """The references, their pieces joined."""
        return [join_pieces(line) for line in self.reference]

    @cached_property
    def lengths(self) -> list[int]:
        """The words of each source, with punctuation and without end-of-sentence; an empty source counts as one."""
        return [max(1, len(merge_pieces(line.split())[0])) for line in self.source]

    def select_length(self, least: int, most: float = inf) -> list[int]:
        """The numbers of the sentences of ``least`` to ``most`` source words."""
        return [number for number, length in enumerate(self.lengths) if least <= length <= most]

    def bins(self, width: int, longest: float = inf) -> list[tuple[int, float]]:
        """The first and last length of each bin of ``width`` words; all beyond ``longest`` words are one bin."""
        firsts = range(1, int(min(max(self.lengths), longest)) + 1, width)
        bins = [(first, min(first + width - 1, longest)) for first in firsts]
        return [*bins, (longest + 1, inf)] if max(self.lengths) > longest else bins


def read_test_set(source: Path, reference: Path) -> TestSet:
    """Read a test set.

    Raises:
        InputError: a file is bad, or the two differ in their numbers of lines.
    """
    return TestSet(*read_parallel(source, reference))


def read_systems(files: Mapping[str, Path], reference: Path) -> dict[str, list[str]]:
    """Read the translations of each system, in words.

    Raises:
        InputError: a file is bad, or has not as many lines as the references.
    """
    return {name: [join_pieces(line) for line in read_parallel(reference, path)[1]] for name, path in files.items()}


class Gold(NamedTuple):
    """Links of a sentence; ``possible`` contains ``sure``."""

    sure: Links
    possible: Links


def read_gold(path: Path) -> list[Gold]:
    """Read the gold links of each line.

    A line has the links of a sentence, separated by spaces, the source word first, both counted from 0: ``1-2`` and
    ``1S2`` are sure, ``1?2`` and ``1P2`` possible. Sure links are possible, too.

    Raises:
        InputError: the file is bad.
    """
    return [_parse_links(line, f"{path}, line {number}") for number, line in enumerate(read_parallel(path)[0], 1)]


def _parse_links(line: str, where: str) -> Gold:
    sure, possible = set(), set()
    for text in line.split():
        match = LINK.fullmatch(text)
        if not match:
            raise InputError(f"{where}: {text!r} is no link; write them as 1-2 (sure) and 1?2 (possible)")
        (possible if match[2] in POSSIBLE else sure).add((int(match[1]), int(match[3])))
    return Gold(sure, sure | possible)


def strongest_links(weights: np.ndarray) -> Links:
    """The links of an alignment ``(T + 1, S + 1)``, end-of-sentence last: each target word's highest weight."""
    end = weights.shape[1] - 1
    return {(int(i), j) for j, i in enumerate(weights[:-1].argmax(axis=1)) if i < end}
