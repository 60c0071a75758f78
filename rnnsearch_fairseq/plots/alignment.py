"""Draw the alignment of a translated sentence, as in Figure 3 of Bahdanau et al. (2015).

ALIGNMENTS is what ``rnnsearch translate --alignments FILE`` or ``rnnsearch score`` wrote. Columns are source words, and
rows are target words. Black is the weight 0, and white is the weight 1.

  rnnsearch plot test.scores alignment.png
"""

import argparse
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from rnnsearch_fairseq.command_line import make_parser
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference.aligned_pairs import UNKNOWN, AlignedPair, read_scores
from rnnsearch_fairseq.plots.picture import draw_matrix, write_picture

DRAWN_WORDS = 20  # at most, in the sentence that is drawn by default


def plot_alignment(source: list[str], target: list[str], weights: np.ndarray, picture: Path) -> None:
    """Draw ``weights``, alpha_ij, ``(target words, source words)``, to the file ``picture``."""
    write_picture(draw_matrix(source, target, weights)[0], picture)


def choose_pair(pairs: Iterable[AlignedPair], path: Path, number: int | None, max_words: int) -> AlignedPair:
    """Choose line ``number`` of ``path``, from 1; if it is None, the longest sentence of at most ``max_words`` words.

    A sentence without an unknown word is preferred, and the first one of several.
    """
    if number is None:
        short = (pair for pair in pairs if len(pair.source) <= max_words + 1)
        best = max(short, key=lambda pair: (UNKNOWN not in pair.source + pair.target, len(pair.source)), default=None)
    else:
        best = next((pair for pair in pairs if pair.number == number - 1), None)
    if best is None:
        missing = f"sentence of at most {max_words} words" if number is None else f"line {number}"
        raise InputError(f"{path}: there is no {missing} to draw; give another --sentence, from 1")
    return best


def parse_arguments(doc: str, scores: str, max_words: int) -> argparse.Namespace:
    """Read the command line of a program that draws a sentence in a file of ``scores``."""
    parser = make_parser(doc)
    parser.add_argument(scores, type=Path, help="what rnnsearch translate --alignments or rnnsearch score wrote")
    parser.add_argument("picture", type=Path, help="file to write: .png, .svg or .pdf")
    which = f"line of the sentence, from 1 (default: the longest without <unk> of at most {max_words} words)"
    parser.add_argument("--sentence", type=int, metavar="N", help=which)
    return parser.parse_args()


def main() -> None:
    args = parse_arguments(__doc__, "alignments", DRAWN_WORDS)
    pair = choose_pair(read_scores(args.alignments), args.alignments, args.sentence, DRAWN_WORDS)
    plot_alignment(*pair.by_word(), args.picture)
    print(f"alignment of line {pair.number + 1} -> {args.picture}")
