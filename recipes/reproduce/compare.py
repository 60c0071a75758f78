"""BLEU of several systems, and the difference of every two, over all seeds of each.

The FILEs of a name are translations by the same system trained with different seeds, one sentence a line, tokenised as
REFERENCE is; line N of each is the same sentence.

  python -m recipes.reproduce.compare test.fr A=seed1.fr,seed2.fr B=other.fr
"""

from collections.abc import Container, Mapping
from itertools import combinations
from pathlib import Path

import numpy as np

from recipes.reproduce.bleu import scored_by_bleu
from recipes.reproduce.bootstrap import INTERVAL, SEEDS, BySeed, Difference, in_words
from recipes.reproduce.document import escape, provenance, table, to_markdown
from recipes.reproduce.systems import read_parallel
from rnnsearch_fairseq.command_line import make_parser, program
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.output import open_output

HOW = escape(f"BLEU of A minus BLEU of B, and {INTERVAL}. {SEEDS} No interval is corrected for their number.")


def comparison(scores: Mapping[str, BySeed], fixed: Container[str] = ()) -> list[str]:
    """Tables of BLEU of each system, by its name, and of the difference of every two.

    The ``fixed`` systems have no seeds.
    """
    by_seed = [[name, ", ".join(f"{score[0]:.2f}" for score in resampled)] for name, resampled in scores.items()]
    rows = []
    for first, second in combinations(scores, 2):
        apart = Difference.between(scores[first], scores[second], is_fixed=first in fixed or second in fixed)
        means = [f"{apart.first:.2f}", f"{apart.second:.2f}", f"{apart.first - apart.second:+.2f}"]
        rows.append([first, second, *means, f"{apart.low:+.2f} to {apart.high:+.2f}", in_words(apart.seeds)])
    header = ["A", "B", "BLEU of A", "BLEU of B", "A − B", "95 % interval", "seeds"]
    return [table(["system", "BLEU of each seed"], by_seed), table(header, rows)]


@program
def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("reference", type=Path, metavar="REFERENCE", help="the translations to compare with")
    parser.add_argument("systems", nargs="+", metavar="NAME=FILE[,FILE]", help="translations")
    parser.add_argument("--output", type=Path, metavar="FILE", help="default: standard output")
    args = parser.parse_args()
    scores: dict[str, list[np.ndarray]] = {}
    for system in args.systems:
        name, _, paths = system.partition("=")
        if not (name and paths):
            raise InputError(f"{system!r}: not NAME=FILE; give each system a name")
        references, *translations = read_parallel(args.reference, *map(Path, paths.split(",")))
        scores[name] = [scored_by_bleu(lines, references).resampled for lines in translations]
    text = to_markdown([("BLEU", [provenance(), *comparison(scores), HOW])])
    if args.output is None:
        print(text, end="")
        return
    with open_output(args.output) as out:
        out.write(text.encode())
