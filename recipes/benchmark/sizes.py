"""What grows in a benchmark while all else stays, and what was measured of it."""

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
    """Of the batches and the model of an update.

    Args:
        lengths: of source and target, in words, end-of-sentence included.
        batch: sentence pairs.
        vocabulary: entries of both dictionaries, which are made up; None: those of the data.
        processes: that share each batch.
    """

    lengths: tuple[int, int]
    batch: int
    vocabulary: int | None = None
    processes: int = 1

    def along(self, axis: str, size: int) -> "Size":
        """The same, but of this size along one of `AXES`."""
        source, target = self.lengths
        lengths = {"source": (size, target), "target": (source, size), "lengths": (size, size)}
        return replace(self, **({"lengths": lengths[axis]} if axis in lengths else {axis: size}))

    def besides(self, axis: str) -> str:
        """In words, what stays while an axis grows."""
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
    """What a setup took at each size along an axis: seconds of an update in each round, or bytes."""

    setup: str
    axis: str
    sizes: Sequence[int]
    values: list[list[float]]

    @property
    def medians(self) -> list[float]:
        """Of each size."""
        return [statistics.median(values) for values in self.values]
