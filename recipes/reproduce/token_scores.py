"""Score translations by BLEU and RIBES on their tokens as they are.

``python -m recipes.reproduce.token_scores REFERENCE HYPOTHESES...``

All files are tokenised by the same tokeniser (for Japanese KyTea), one sentence a line; line N of each is the same
sentence. For each file of HYPOTHESES a line is printed: its name, BLEU and RIBES in percent, separated by tabs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from recipes.reproduce.bleu import bleu_of, scored_by_bleu
from recipes.reproduce.bootstrap import Scored
from recipes.reproduce.command import command_line
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
    each = [sentence_ribes(line.split(), hypothesis.split()) for line, hypothesis in zip(reference, hypotheses)]
    of_ribes = Scored(np.array([[score, 1] for score in each]), lambda total: 100 * total[0] / total[1])
    of_bleu = scored_by_bleu(hypotheses, reference)
    bleu = bleu_of(of_bleu.statistics.sum(axis=0))
    return TokenScores({"RIBES": of_ribes, "BLEU": of_bleu}, bleu.bp, bleu.ratio)


def main() -> None:
    """The command line of this module."""
    parser = command_line(__doc__, output="")
    parser.add_argument("reference", type=Path, help="the translations to compare with")
    parser.add_argument("hypotheses", type=Path, nargs="+", help="translations to score")
    args = parser.parse_args()
    reference, *translations = read_parallel(args.reference, *args.hypotheses)
    for path, hypotheses in zip(args.hypotheses, translations):
        scores = score_tokens(reference, hypotheses).scores
        print(f"{path}\tBLEU {scores['BLEU']:.2f}\tRIBES {scores['RIBES']:.2f}")


if __name__ == "__main__":
    print_without_traceback()
    main()
