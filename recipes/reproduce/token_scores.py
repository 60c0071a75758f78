"""BLEU and RIBES of translations, on their tokens as they are.

``python -m recipes.reproduce.token_scores REFERENCE TRANSLATIONS...`` prints them, by line N of each file.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from recipes.reproduce.bleu import brevity_penalty, scored_by_bleu
from recipes.reproduce.bootstrap import Scored
from recipes.reproduce.ribes import sentence_ribes
from recipes.reproduce.systems import read_parallel
from rnnsearch_fairseq.command_line import print_without_traceback

MEASURES = RIBES, BLEU, UNPENALISED = "RIBES", "BLEU", "BLEU/BP"


@dataclass(frozen=True)
class TokenScores:
    """The translations scored by each of :data:`MEASURES`, the last without BLEU's brevity penalty."""

    measures: dict[str, Scored]

    @property
    def scores(self) -> dict[str, float]:
        """Each measure in percent."""
        return {name: scored.score for name, scored in self.measures.items()}

    @property
    def brevity_penalty(self) -> float:
        """BLEU's, from 0 to 1."""
        return float(brevity_penalty(self.measures[BLEU].statistics.sum(axis=0)))

    @property
    def length_ratio(self) -> float:
        """The length of the translations over the references'."""
        words, expected = self.measures[BLEU].statistics[:, :2].sum(axis=0)
        return float(words / expected)


@cache  # many translations of a test set are equal
def _ribes(reference: str, hypothesis: str) -> float:
    return sentence_ribes(reference.split(), hypothesis.split())


def score_tokens(reference: Sequence[str], hypotheses: Sequence[str]) -> TokenScores:
    """Score sentences, their tokens separated by spaces, against one reference each."""
    ribes = np.array([[_ribes(*pair), 1] for pair in zip(reference, hypotheses)])
    by_ribes = Scored(ribes, lambda totals: 100 * totals[..., 0] / totals[..., 1])
    by_bleu = [scored_by_bleu(hypotheses, reference, penalised) for penalised in (True, False)]
    return TokenScores(dict(zip(MEASURES, (by_ribes, *by_bleu))))


if __name__ == "__main__":
    print_without_traceback()
    reference, *translations = read_parallel(*map(Path, sys.argv[1:]))
    for name, hypotheses in zip(sys.argv[2:], translations):
        scores = score_tokens(reference, hypotheses).scores
        print(f"{name}\tBLEU {scores[BLEU]:.2f}\tRIBES {scores[RIBES]:.2f}")
