"""Draw the alignment of a translated sentence, as in Figure 3 of the paper."""

import contextlib
import logging
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

import matplotlib
import numpy as np

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.plots.command import command_line
from rnnsearch_fairseq.plots.words import word_alignment
from rnnsearch_fairseq.text.generated import read_generated
from rnnsearch_fairseq.text.lines import unescaped

matplotlib.use("Agg")  # pictures go to files: no screen is needed
from matplotlib import font_manager, ft2font
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

logger = logging.getLogger(__name__)

INCHES_PER_WORD = 0.32
MOST_WORDS = 20  # of the sentence that is drawn if none is chosen
MOST_NAMED = 5  # characters without a font that a warning names


def plot_alignment(source: list[str], target: list[str], weights: np.ndarray, picture: Path) -> None:
    """Write the matrix alpha_ij to ``picture`` (PNG, SVG or PDF by its ending).

    Source words run across, target words down, in greyscale: 0 is black, 1 is white.

    Args:
        weights: ``(target words, source words)``.
    """
    with fonts_for([*source, *target]):
        figure, _ = draw_matrix(source, target, weights)
        write_picture(figure, picture)


def draw_matrix(across: list[str], down: list[str], weights: np.ndarray) -> tuple[Figure, Axes]:
    """Draw ``weights`` ``(down, across)``, 0 black and 1 white, between labels above and on the left.

    The figure is as large as the matrix: labels stand outside it, where :func:`write_picture` makes room for them.
    """
    figure = plt.figure(figsize=(INCHES_PER_WORD * len(across), INCHES_PER_WORD * len(down)))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.imshow(weights, cmap="gray", vmin=0, vmax=1, aspect="equal")
    axes.set_xticks(range(len(across)), [unescaped(label) for label in across], rotation=90, parse_math=False)
    axes.set_yticks(range(len(down)), [unescaped(label) for label in down], parse_math=False)
    axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    return figure, axes


def write_picture(figure: Figure, picture: Path) -> None:
    """Write ``figure``, with all that was drawn outside it, and close it.

    Raises:
        InputError: ``picture`` cannot be written, or has an unknown ending.
    """
    try:
        figure.savefig(picture, dpi=150, bbox_inches="tight")
    except (OSError, ValueError) as error:
        raise InputError(f"{picture}: cannot be written ({error}); give another file, .png, .svg or .pdf") from error
    finally:
        plt.close(figure)


@contextlib.contextmanager
def fonts_for(words: Iterable[str]) -> Iterator[None]:
    """A context in which pictures are drawn with fonts that have the characters of ``words``, if any are installed.

    Characters that no font has are drawn as boxes, and a warning names them.
    """
    families = list(plt.rcParams["font.family"])
    lacking = set("".join(words)) - _characters(font_manager.findfont(font_manager.FontProperties()))
    # matplotlib's own list of fonts is made once and lacks fonts that were installed later.
    installed = sorted(font_manager.findSystemFonts()) if lacking else []
    coverage = {path: found for path in installed if (found := lacking & _characters(path))}
    if coverage:
        # Of equals, a regular font.
        best = max(coverage, key=lambda path: (len(coverage[path]), not ft2font.FT2Font(path).style_flags))
        font_manager.fontManager.addfont(best)
        families.append(ft2font.FT2Font(best).family_name)
        lacking -= coverage[best]
    if lacking:
        logger.warning(
            "no installed font has %s, drawn as boxes; install one (for Chinese, Japanese and Korean: fonts-noto-cjk)",
            " ".join(sorted(lacking)[:MOST_NAMED]) + (" and others" if len(lacking) > MOST_NAMED else ""),
        )
    with plt.rc_context({"font.family": families}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph .* missing from")  # the warning above says it once
        yield


def _characters(path: str) -> set[str]:
    """The characters that a font has; none if it cannot be read."""
    try:
        return set(map(chr, ft2font.FT2Font(path).get_charmap()))
    except (OSError, RuntimeError):
        return set()


def main() -> None:
    """The command line of this module."""
    parser = command_line(__doc__, output="")
    parser.add_argument("output", type=Path, help="what fairseq-generate --print-alignment soft printed")
    parser.add_argument("picture", type=Path, help="file to write: .png, .svg or .pdf")
    default = f"default: the longest of at most {MOST_WORDS} words"
    parser.add_argument("--sentence", type=int, help=f"number of the sentence; {default}")
    args = parser.parse_args()
    pairs = read_generated(args.output)
    number = args.sentence
    if number is None:
        short = [pair for pair in pairs.values() if len(pair.source) <= MOST_WORDS + 1] or list(pairs.values())
        number = max(short, key=lambda pair: (len(pair.source), -pair.number)).number
    if number not in pairs:
        raise InputError(f"{args.output}: no sentence {number}; it holds {len(pairs)} translations")
    plot_alignment(*word_alignment(pairs[number]), args.picture)
    print(f"alignment of sentence {number} -> {args.picture}")
