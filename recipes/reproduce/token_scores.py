"""BLEU and RIBES of translations, on their tokens as they are.

``python -m recipes.reproduce.token_scores REFERENCE TRANSLATIONS...`` prints them, by line N of each file.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from recipes.reproduce.bleu import bleu_of, scored_by_bleu
from recipes.reproduce.bootstrap import Scored
from recipes.reproduce.ribes import sentence_ribes
from rnnsearch_fairseq.errors import print_without_traceback
from rnnsearch_fairseq.text.lines import read_parallel


@dataclass(frozen=True)
class TokenScores:
    """RIBES and BLEU by name, BLEU's brevity penalty, and the length of the translations over the references'."""

    measures: dict[str, Scored]
    brevity_penalty: float
    length_ratio: float

    @property
    def scores(self) -> dict[str, float]:
        """Each measure in percent."""
        return {name: scored.of(scored.statistics.sum(axis=0)) for name, scored in self.measures.items()}


def score_tokens(reference: Sequence[str], hypotheses: Sequence[str]) -> TokenScores:
    """Score sentences, their tokens separated by spaces, against one reference each."""
    ribes = [sentence_ribes(line.split(), hypothesis.split()) for line, hypothesis in zip(reference, hypotheses)]
    by_ribes = Scored(np.array([[score, 1] for score in ribes]), lambda total: 100 * total[0] / total[1])
    by_bleu = scored_by_bleu(hypotheses, reference)
    bleu = bleu_of(by_bleu.statistics.sum(axis=0))
    return TokenScores({"RIBES": by_ribes, "BLEU": by_bleu}, bleu.bp, bleu.ratio)


if __name__ == "__main__":
    print_without_traceback()
    reference, *translations = read_parallel(*map(Path, sys.argv[1:]))
    for name, hypotheses in zip(sys.argv[2:], translations):
        scores = score_tokens(reference, hypotheses).scores
        print(f"{name}\tBLEU {scores['BLEU']:.2f}\tRIBES {scores['RIBES']:.2f}")
