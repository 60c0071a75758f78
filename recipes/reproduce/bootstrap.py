"""Differences between corpus scores, their intervals by paired bootstrap (Koehn, 2004), and verdicts on claims.

sacrebleu's own paired test gives a p-value of two translations' BLEU. The claims need more: the interval of a
difference, all seeds of a model together, scores of two parts of a test set, and RIBES.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm, t

RESAMPLES = 1000
SEED = 12345  # sacrebleu's
FEWEST_SEEDS = 3  # of a system, to measure how far its seeds lie apart
LEVEL = 0.05  # a test with a higher p decides nothing
ABOVE = (1, 0.0)  # the side and the bound of a difference where the first score is the higher one
INTERVAL = f"its 95 % interval by paired bootstrap of the sentences ({RESAMPLES:,} resamples)"
SEEDS = (
    f"Scores are means over the seeds. If both systems have {FEWEST_SEEDS} seeds or more, the interval also contains "
    "the variance between seeds (Welch's t-test). If only one has, we assume that the other varies as much (Student's "
    "t-test). If neither has, the interval is of the sentences only."
)
PAIRED = "Scores of the same models are paired by seed: the variance is of their differences."
HOLM = (
    f"p is corrected by Holm (1979) for the number of tests of the same claim, and must be below {LEVEL}; otherwise "
    "the test is undecided."
)
BySeed = Sequence[np.ndarray]  # the scores of a system, of each seed in each row of a draw


@cache
def draw(*sizes: int) -> list[np.ndarray]:
    """How often each sentence counts: for each size, ``(1 + RESAMPLES, size)``, the first row all ones.

    The other rows are resamples, drawn with replacement and independently for each size. Systems are compared on the
    same sentences by the same resamples.
    """
    generator = np.random.default_rng(SEED)
    draws = [generator.multinomial(size, np.full(size, 1 / size), RESAMPLES) for size in sizes]
    return [np.vstack([np.ones((1, drawn.shape[1])), drawn]) for drawn in draws]


@dataclass(frozen=True, eq=False)
class Scored:
    """A system's sentences: their ``statistics`` ``(sentences, n)``; ``compute`` gives the score of a sum of these."""

    statistics: np.ndarray
    compute: Callable[[np.ndarray], np.ndarray]

    @property
    def score(self) -> float:
        """The corpus score."""
        return float(self.compute(self.statistics.sum(axis=0)))

    def on(self, sentences: Sequence[int]) -> "Scored":
        """Only some of the sentences."""
        return Scored(self.statistics[list(sentences)], self.compute)

    def scores(self, drawn: np.ndarray) -> np.ndarray:
        """The corpus score in each row of ``drawn``."""
        return self.compute(drawn @ self.statistics)

    @cached_property
    def resampled(self) -> np.ndarray:
        """The corpus score of the sentences, and then of each of their resamples."""
        return self.scores(*draw(len(self.statistics)))


