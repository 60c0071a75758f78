"""Draw the alignment of a translated sentence, as in Figure 3 of the paper."""

import argparse
import html
import sys
from pathlib import Path

import matplotlib
import numpy as np

from rnnsearch_fairseq.analysis.generate_output import read_translations, word_alignment
from rnnsearch_fairseq.errors import InputError

matplotlib.use("Agg")  # pictures go to files: no screen is needed
from matplotlib import pyplot as plt

INCHES_PER_WORD = 0.32


def plot_alignment(source: list[str], target: list[str], weights: np.ndarray, picture: Path) -> None:
    """Write the matrix alpha_ij to ``picture`` (PNG, SVG or PDF by its ending).

    Source words run across, target words down, in greyscale: 0 is black, 1 is white.

    Args:
        weights: ``(target words, source words)``.
    """
    longest_source, longest_target = (max(map(len, words)) for words in (source, target))
    figure, axes = plt.subplots(
        figsize=(
            INCHES_PER_WORD * len(source) + 0.09 * longest_target + 0.6,
            INCHES_PER_WORD * len(target) + 0.09 * longest_source + 0.6,
        ),
        layout="constrained",
    )
    axes.imshow(weights, cmap="gray", vmin=0, vmax=1, aspect="equal")
    axes.set_xticks(range(len(source)), [html.unescape(word) for word in source], rotation=90, parse_math=False)
    axes.set_yticks(range(len(target)), [html.unescape(word) for word in target], parse_math=False)
    axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    try:
        figure.savefig(picture, dpi=150)
    except (OSError, ValueError) as error:
        raise InputError(f"{picture}: cannot be written ({error}); give another file, .png, .svg or .pdf") from error
    finally:
        plt.close(figure)


def main() -> None:
    """The command line of this module."""
    parser = argparse.ArgumentParser(prog="python -m rnnsearch_fairseq.analysis.alignment_plot", description=__doc__)
    parser.add_argument("output", type=Path, help="what fairseq-generate --print-alignment soft printed")
    parser.add_argument("picture", type=Path, help="file to write: .png, .svg or .pdf")
    parser.add_argument("--sentence", type=int, help="number of the sentence; default: the longest of at most 20 words")
    args = parser.parse_args()
    translations = read_translations(args.output)
    number = args.sentence
    if number is None:
        short = [t for t in translations.values() if len(t.source) <= 20] or list(translations.values())
        number = max(short, key=lambda t: (len(t.source), -t.number)).number
    if number not in translations:
        raise InputError(f"{args.output}: no sentence {number}; it holds {len(translations)} translations")
    plot_alignment(*word_alignment(translations[number]), args.picture)
    print(f"alignment of sentence {number} -> {args.picture}")


if __name__ == "__main__":
    sys.exit(main())
