"""log p(target length | source length), counted in training pairs (Eriguchi et al., 2016, Section 4.3)."""

import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from rnnsearch_fairseq.errors import InputError, quote


class LengthStatistics:
    """``counts``: the number of training pairs of each source and target length, end-of-sentence not counted.

    As in the original code, log p is 0 for a source length without pairs, and otherwise minus infinity for a target
    length without pairs.
    """

    def __init__(self, counts: Mapping[tuple[int, int], int]) -> None:
        self.counts = Counter(counts)
        self.totals: Counter[int] = Counter()  # of each source length
        for (source, _), pairs in counts.items():
            self.totals[source] += pairs

    def log_prob(self, source_length: int, target_length: int) -> float:
        """log p(target length | source length), in nats."""
        if source_length not in self.totals:
            return 0.0
        pairs = self.counts[source_length, target_length]
        return math.log(pairs / self.totals[source_length]) if pairs else -math.inf

    def write(self) -> str:
        header = "# source words, target words, pairs; without end-of-sentence"
        lines = [f"{source}\t{target}\t{pairs}" for (source, target), pairs in sorted(self.counts.items())]
        return "\n".join([header, *lines, ""])

    @classmethod
    def read(cls, path: Path) -> "LengthStatistics":
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
            rows = [tuple(map(int, line.split())) for line in lines if not line.startswith("#")]
            if not rows or min(map(min, rows)) < 0:
                raise ValueError("it has no counts, or negative ones")
            return cls({(source, target): pairs for source, target, pairs in rows})
        except (OSError, ValueError) as error:  # also a line of text, or too few numbers
            cure = "give what python -m recipes.trees.lengths wrote"
            raise InputError(f"--length-statistics {path}: cannot be read ({quote(error)}); {cure}") from error