@dataclass(frozen=True)
class Difference:
    """Two observed scores, means over seeds, and the 95 % interval of the first one minus the second.

    deviation: the standard deviation of the difference over resamples of the sentences.
    error, freedom: the standard error of the difference over other seeds, and its degrees of freedom.
    by_seed: the difference by each seed, if one of the systems has two, and none more.
    """

    first: float
    second: float
    low: float
    high: float
    seeds: tuple[int, int] = (1, 1)  # of the first and of the second
    deviation: float = 0.0
    error: float = 0.0
    freedom: int = 1
    by_seed: tuple[float, ...] = ()

    @classmethod
    def between(cls, first: BySeed, second: BySeed, same_models: bool = False, is_fixed: bool = False) -> "Difference":
        """The difference of two systems.

        The interval is the bootstrap's, of the means over the seeds. Their own over other seeds, as :data:`SEEDS` says,
        is added to it in quadrature: sentences and seeds vary independently. Welch's degrees of freedom are rounded
        down. A system that ``is_fixed``, like Moses, does not vary. For the ``same_models``, see :data:`PAIRED`.
        """
        means = [np.mean(scores, axis=0) for scores in (first, second)]
        apart = means[0] - means[1]
        low, high = np.quantile(apart[1:], [0.025, 0.975])
        by_seed = [np.array([scores[0] for scores in of]) for of in (first, second)]
        varying = [by_seed[0] - by_seed[1]] if same_models else by_seed
        measured = [scores for scores in varying if len(scores) >= FEWEST_SEEDS and np.ptp(scores) > 0]
        freedom, error = 1, 0.0
        if measured:
            if min(map(len, varying)) < FEWEST_SEEDS and not is_fixed:  # Student's
                freedom = sum(len(scores) - 1 for scores in varying)
                squares = sum(np.sum((scores - np.mean(scores)) ** 2) for scores in varying)
                error = math.sqrt(squares / freedom * sum(1 / len(scores) for scores in varying))
            else:  # Welch's
                variances = [np.var(scores, ddof=1) / len(scores) for scores in measured]
                shares = [part**2 / (len(scores) - 1) for part, scores in zip(variances, measured)]
                freedom, error = math.floor(sum(variances) ** 2 / sum(shares) + 1e-9), math.sqrt(sum(variances))
            spread = t.isf(0.025, freedom) * error
            low, high = apart[0] - math.hypot(apart[0] - low, spread), apart[0] + math.hypot(high - apart[0], spread)
        seeds = len(first), len(second)
        differences = tuple(by_seed[0] - by_seed[1]) if max(seeds) == 2 else ()
        return cls(means[0][0], means[1][0], low, high, seeds, float(np.std(apart[1:])), error, freedom, differences)

    def p(self, bound: float = 0.0) -> float:
        """The probability of a difference at least as far from ``bound`` by chance: the interval at 1 - p ends there.

        Here the scores of resamples count as normally distributed.
        """
        away = abs(self.first - self.second - bound)

        def too_wide(p: float) -> float:
            return math.hypot(norm.isf(p / 2) * self.deviation, t.isf(p / 2, self.freedom) * self.error) - away

        return brentq(too_wide, 1e-9, 1) if too_wide(1e-9) > 0 else float(away == 0)

    def __str__(self) -> str:
        apart = f"{self.first - self.second:+.2f}, 95 % interval {self.low:+.2f} to {self.high:+.2f}"
        by_seed = "; by seed " + ", ".join(f"{apart:+.2f}" for apart in self.by_seed) if self.by_seed else ""
        return f"{self.first:.2f}, {self.second:.2f}: {apart}{by_seed}"


def decide(tests: Sequence[tuple[Difference, tuple[int, float]]]) -> list[tuple[str, str]]:
    """The verdict on each test of one claim, and the test's numbers in words.

    A test says that a difference lies above (1) or below (-1) a bound. It agrees if the whole interval does, does not
    agree if the whole interval lies on the other side, and is undecided otherwise, or by :data:`HOLM`.
    """
    results = [("", "")] * len(tests)
    probabilities = [difference.p(bound) for difference, (_, bound) in tests]
    corrected = 0.0
    for rank, number in enumerate(np.argsort(probabilities, kind="stable")):
        difference, (side, bound) = tests[number]
        corrected = max(corrected, min(1.0, (len(tests) - rank) * probabilities[number]))
        low, high = sorted((side * (difference.low - bound), side * (difference.high - bound)))
        beyond = "agrees" if low > 0 else "does not agree" if high < 0 else "undecided"
        verdict = beyond if corrected < LEVEL else "undecided"
        results[number] = verdict, f"{difference}; p {probabilities[number]:.3f}, by Holm {corrected:.3f}"
    return results


def in_words(seeds: tuple[int, int]) -> str:
    """The numbers of seeds of two systems."""
    names = [{1: "one seed", 2: "two seeds"}.get(number, f"{number} seeds") for number in seeds]
    return " against ".join(dict.fromkeys(names))
