"""Alignment error rate against gold alignments (Och and Ney, 2003).

``rnnsearch alignment-error GOLD NAME=FILE... [--possible FILE] [--threshold WEIGHT]``

Gold alignments belong to reference translations, so each FILE holds a model's alignments of these: what
``rnnsearch score`` wrote, or what fairseq-generate printed with --score-reference and --print-alignment soft. Its
sentences stand in the order of GOLD. Pieces are joined to words before they are compared; GOLD does not count
end-of-sentence.

A line of GOLD has the links of a sentence, separated by spaces: ``1-2`` and ``1S2`` are sure, ``1?2`` and ``1P2``
possible. The source word comes first; words are counted from 0 (Pharaoh), or from 1 with --one-based (Talp). --possible
gives more links, all of them possible, whatever their sign. Sure links are possible, too.

With A the model's links, S the sure and P the possible ones, of all sentences together: precision is |A∩P| / |A|,
recall |A∩S| / |S|, and the error rate 1 - (|A∩S| + |A∩P|) / (|A| + |S|). A target word is linked to the source word of
highest weight, the first of equals, and to none if end-of-sentence has the highest weight. With --threshold, it is
linked instead to every source word of at least this weight.
"""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from recipes.reproduce.document import Table, markdown_block, write_text
from recipes.reproduce.systems import add_systems
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.plots.command import command_line
from rnnsearch_fairseq.plots.words import word_alignment
from rnnsearch_fairseq.text.generated import generated_in_order
from rnnsearch_fairseq.text.lines import read_parallel
from rnnsearch_fairseq.text.scores import AlignedPair, read_scores

LINK = re.compile(r"([0-9]{1,9})([-sS?pP])([0-9]{1,9})")
POSSIBLE = "?pP"
CURE = "give what rnnsearch score wrote of the reference translations"
T = TypeVar("T")
Links = set[tuple[int, int]]  # source word, target word, from 0


@dataclass(frozen=True)
class Gold:
    """Links of a sentence; ``possible`` contains ``sure``."""

    sure: Links
    possible: Links


@dataclass(frozen=True)
class AlignmentError:
    """How many links the model has, how many are sure, and how many of the model's are sure and are possible."""

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


def read_gold(path: Path, possible: Path | None = None, one_based: bool = False) -> list[Gold]:
    """The gold links of each line; ``possible`` is a file of further links, all of them possible.

    Raises:
        InputError: a file is bad, or the two differ in their numbers of lines.
    """
    first = int(one_based)
    files = [path] if possible is None else [path, possible]
    gold = []
    for number, lines in enumerate(zip(*read_parallel(*files)), 1):
        sure, maybe = _parse_links(lines[0], first, f"{path}, line {number}")
        for line in lines[1:]:
            maybe |= set.union(*_parse_links(line, first, f"{possible}, line {number}"))
        gold.append(Gold(sure, sure | maybe))
    return gold


def _parse_links(line: str, first: int, where: str) -> tuple[Links, Links]:
    """A line's sure links, and its links that are only possible; ``first`` is the number of the first word."""
    sure, possible = set(), set()
    for text in line.split():
        found = LINK.fullmatch(text)
        if not found:
            raise InputError(f"{where}: {text!r} is no link; write them as 1-2 (sure) and 1?2 (possible)")
        link = int(found[1]) - first, int(found[3]) - first
        if min(link) < 0:
            raise InputError(f"{where}: {text!r} counts words from 0; leave --one-based out")
        (possible if found[2] in POSSIBLE else sure).add(link)
    return sure, possible


def read_alignments(path: Path) -> Iterator[AlignedPair]:
    """The aligned references of a test set, in its order.

    Raises:
        InputError: the file is bad, has no alignments, or aligns other translations than the references.
    """
    try:
        with path.open("rb") as lines:
            scores = lines.read(1) == b"{"
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); {CURE}") from error
    if scores:
        yield from read_scores(path)
        return
    for pair in generated_in_order(path):
        # fairseq brackets an unknown word of a reference twice.
        reference = pair.reference and [word.replace("<<unk>>", "<unk>") for word in pair.reference]
        if reference and reference != pair.target[:-1]:
            raise InputError(
                f"{path}: sentence {pair.number} is not translated as its reference, which gold alignments "
                f"belong to; {CURE}, or fairseq-generate with --score-reference"
            )
        yield pair


def links_of(weights: np.ndarray, threshold: float | None = None) -> Links:
    """The links of an alignment ``(T + 1, S + 1)``, end-of-sentence last; see the module's description."""
    words = weights[:-1]
    if threshold is not None:
        return {(int(i), int(j)) for j, i in np.argwhere(words[:, :-1] >= threshold)}
    end = weights.shape[1] - 1
    return {(int(i), j) for j, i in enumerate(words.argmax(axis=1)) if i < end}


def in_parallel(
    path: Path,
    lines: Sequence[T],
    lines_path: Path,
    read: Callable[[Path], Iterator[AlignedPair]] = read_alignments,
) -> Iterator[tuple[AlignedPair, T]]:
    """The aligned references in a file, each with the line of gold that belongs to it.

    Raises:
        InputError: the file is bad, or the two are not of the same sentences.
    """
    for pair, line in itertools.zip_longest(read(path), lines):
        if pair is None or line is None:
            count = sum(1 for _ in read(path))
            raise InputError(f"{path} has {count} sentences and {lines_path} has {len(lines)}; give the same ones")
        yield pair, line


def alignment_error(
    path: Path, gold: Sequence[Gold], gold_path: Path, threshold: float | None = None
) -> AlignmentError:
    """Compare the alignments in a file with gold ones.

    Raises:
        InputError: the file is bad, or the two are not of the same sentences.
    """
    counts = np.zeros(4, dtype=int)
    for number, (pair, links) in enumerate(in_parallel(path, gold, gold_path), 1):
        try:
            source, target, weights = word_alignment(pair)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
        outside = [(i, j) for i, j in links.possible if i >= len(source) - 1 or j >= len(target) - 1]
        if outside:
            raise InputError(
                f"{gold_path}, line {number}: source word {outside[0][0]} and target word {outside[0][1]} (from 0) are "
                f"linked, but {path} has {len(source) - 1} and {len(target) - 1} words there; give gold alignments of "
                "this text, and --one-based if they count from 1"
            )
        found = links_of(weights, threshold)
        counts += [len(found), len(links.sure), len(found & links.sure), len(found & links.possible)]
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
    add_systems(parser, "systems", "+", "models' alignments")
    parser.add_argument("--possible", type=Path, metavar="FILE", help="further links, which are possible")
    parser.add_argument("--one-based", action="store_true", help="gold alignments count words from 1")
    parser.add_argument("--threshold", type=float, metavar="WEIGHT", help="above 0, at most 1; default: see above")
    args = parser.parse_args()
    if args.threshold is not None and not 0 < args.threshold <= 1:
        raise InputError(f"--threshold is {args.threshold:g}; give a weight above 0 and at most 1")
    gold = read_gold(args.gold, args.possible, args.one_based)
    errors = {name: alignment_error(path, gold, args.gold, args.threshold) for name, path in args.systems.items()}
    sure = sum(len(links.sure) for links in gold)
    maybe = sum(len(links.possible) for links in gold) - sure
    total = f"{len(gold):,} sentences, {sure:,} sure links, {maybe:,} that are only possible"
    inputs = (args.gold, args.possible, *args.systems.values())
    write_text(f"{markdown_block(error_table(errors))}\n\n{total}\n", args.output, inputs)
