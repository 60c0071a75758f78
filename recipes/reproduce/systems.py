"""A test set, systems' translations of it, and alignments."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from math import inf
from pathlib import Path

import numpy as np

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference.aligned_pairs import read_scores
from rnnsearch_fairseq.text.codec import END, merge_pieces
from rnnsearch_fairseq.text.lines import read_rows

Links = set[tuple[int, int]]  # source word, target word, from 0
LINK = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")
Translations = Mapping[str, Sequence[str]]  # by the system's name


def join_pieces(line: str) -> str:
    """The words of a line of pieces."""
    return " ".join(merge_pieces(line.split())[0])


def read_parallel(*paths: Path) -> list[list[str]]:
    """Read the lines of each file, without their newlines; an InputError for files that are not parallel text."""
    return [[line.removesuffix("\n") for line in lines] for lines in zip(*read_rows(*paths))]


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


def read_systems(files: Mapping[str, Path], reference: Path) -> dict[str, list[str]]:
    """Read the translations of each system, in words; an InputError if a file has not as many lines as references."""
    return {name: [join_pieces(line) for line in read_parallel(reference, path)[1]] for name, path in files.items()}


def read_links(path: Path, source: Path) -> list[Links]:
    """Read the links of each line of ``source``, as ``0-0 1-2``: the source word first, both counted from 0."""
    links = []
    for number, line in enumerate(read_parallel(path, source)[0], 1):
        matches = [LINK.fullmatch(text) for text in line.split()]
        if None in matches:
            raise InputError(f"{path}, line {number}: not links of words; write them as 0-0 1-2")
        links.append({(int(match[1]), int(match[2])) for match in matches})
    return links


def strongest_links(weights: np.ndarray) -> Links:
    """The links of an alignment ``(T + 1, S + 1)``, end-of-sentence last: each target word's highest weight."""
    end = weights.shape[1] - 1
    return {(int(i), j) for j, i in enumerate(weights[:-1].argmax(axis=1)) if i < end}


def link_scores(scores: Path, source: Path, target: Path) -> Iterator[Links]:
    """The links of each pair of two texts by a file of scores, where ``<unk>`` may stand for a piece of a word."""
    texts = zip(*read_parallel(source, target))
    for number, (pair, sides) in enumerate(zip_longest(read_scores(scores), texts, fillvalue=()), 1):
        words = [[*side.split(), END] for side in sides]
        if not pair or not sides or pair.weights.shape != (len(words[1]), len(words[0])):
            raise InputError(f"{scores}, line {number}: not the words of {source} and {target}; score them anew")
        pair.source, pair.target = words
        yield strongest_links(pair.by_word()[2])
