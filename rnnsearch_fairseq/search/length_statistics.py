"""log p(target length | source length), counted in training pairs (Eriguchi et al., 2016, Section 4.3)."""

import argparse
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

from rnnsearch_fairseq.errors import Count, InputError
from rnnsearch_fairseq.output import check_not_input, open_output
from rnnsearch_fairseq.text.lines import check_parallel, read_pairs

COMMAND = """Count the lengths of training pairs, for ``--search tree2seq --length-statistics FILE``.

``rnnsearch lengths SOURCE TARGET --output FILE``

SOURCE and TARGET are the training text: tokenised, one sentence a line.
"""
MOST_PAIRS = 1_000_000
HEADER = "# source words, target words, pairs; without end-of-sentence"


@dataclass(frozen=True)
class LengthStatistics:
    """The number of pairs of each source and target length, end-of-sentence not counted.

    As in the original code, log p is 0 for a source length that was never seen, and minus infinity for a target length
    that was never seen with the source length. With ``smoothing`` k, each target length counts k more pairs for every
    source length, whose total grows by k · (longest target length + 1).
    """

    counts: dict[int, Counter[int]]
    smoothing: float = 0.0

    @classmethod
    def count(cls, lengths: Iterable[tuple[int, int]]) -> "LengthStatistics":
        """The statistics of pairs of lengths."""
        counts: dict[int, Counter[int]] = {}
        for source, target in lengths:
            counts.setdefault(source, Counter())[target] += 1
        return cls(counts)

    @cached_property
    def longest(self) -> int:
        """The longest target length that was seen."""
        return max(max(of_source) for of_source in self.counts.values())

    def log_prob(self, source_length: int, target_length: int) -> float:
        """log p(target length | source length), in nats."""
        of_source = self.counts.get(source_length, Counter())
        if not self.smoothing:
            if not of_source:
                return 0.0
            seen = of_source[target_length]
            return math.log(seen / of_source.total()) if seen else -math.inf
        total = of_source.total() + self.smoothing * (self.longest + 1)
        return math.log((of_source[target_length] + self.smoothing) / total)

    def write(self) -> str:
        """The text of a file of statistics."""
        lines = [
            f"{source}\t{target}\t{pairs}"
            for source, of_source in sorted(self.counts.items())
            for target, pairs in sorted(of_source.items())
        ]
        return "\n".join([HEADER, *lines, ""])

    @classmethod
    def read(cls, path: Path, smoothing: float = 0.0) -> "LengthStatistics":
        """The statistics in a file.

        Raises:
            InputError: if the file is missing or has another format, or if smoothing is negative.
        """
        cure = "write it by rnnsearch lengths"
        if not 0 <= smoothing < math.inf:
            raise InputError(f"--length-smoothing is {smoothing}, but it must be 0 or a positive number")
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"--length-statistics {path}: cannot be read ({error}); {cure}") from error
        counts: dict[int, Counter[int]] = {}
        for number, line in enumerate(text.splitlines(), 1):
            if line == HEADER and number == 1:
                continue
            fields = line.split("\t")
            if len(fields) != 3 or not all(field.isascii() and field.isdigit() and len(field) < 16 for field in fields):
                raise InputError(f"{path}, line {number}: not two lengths and a number of pairs; {cure}")
            source, target, pairs = map(int, fields)
            if pairs == 0 or target in counts.setdefault(source, Counter()):
                raise InputError(
                    f"{path}, line {number}: lengths without pairs, or lengths that an earlier line has; {cure}"
                )
            counts[source][target] = pairs
        if not counts:
            raise InputError(f"{path}: it holds no lengths; {cure}")
        return cls(counts, smoothing)


def main() -> None:
    """Run ``rnnsearch lengths``."""
    parser = argparse.ArgumentParser(
        description=COMMAND,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("source", type=Path, help="source side of the training text")
    parser.add_argument("target", type=Path, help="its target side")
    parser.add_argument("--output", type=Path, metavar="FILE", required=True, help="file of statistics to write")
    pairs_help = f"count the first N pairs (default: {MOST_PAIRS:,})"
    parser.add_argument("--pairs", action=Count, default=MOST_PAIRS, help=pairs_help)
    args = parser.parse_args()
    check_not_input(args.output, (args.source, args.target))
    check_parallel([args.source, args.target])
    with open_output(args.output) as out:
        pairs = read_pairs(args.source, args.target)
        lengths = ((len(source.split()), len(target.split())) for source, target in pairs)
        statistics = LengthStatistics.count(islice(lengths, args.pairs))
        out.write(statistics.write().encode())
    counted = sum(of_source.total() for of_source in statistics.counts.values())
    print(f"{counted:,} pairs, {len(statistics.counts):,} source lengths -> {args.output}")
