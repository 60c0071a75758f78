"""BLEU by source length, as in Figure 2 of Bahdanau et al. (2015).

The paper does not say how its curves were made; here sentences of 1 to 10 words make the first bin, 11 to 20 the next,
and so on, and each bin is scored as a corpus of its own. A bin of few sentences says little, so the table and the
picture (in grey) give the number of sentences.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path

from recipes.reproduce.bleu import scored_by_bleu
from recipes.reproduce.curve import LINES, MARKERS
from recipes.reproduce.document import table
from recipes.reproduce.systems import TestSet, Translations
from rnnsearch_fairseq.plots.picture import plt, write_picture

WIDTH = 10  # words of a bin
MAX_TICKS = 15


@dataclass(frozen=True)
class Bin:
    """The numbers of the sentences of ``first`` to ``last`` words.

    If there are any, also each system's BLEU on them, and the length of its translations over the references'.
    """

    first: int
    last: float
    sentences: Sequence[int]
    bleu: Mapping[str, float]
    ratio: Mapping[str, float]


def span(first: int, last: float) -> str:
    """The lengths of a bin, as people write them."""
    if last == inf:
        return f"{first} or more"
    return f"{first}–{last}" if first < last else str(first)


def bleu_by_length(test: TestSet, systems: Translations, longest: float = inf) -> list[Bin]:
    """The bins from 1 word to the longest sentence; sentences of more than ``longest`` words make one."""
    scored = {name: scored_by_bleu(lines, test.reference_words) for name, lines in systems.items()}
    bins = []
    for first, last in test.bins(WIDTH, longest):
        sentences = test.select_length(first, last)
        inside = {name: of.on(sentences) for name, of in scored.items() if sentences}
        words = {name: of.statistics[:, :2].sum(axis=0) for name, of in inside.items()}
        ratios = {name: hypothesis / reference for name, (hypothesis, reference) in words.items()}
        bins.append(Bin(first, last, sentences, {name: of.score for name, of in inside.items()}, ratios))
    return bins


def length_tables(bins: Sequence[Bin], systems: Sequence[str]) -> list[str]:
    """BLEU, and the ratios of lengths: a row for each bin."""

    def make_table(numbers: Iterable[Mapping[str, float]]) -> str:
        rows = [
            [
                span(bin.first, bin.last),
                str(len(bin.sentences)),
                *(f"{of_bin[name]:.2f}" if of_bin else "–" for name in systems),
            ]
            for bin, of_bin in zip(bins, numbers)
        ]
        return table(["words", "sentences", *systems], rows)

    ratios = make_table(bin.ratio for bin in bins)
    return [make_table(bin.bleu for bin in bins), "Length of the translations, in lengths of the references:", ratios]


def plot_by_length(bins: Sequence[Bin], systems: Sequence[str], picture: Path) -> None:
    """Draw a line for each system to ``picture``: length across, BLEU up.

    A point stands in the middle of its bin; no line goes through a bin without sentences.

    Raises:
        InputError: ``picture`` cannot be written.
    """
    width = bins[0].last - bins[0].first + 1
    ends = [bin.first + width - 1 for bin in bins]  # where the last bin is open, too
    middles = [(bin.first + end) / 2 for bin, end in zip(bins, ends)]
    figure, axes = plt.subplots(figsize=(7, 4.5))
    lines = []
    for number, name in enumerate(systems):
        heights = [bin.bleu.get(name, float("nan")) for bin in bins]
        style = {"linestyle": LINES[number % len(LINES)], "marker": MARKERS[number % len(MARKERS)]}
        lines += axes.plot(middles, heights, markersize=5, color=f"C{number}", clip_on=False, zorder=3, **style)
    top = max([score for bin in bins for score in bin.bleu.values()], default=0)
    axes.set(xlim=(0, ends[-1]), ylim=(0, min(1.1 * top, 100) or 1), xlabel="Sentence length", ylabel="BLEU score")
    axes.set_xticks([0, *ends][:: -(-len(bins) // MAX_TICKS)])
    grey = {"transform": axes.get_xaxis_transform(), "color": "0.45", "fontsize": 8}
    for middle, bin in zip(middles, bins):
        upright = 90 if len(bins) > MAX_TICKS else 0
        axes.text(middle, 1.01, str(len(bin.sentences)), ha="center", va="bottom", rotation=upright, **grey)
    axes.text(ends[-1] * 1.01, 1.01, "sentences", ha="left", va="bottom", **grey)
    legend = figure.legend(lines, systems, loc="upper left", bbox_to_anchor=(0.92, 0.89), frameon=False)
    for text in legend.get_texts():
        text.set_parse_math(False)
    write_picture(figure, picture)
