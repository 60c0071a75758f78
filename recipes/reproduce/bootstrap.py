"""Differences between corpus scores, their intervals by paired bootstrap (Koehn, 2004), and verdicts on claims.

sacrebleu's own paired test (used in the report's section on significance) gives a p-value of two systems' BLEU. The
claims need more: the interval of a difference, scores of two parts of a test set, and RIBES.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

RESAMPLES = 1000
SEED = 12345  # sacrebleu's
PRESENT = (0.0, math.inf)  # the bounds of a difference where the first score is the higher one


def draw(*sizes: int) -> list[np.ndarray]:
    """How often each sentence counts: for each size, ``(1 + RESAMPLES, size)``, the first row all ones.

    The other rows are resamples, drawn with replacement and independently for each size. Systems are compared on the
    same sentences by the same resamples.
    """
    generator = np.random.default_rng(SEED)
    draws = [generator.multinomial(size, np.full(size, 1 / size), RESAMPLES) for size in sizes]
    return [np.vstack([np.ones_like(drawn[:1]), drawn]) for drawn in draws]


@dataclass(frozen=True, eq=False)
class Scored:
    """A system's sentences: ``statistics`` ``(sentences, n)`` of each, and ``of``, the corpus score of their sum."""

    statistics: np.ndarray
    of: Callable[[np.ndarray], float]

    def scores(self, drawn: np.ndarray) -> np.ndarray:
        """The corpus score in each row of ``drawn``."""
        return np.array([self.of(total) for total in drawn @ self.statistics])


@dataclass(frozen=True)
class Difference:
    """Two observed scores, and the 95 % interval of the first one minus the second."""

    first: float
    second: float
    low: float
    high: float

    @classmethod
    def between(cls, first: np.ndarray, second: np.ndarray) -> "Difference":
        """The difference of two scores, given in each row of a :func:`draw`."""
        return cls(first[0], second[0], *np.quantile(first[1:] - second[1:], [0.025, 0.975]))

    def verdict(self, claimed: tuple[float, float] = PRESENT) -> str:
        """Whether the interval lies between the bounds ``claimed`` (agrees), outside of them, or on one of them."""
        if claimed[0] < self.low and self.high < claimed[1]:
            return "agrees"
        return "does not agree" if self.high < claimed[0] or claimed[1] < self.low else "undecided"

    def __str__(self) -> str:
        apart = f"{self.first - self.second:+.2f}, 95 % interval {self.low:+.2f} to {self.high:+.2f}"
        return f"{self.first:.2f}, {self.second:.2f}: {apart}"
