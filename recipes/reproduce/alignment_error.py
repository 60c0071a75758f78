"""Alignment error rate against gold alignments (Och and Ney, 2003).

Gold alignments belong to reference translations, so they are compared with a model's alignments of these, the output of
``rnnsearch score``. Pieces are joined to words before; gold alignments do not count end-of-sentence.

A line of gold alignments has the links of a sentence, separated by spaces, the source word first, both counted from 0:
``1-2`` and ``1S2`` are sure, ``1?2`` and ``1P2`` possible. Sure links are possible, too.

With A the model's links, S the sure and P the possible ones, of all sentences together: precision is |A∩P| / |A|,
recall |A∩S| / |S|, and the error rate 1 - (|A∩S| + |A∩P|) / (|A| + |S|). A target word is linked to the source word of
highest weight, the first of equals, and to none if end-of-sentence has the highest weight.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from recipes.reproduce.document import table
from recipes.reproduce.systems import read_parallel
from rnnsearch_fairseq.errors import InputError

LINK = re.compile(r"([0-9]{1,9})([-sS?pP])([0-9]{1,9})")
POSSIBLE = "?pP"
Links = set[tuple[int, int]]  # source word, target word, from 0


class Gold(NamedTuple):
    """Links of a sentence; ``possible`` contains ``sure``."""

    sure: Links
    possible: Links


class AlignmentError(NamedTuple):
    """Error rate, precision and recall, from 0 to 1; and how many links the model has."""

    rate: float
    precision: float
    recall: float
    links: int


def read_gold(path: Path) -> list[Gold]:
    """Read the gold links of each line.

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


def alignment_error(links: Sequence[Links], gold: Sequence[Gold]) -> AlignmentError:
    """Compare a model's links of each sentence with gold ones.

    Raises:
        InputError: the two have different numbers of sentences.
    """
    if len(links) != len(gold):
        raise InputError(f"a model aligned {len(links)} sentences, and {len(gold)} have gold alignments; give the same")
    counts = np.zeros(4)
    for aligned, (sure, possible) in zip(links, gold):
        counts += [len(aligned), len(sure), len(aligned & sure), len(aligned & possible)]
    found, sure, hits, possible_hits = counts
    rate = 1 - (hits + possible_hits) / max(1, found + sure)
    return AlignmentError(rate, possible_hits / max(1, found), hits / max(1, sure), int(found))


def error_table(errors: Mapping[str, AlignmentError]) -> str:
    """A row for each system, in percent."""
    rows = [
        [name, *(f"{100 * share:.2f}" for share in error[:3]), f"{error.links:,}"] for name, error in errors.items()
    ]
    return table(["model", "alignment error rate", "precision", "recall", "links"], rows)
