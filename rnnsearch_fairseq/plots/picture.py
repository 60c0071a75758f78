"""Pictures in files: fonts, and matrices of weights."""

import html
from pathlib import Path

import matplotlib
import numpy as np

from rnnsearch_fairseq.errors import InputError

matplotlib.use("Agg")  # no screen is needed
from matplotlib import font_manager
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

INCHES_PER_WORD = 0.32
# Fonts for the characters that matplotlib's own lacks. Debian: apt-get install fonts-noto-cjk, fonts-noto-core.
SCRIPTS = ("CJK JP", "Arabic", "Hebrew", "Devanagari", "Bengali", "Tamil", "Thai", "Georgian", "Armenian", "Khmer")
FONTS = [*(f"Noto Sans {script}" for script in SCRIPTS), "IPAexGothic"]
INSTALLED = {font.name for font in font_manager.fontManager.ttflist}
plt.rcParams["font.family"] = ["sans-serif", *(font for font in FONTS if font in INSTALLED)]


def draw_matrix(across: list[str], down: list[str], weights: np.ndarray) -> tuple[Figure, Axes]:
    """Draw ``weights`` ``(down, across)``, 0 black and 1 white, between labels above and on the left.

    The figure is as large as the matrix: labels stand outside it, where :func:`write_picture` makes room for them.
    """
    figure = plt.figure(figsize=(INCHES_PER_WORD * len(across), INCHES_PER_WORD * len(down)))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.imshow(weights, cmap="gray", vmin=0, vmax=1, aspect="equal")
    axes.set_xticks(range(len(across)), map(html.unescape, across), rotation=90, parse_math=False)
    axes.set_yticks(range(len(down)), map(html.unescape, down), parse_math=False)
    axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    return figure, axes


def write_picture(figure: Figure, picture: Path) -> None:
    """Write ``figure``, with all that was drawn outside it, as PNG, SVG or PDF by the file's ending, and close it."""
    try:
        figure.savefig(picture, dpi=150, bbox_inches="tight")
    except (OSError, ValueError) as error:
        raise InputError(f"{picture}: cannot be written ({error}); give another file, .png, .svg or .pdf") from error
    finally:
        plt.close(figure)
