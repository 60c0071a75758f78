"""Draw the alignment of a translated sentence, as in Figure 3 of Bahdanau et al. (2015).

ALIGNMENTS is what ``rnnsearch translate --alignments FILE`` or ``rnnsearch score`` wrote. Columns are source words, and
rows are target words. Black is the weight 0, and white is the weight 1.

  rnnsearch plot test.scores alignment.png
"""

import argparse
import html
from collections.abc import Iterable
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rnnsearch_fairseq.command_line import make_parser
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference.aligned_pairs import UNKNOWN, AlignedPair, read_scores

DRAWN_WORDS = 20  # at most, in the sentence that is drawn by default
INCHES_PER_WORD = 0.32
# Fonts for the characters that matplotlib's own lacks. Debian: apt-get install fonts-noto-cjk, fonts-noto-core.
SCRIPTS = ("CJK JP", "Arabic", "Hebrew", "Devanagari", "Bengali", "Tamil", "Thai", "Georgian", "Armenian", "Khmer")
FONTS = [*(f"Noto Sans {script}" for script in SCRIPTS), "IPAexGothic"]
INSTALLED = {font.name for font in font_manager.fontManager.ttflist}
matplotlib.rcParams["font.family"] = ["sans-serif", *(font for font in FONTS if font in INSTALLED)]


def draw_matrix(across: list[str], down: list[str], weights: np.ndarray) -> tuple[Figure, Axes]:
    """Draw ``weights`` ``(down, across)``, 0 black and 1 white, between labels above and on the left.

    The figure is as large as the matrix: labels stand outside it, where :func:`write_picture` makes room for them.
    """
    figure = Figure(figsize=(INCHES_PER_WORD * len(across), INCHES_PER_WORD * len(down)))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.imshow(weights, cmap="gray", vmin=0, vmax=1, aspect="equal")
    axes.set_xticks(range(len(across)), map(html.unescape, across), rotation=90, parse_math=False)
    axes.set_yticks(range(len(down)), map(html.unescape, down), parse_math=False)
    axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    return figure, axes


def write_picture(figure: Figure, picture: Path) -> None:
    """Write ``figure``, with all that was drawn outside it, as PNG, SVG or PDF by the file's ending."""
    try:
        figure.savefig(picture, dpi=150, bbox_inches="tight")
    except (OSError, ValueError) as error:
        raise InputError(f"{picture}: cannot be written ({error}); give another file, .png, .svg or .pdf") from error


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
