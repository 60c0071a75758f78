"""Score translations by BLEU and RIBES on their tokens as they are.

``rnnsearch token-scores REFERENCE HYPOTHESES...``

All files are tokenised by the same tokeniser (for Japanese KyTea), one sentence a line; line N of each is the same
sentence. For each file of HYPOTHESES a line is printed: its name, BLEU and RIBES in percent, separated by tabs.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rnnsearch_fairseq.analysis.bleu import metric
from rnnsearch_fairseq.analysis.ribes import corpus_ribes
from rnnsearch_fairseq.files.text import read_parallel


@dataclass(frozen=True)
class TokenScores:
    """BLEU and RIBES in percent, BLEU's brevity penalty, and the length of the translations over the references'."""

    bleu: float
    ribes: float
    brevity_penalty: float
    length_ratio: float


def score_tokens(reference: Sequence[str], hypotheses: Sequence[str]) -> TokenScores:
    """Score sentences, their tokens separated by spaces, against one reference each."""
    bleu = metric().corpus_score(hypotheses, [reference])
    ribes = corpus_ribes([[line.split()] for line in reference], [line.split() for line in hypotheses])
    return TokenScores(bleu.score, 100 * ribes, bleu.bp, bleu.ratio)


def main() -> None:
    """The command line of this module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reference", type=Path, help="the translations to compare with")
    parser.add_argument("hypotheses", type=Path, nargs="+", help="translations to score")
    args = parser.parse_args()
    reference, *translations = read_parallel(args.reference, *args.hypotheses)
    for path, hypotheses in zip(args.hypotheses, translations):
        scores = score_tokens(reference, hypotheses)
        print(f"{path}\tBLEU {scores.bleu:.2f}\tRIBES {scores.ribes:.2f}")
