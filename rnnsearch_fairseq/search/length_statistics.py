"""log p(target length | source length), counted in training pairs (Eriguchi et al., 2016, Section 4.3)."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rnnsearch_fairseq.errors import InputError

HEADER = "# source words, target words, pairs; without end-of-sentence"


@dataclass(frozen=True)
class LengthStatistics:
    """How many pairs there are of each source and target length, end-of-sentence not counted.

    As in the original code, a source length that was never seen says nothing, log p = 0, and a target length that was
    never seen with a source length is impossible. With ``smoothing`` k, every target length up to the longest seen, and
    any longer one, counts k pairs more for every source length.
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
            InputError: if it is missing or is no such file, or if smoothing is negative.
        """
        cure = "write it by python -m rnnsearch_fairseq.length_statistics"
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
                raise InputError(f"{path}, line {number}: lengths without pairs, or that were there before; {cure}")
            counts[source][target] = pairs
        if not counts:
            raise InputError(f"{path}: it holds no lengths; {cure}")
        return cls(counts, smoothing)
