"""Alignment error rate against gold alignments (Och and Ney, 2003).

``python -m recipes.reproduce.alignment_error GOLD NAME=FILE... [--one-based] [--output FILE]``

Gold alignments belong to reference translations, so each FILE holds a model's alignments of these: the output of
``rnnsearch score``. Its sentences stand in the order of GOLD. Pieces are joined to words before they are compared; GOLD
does not count end-of-sentence.

A line of GOLD has the links of a sentence, separated by spaces: ``1-2`` and ``1S2`` are sure, ``1?2`` and ``1P2``
possible. The source word comes first; words are counted from 0 (Pharaoh), or from 1 with --one-based (Talp). Sure links
are possible, too.

With A the model's links, S the sure and P the possible ones, of all sentences together: precision is |A∩P| / |A|,
recall |A∩S| / |S|, and the error rate 1 - (|A∩S| + |A∩P|) / (|A| + |S|). A target word is linked to the source word of
highest weight, the first of equals, and to none if end-of-sentence has the highest weight.
"""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from recipes.reproduce.command import NamedFiles, command_line
from recipes.reproduce.document import Table, markdown_block, write_text
from rnnsearch_fairseq.errors import InputError, print_without_traceback
from rnnsearch_fairseq.plots.words import word_alignment
from rnnsearch_fairseq.text.lines import read_parallel
from rnnsearch_fairseq.text.scores import AlignedPair, read_scores

LINK = re.compile(r"([0-9]{1,9})([-sS?pP])([0-9]{1,9})")
POSSIBLE = "?pP"
T = TypeVar("T")
Links = set[tuple[int, int]]  # source word, target word, from 0


@dataclass(frozen=True)
class Gold:
    """Links of a sentence; ``possible`` contains ``sure``."""

    sure: Links
    possible: Links


@dataclass(frozen=True)
class AlignmentError:
    """Numbers of links: the model's, the sure ones, the model's that are sure, and the model's that are possible."""

    links: int
    sure: int
    links_sure: int
    links_possible: int

    @property
    def precision(self) -> float:
        """The share of the model's links that are possible; 1 if it has none."""
        return self.links_possible / self.links if self.links else 1.0

    @property
    def recall(self) -> float:
        """The share of the sure links that the model has; 1 if there are none."""
        return self.links_sure / self.sure if self.sure else 1.0

    @property
    def rate(self) -> float:
        """The error rate, from 0 to 1; 0 if there is no link at all."""
        total = self.links + self.sure
        return 1 - (self.links_sure + self.links_possible) / total if total else 0.0


def read_gold(path: Path, one_based: bool = False) -> list[Gold]:
    """The gold links of each line.

    Raises:
        InputError: the file is bad.
    """
    first = int(one_based)
    lines = read_parallel(path)[0]
    return [_parse_links(line, first, f"{path}, line {number}") for number, line in enumerate(lines, 1)]


def _parse_links(line: str, first: int, where: str) -> Gold:
    """The links of a line; ``first`` is the number of the first word."""
    sure, possible = set(), set()
    for text in line.split():
        match = LINK.fullmatch(text)
        if not match:
            raise InputError(f"{where}: {text!r} is no link; write them as 1-2 (sure) and 1?2 (possible)")
        link = int(match[1]) - first, int(match[3]) - first
        if min(link) < 0:
            raise InputError(f"{where}: {text!r} counts words from 0; leave --one-based out")
        (possible if match[2] in POSSIBLE else sure).add(link)
    return Gold(sure, sure | possible)


def links_of(weights: np.ndarray) -> Links:
    """The links of an alignment ``(T + 1, S + 1)``, end-of-sentence last: each target word's highest weight."""
    end = weights.shape[1] - 1
    return {(int(i), j) for j, i in enumerate(weights[:-1].argmax(axis=1)) if i < end}


def in_parallel(path: Path, lines: Sequence[T], lines_path: Path) -> Iterator[tuple[AlignedPair, T]]:
    """The pairs in a file of scores, each with the element of ``lines`` that belongs to it.

    Raises:
        InputError: the file is bad, or the two are not of the same sentences.
    """
    for pair, line in itertools.zip_longest(read_scores(path), lines):
        if pair is None or line is None:
            count = sum(1 for _ in read_scores(path))
            raise InputError(f"{path} has {count} sentences and {lines_path} has {len(lines)}; give the same ones")
        yield pair, line


def alignment_error(path: Path, gold: Sequence[Gold], gold_path: Path) -> AlignmentError:
    """Compare the alignments in a file of scores with gold ones.

    Raises:
        InputError: the file is bad, or the two are not of the same sentences.
    """
    counts = np.zeros(4, dtype=int)
    for number, (pair, links) in enumerate(in_parallel(path, gold, gold_path), 1):
        source, target, weights = word_alignment(pair)
        outside = [(i, j) for i, j in links.possible if i >= len(source) - 1 or j >= len(target) - 1]
        if outside:
            raise InputError(
                f"{gold_path}, line {number}: source word {outside[0][0]} and target word {outside[0][1]} (from 0) are "
                f"linked, but {path} has {len(source) - 1} and {len(target) - 1} words there; give gold alignments of "
                "this text, and --one-based if they count from 1"
            )
        aligned = links_of(weights)
        counts += [len(aligned), len(links.sure), len(aligned & links.sure), len(aligned & links.possible)]
    return AlignmentError(*counts.tolist())


def error_table(errors: Mapping[str, AlignmentError]) -> Table:
    """A row for each system, in percent."""
    rows = [
        [name, *(f"{100 * share:.2f}" for share in (error.rate, error.precision, error.recall)), f"{error.links:,}"]
        for name, error in errors.items()
    ]
    return Table(["model", "alignment error rate", "precision", "recall", "links"], rows)


def main() -> None:
    """The command line of this module."""
    parser = command_line(__doc__)
    parser.add_argument("gold", type=Path, help="gold alignments; see above")
    parser.add_argument("systems", action=NamedFiles, nargs="+", metavar="NAME=FILE", help="models' alignments")
    parser.add_argument("--one-based", action="store_true", help="gold alignments count words from 1")
    args = parser.parse_args()
    gold = read_gold(args.gold, args.one_based)
    errors = {name: alignment_error(path, gold, args.gold) for name, path in args.systems.items()}
    sure = sum(len(links.sure) for links in gold)
    possible = sum(len(links.possible) for links in gold) - sure
    total = f"{len(gold):,} sentences, {sure:,} sure links, {possible:,} that are only possible"
    inputs = (args.gold, *args.systems.values())
    write_text(f"{markdown_block(error_table(errors))}\n\n{total}\n", args.output, inputs)


if __name__ == "__main__":
    print_without_traceback()
    main()
