"""Differences of corpus scores, their intervals, and verdicts."""

import random

import numpy as np
import pytest
from sacrebleu.metrics import BLEU
from scipy.stats import norm, ttest_rel

from recipes.reproduce.bleu import OPTIONS, scored_by_bleu
from recipes.reproduce.bootstrap import ABOVE, RESAMPLES, Difference, decide, draw

SEEDS = [np.array([score] * 3) for score in (30.0, 31.0, 32.0)]


def test_intervals_are_those_of_sacrebleu() -> None:
    generator = random.Random(1)
    references = [" ".join(f"t{place % 7}" for place in range(12))] * 100
    shares = [generator.random() * 0.4 for _ in references]
    hypotheses = [
        " ".join("wrong" if generator.random() < share else word for word in line.split())
        for line, share in zip(references, shares)
    ]
    scores = scored_by_bleu(hypotheses, references).scores(draw(100)[0])
    assert scores[0] == pytest.approx(BLEU(**OPTIONS).corpus_score(hypotheses, [references]).score, abs=1e-9)
    expected = BLEU(**OPTIONS).corpus_score(hypotheses, [references], n_bootstrap=RESAMPLES)
    assert np.diff(np.quantile(scores[1:], [0.025, 0.975])) / 2 == pytest.approx(expected._ci, rel=0.1)
    same = Difference.between([scores], [scores])
    assert (same.low, same.high) == (0, 0)  # paired


@pytest.mark.parametrize(
    ("others", "spread"),
    [
        ([np.array([20.0] * 3)] * 3, 4.30 / 3**0.5),  # Student's t, 2 degrees of freedom
        (SEEDS[:2], 3.18 * (2.5 / 3 * (1 / 3 + 1 / 2)) ** 0.5),  # both vary alike, 3 degrees
        (SEEDS, 2.78 * (2 / 3) ** 0.5),  # 4 degrees
    ],
)
def test_three_seeds_give_their_variance(others: list[np.ndarray], spread: float) -> None:
    apart = Difference.between(SEEDS, others)
    assert apart.seeds == (3, len(others))
    assert apart.high - apart.low == pytest.approx(2 * spread, rel=2e-3)
    fixed = Difference.between(SEEDS, others[:1], is_fixed=True)
    assert fixed.high - fixed.low == pytest.approx(2 * 4.30 / 3**0.5, rel=2e-3)


def test_two_searches_by_the_same_models_are_paired_by_seed() -> None:
    apart = Difference.between(SEEDS, [scores - gain for scores, gain in zip(SEEDS, (9, 10, 11))], same_models=True)
    assert (apart.low, apart.high) == pytest.approx((10 - 4.30 / 3**0.5, 10 + 4.30 / 3**0.5), rel=2e-3)
    assert apart.p() == pytest.approx(ttest_rel([30, 31, 32], [21, 21, 21]).pvalue, rel=2e-3)  # only seeds vary


def test_bleu_is_sacrebleus_where_long_ngrams_do_not_match() -> None:
    for lines, references in (
        (["a b c x"], ["a b y c x"]),
        (["a x c y"], ["a b c d e"]),
        (["a"], ["a"]),
        ([""], ["a"]),
    ):
        scored = scored_by_bleu(lines, references)
        expected = BLEU(**OPTIONS).corpus_score(lines, [references])
        assert scored.score == pytest.approx(expected.score)
        assert scored_by_bleu(lines, references, penalised=False).score * expected.bp == pytest.approx(expected.score)


def normal(score: float, low: float, high: float) -> Difference:
    """A difference with this interval, whose resamples are normally distributed."""
    return Difference(score, score - (low + high) / 2, low, high, deviation=(high - low) / 2 / norm.isf(0.025))


def test_tests_of_one_claim_are_corrected_together() -> None:
    p = [0.01, 0.04, 0.03, 0.005]
    tests = [
        normal(30, 1 - norm.isf(0.025) / norm.isf(each / 2), 1 + norm.isf(0.025) / norm.isf(each / 2)) for each in p
    ]
    assert [test.p() for test in tests] == pytest.approx(p)
    results = decide([(test, ABOVE) for test in tests])
    assert [verdict for verdict, _ in results] == ["agrees", "undecided", "undecided", "agrees"]
    assert [text.partition("; ")[2] for _, text in results] == [
        f"p {alone:.3f}, by Holm {corrected:.3f}" for alone, corrected in zip(p, (0.03, 0.06, 0.06, 0.02))
    ]
