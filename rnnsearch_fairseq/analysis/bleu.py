"""BLEU by sacrebleu, and the significance of a difference."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

AS_THEY_ARE = "none"  # sacrebleu's name for splitting at spaces only
RESAMPLES = 1000


def metric(tokenize: str = AS_THEY_ARE) -> BLEU:
    """BLEU, cased, by a tokenizer of sacrebleu; the default leaves tokens as they are."""
    return BLEU(tokenize=tokenize, force=True)


def bleu(hypotheses: Sequence[str], references: Sequence[str], tokenize: str = AS_THEY_ARE) -> float:
    """BLEU in percent, cased."""
    return metric(tokenize).corpus_score(hypotheses, [references]).score


@dataclass(frozen=True)
class Comparison:
    """BLEU in percent of two systems on the same sentences, and the p-value of their difference."""

    first: float
    second: float
    p: float

    def __str__(self) -> str:
        return f"{self.first:.2f}, {self.second:.2f}; p = {self.p:.4f}"


def compare(first: Sequence[str], second: Sequence[str], references: Sequence[str]) -> Comparison:
    """Compare two systems by sacrebleu's paired bootstrap: :data:`RESAMPLES` resamples, sacrebleu's seed."""
    logging.getLogger("sacrebleu").setLevel(logging.WARNING)  # it logs every step
    systems = [("first", list(first)), ("second", list(second))]
    test = PairedTest(systems, {"BLEU": metric()}, [list(references)], test_type="bs", n_samples=RESAMPLES)
    one, other = test()[1]["BLEU"]
    # sacrebleu gives equal systems p = 0.001, on purpose; in a table that would read as a difference.
    return Comparison(one.score, other.score, 1.0 if one.score == other.score else other.p_value)
