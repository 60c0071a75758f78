"""Differences of corpus scores, their intervals, and verdicts."""

import random

import numpy as np
import pytest
from sacrebleu.metrics import BLEU
from scipy.stats import ttest_rel

from recipes.reproduce.bleu import OPTIONS, scored_by_bleu
from recipes.reproduce.bootstrap import RESAMPLES, Difference, draw


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


def test_two_searches_by_the_same_models_are_paired_by_seed() -> None:
    first, second = ([np.array([score] * 3) for score in scores] for scores in ((30.0, 31.0, 32.0), (21.0, 21.0, 21.0)))
    apart = Difference.between(first, second, same_models=True)
    assert (apart.low, apart.high) == pytest.approx((10 - 4.30 / 3**0.5, 10 + 4.30 / 3**0.5), rel=2e-3)
    assert apart.p() == pytest.approx(ttest_rel([30, 31, 32], [21, 21, 21]).pvalue, rel=2e-3)  # only seeds vary


def test_bleu_is_sacrebleus_where_long_ngrams_do_not_match() -> None:
    for line, reference in (("a b c x", "a b y c x"), ("a x c y", "a b c d e"), ("a", "a"), ("", "a")):
        expected = BLEU(**OPTIONS).corpus_score([line], [[reference]])
        assert scored_by_bleu([line], [reference]).score == pytest.approx(expected.score)
        assert scored_by_bleu([line], [reference], penalised=False).score * expected.bp == pytest.approx(expected.score)
