"""BLEU by sacrebleu, cased, of tokens as they are."""

from collections.abc import Sequence

import numpy as np
from sacrebleu.metrics import BLEU
from sacrebleu.metrics.bleu import BLEUScore

from recipes.reproduce.bootstrap import Scored


def metric() -> BLEU:
    """BLEU, cased, of tokens as they are."""
    return BLEU(tokenize="none", force=True)


def bleu(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """BLEU in percent."""
    return metric().corpus_score(hypotheses, [references]).score


def scored_by_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> Scored:
    """The statistics of BLEU: words of hypothesis and reference, n-grams that match, and n-grams, for n of 1 to 4."""
    measure = metric()
    each = [measure.corpus_score([line], [[expected]]) for line, expected in zip(hypotheses, references)]
    rows = [[score.sys_len, score.ref_len, *score.counts, *score.totals] for score in each]
    return Scored(np.array(rows), lambda total: bleu_of(total).score)


def bleu_of(total: np.ndarray) -> BLEUScore:
    """BLEU from a sum of the statistics of :func:`scored_by_bleu`."""
    words, expected, *ngrams = total.tolist()
    return BLEU.compute_bleu(ngrams[:4], ngrams[4:], words, expected, smooth_method=metric().smooth_method)
