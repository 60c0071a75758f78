"""BLEU and RIBES of translations, on their tokens as they are, by line N of each file.

python -m recipes.reproduce.token_scores test.ja first.ja second.ja
"""

from collections.abc import Sequence
from pathlib import Path

from recipes.reproduce.bleu import scored_by_bleu
from recipes.reproduce.bootstrap import Scored
from recipes.reproduce.ribes import scored_by_ribes
from recipes.reproduce.systems import read_parallel
from rnnsearch_fairseq.command_line import make_parser, program

MEASURES = RIBES, BLEU, UNPENALISED = "RIBES", "BLEU", "BLEU/BP"


def score_tokens(reference: Sequence[str], hypotheses: Sequence[str]) -> dict[str, Scored]:
    """Score sentences by each of :data:`MEASURES`, the last without BLEU's brevity penalty."""
    by_bleu = [scored_by_bleu(hypotheses, reference, penalised) for penalised in (True, False)]
    return dict(zip(MEASURES, (scored_by_ribes(hypotheses, reference), *by_bleu)))


@program
def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("reference", type=Path, help="the translations to compare with, as tokens")
    parser.add_argument("translations", type=Path, nargs="+", help="translations, as tokens")
    args = parser.parse_args()
    reference, *translations = read_parallel(args.reference, *args.translations)
    for path, hypotheses in zip(args.translations, translations):
        scores = score_tokens(reference, hypotheses)
        print(f"{path}\tBLEU {scores[BLEU].score:.2f}\tRIBES {scores[RIBES].score:.2f}")
