"""BLEU by sacrebleu, cased, of tokens as they are."""

from collections.abc import Sequence
from functools import cache

import numpy as np
from sacrebleu.metrics import BLEU

from recipes.reproduce.bootstrap import Scored

OPTIONS = {"tokenize": "none", "force": True}
OF_SENTENCES = BLEU(**OPTIONS, effective_order=True)


def scored_by_bleu(hypotheses: Sequence[str], references: Sequence[str], penalised: bool = True) -> Scored:
    """Count the statistics of BLEU; unless ``penalised``, BLEU has no brevity penalty."""
    counts = [_count(*pair) for pair in zip(hypotheses, references, strict=True)]
    return Scored(np.array(counts, dtype=float), compute_bleu if penalised else unpenalised_bleu)


@cache  # many translations of a test set are equal
def _count(hypothesis: str, reference: str) -> list[int]:
    """Words of hypothesis and reference, n-grams that match, and n-grams, for n of 1 to 4."""
    score = OF_SENTENCES.sentence_score(hypothesis, [reference])
    return [score.sys_len, score.ref_len, *score.counts, *score.totals]


def brevity_penalty(totals: np.ndarray) -> np.ndarray:
    """The brevity penalty of each sum of statistics in ``(..., 10)``."""
    words, expected = totals[..., 0], totals[..., 1]
    return np.exp(np.minimum(0, 1 - expected / np.maximum(words, 1e-9)))


def unpenalised_bleu(totals: np.ndarray) -> np.ndarray:
    """sacrebleu's BLEU in percent, without brevity penalty, of each sum of statistics in ``(..., 10)``.

    sacrebleu computes one at a time; resamples are too many for that. The n-th order without a match counts as a half,
    the next as a quarter, and so on (smoothing "exp").
    """
    matches, ngrams = totals[..., 2:6], totals[..., 6:]
    none = matches == 0
    smoothed = np.where(none, 0.5 ** np.cumsum(none, axis=-1), matches) / np.maximum(ngrams, 1)
    score = 100 * np.exp(np.log(smoothed).mean(axis=-1))
    return np.where(none.all(axis=-1) | (ngrams == 0).any(axis=-1), 0, score)


def compute_bleu(totals: np.ndarray) -> np.ndarray:
    """sacrebleu's BLEU in percent of each sum of statistics in ``(..., 10)``."""
    return brevity_penalty(totals) * unpenalised_bleu(totals)
