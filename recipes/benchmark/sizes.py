"""The sizes that a benchmark varies one at a time, and the measurements along them."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

AXES = {
    "source": "source length",
    "target": "target length",
    "lengths": "both lengths",
    "batch": "batch size",
    "vocabulary": "vocabulary",
    "processes": "processes",
}


@dataclass(frozen=True)
class Size:
    """The sizes of an update.

    Args:
        lengths: source and target length, in words with end-of-sentence.
        batch: number of sentence pairs.
        vocabulary: number of entries in both made-up dictionaries; None: the data's dictionaries.
        processes: number of processes that share each batch.
    """

    lengths: tuple[int, int]
    batch: int
    vocabulary: int | None = None
    processes: int = 1

    def along(self, axis: str, size: int) -> "Size":
        """Return a copy with another size along one of `AXES`."""
        source, target = self.lengths
        lengths = {"source": (size, target), "target": (source, size), "lengths": (size, size)}
        return replace(self, **({"lengths": lengths[axis]} if axis in lengths else {axis: size}))

    def besides(self, axis: str) -> str:
        """Describe the sizes other than ``axis``."""
        source, target = self.lengths
        told = {
            "source": f"{source} source words",
            "target": f"{target} target words",
            "batch": f"batches of {self.batch}",
            "vocabulary": f"a vocabulary of {self.vocabulary:,}" if self.vocabulary else "",
        }
        grows = ("source", "target") if axis == "lengths" else (axis,)
        return ", ".join(text for name, text in told.items() if text and name not in grows)


@dataclass
class Line:
    """A setup's measurements at each size along an axis: seconds per update in each round, or bytes."""

    setup: str
    axis: str
    sizes: Sequence[int]
    values: list[list[float]]

    @property
    def medians(self) -> list[float]:
        """The median at each size."""
        return [statistics.median(values) for values in self.values]
