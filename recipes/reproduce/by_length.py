"""BLEU by source length, as in Figure 2 of Bahdanau et al. (2015).

The paper does not say how its curves were made; here sentences of 1 to 10 words make the first bin, 11 to 20 the next,
and so on, and each bin is scored as a corpus of its own. A bin of few sentences says little, so the table and the
picture (in grey) give the number of sentences.
"""

from collections.abc import Sequence
from math import inf, isnan, nan
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure

from recipes.reproduce.bleu import scored_by_bleu
from recipes.reproduce.curve import LINES, MARKERS, draw_legend
from recipes.reproduce.document import table
from recipes.reproduce.systems import TestSet, Translations
from rnnsearch_fairseq.plots import write_picture

WIDTH = 10  # words of a bin
MAX_TICKS = 15


class Bin(NamedTuple):
    """The sentences of ``first`` to ``last`` words: how many they are, and of each system their BLEU.

    ratio: the length of each system's translations over the references'. Both are NaN where there is no sentence.
    """

    first: int
    last: float
    sentences: int
    bleu: list[float]
    ratio: list[float]


def span(first: int, last: float) -> str:
    """The lengths of a bin, as people write them."""
    if last == inf:
        return f"{first} or more"
    return f"{first}–{last}" if first < last else str(first)


def bleu_by_length(test: TestSet, systems: Translations, longest: float = inf) -> list[Bin]:
    """The bins from 1 word to the longest sentence; sentences of more than ``longest`` words make one."""
    scored = [scored_by_bleu(lines, test.reference_words) for lines in systems.values()]
    bins = []
    for first, last in test.bins(WIDTH, longest):
        sentences = test.select_length(first, last)
        numbers = [[nan] * len(systems)] * 2
        if sentences:
            inside = [of.on(sentences) for of in scored]
            words = [of.statistics[:, :2].sum(axis=0) for of in inside]
            numbers = [[of.score for of in inside], [hypothesis / reference for hypothesis, reference in words]]
        bins.append(Bin(first, last, len(sentences), *numbers))
    return bins


def length_tables(bins: Sequence[Bin], systems: Sequence[str]) -> list[str]:
    """BLEU, and the ratios of lengths: a row for each bin."""
    tables = []
    for field in ("bleu", "ratio"):
        rows = []
        for bin in bins:
            numbers = ["–" if isnan(number) else f"{number:.2f}" for number in getattr(bin, field)]
            rows.append([span(bin.first, bin.last), str(bin.sentences), *numbers])
        tables.append(table(["words", "sentences", *systems], rows))
    return [tables[0], "Length of the translations, in lengths of the references:", tables[1]]


def plot_by_length(bins: Sequence[Bin], systems: Sequence[str], picture: Path) -> None:
    """Draw a line for each system to ``picture``: length across, BLEU up.

    A point stands in the middle of its bin; no line goes through a bin without sentences.
    """
    width = bins[0].last - bins[0].first + 1
    ends = [bin.first + width - 1 for bin in bins]  # where the last bin is open, too
    middles = [(bin.first + end) / 2 for bin, end in zip(bins, ends)]
    figure = Figure(figsize=(7, 4.5))
    axes = figure.subplots()
    for number, name in enumerate(systems):
        style = {"linestyle": LINES[number % len(LINES)], "marker": MARKERS[number % len(MARKERS)]}
        style |= {"color": f"C{number}", "label": name, "markersize": 5}
        axes.plot(middles, [bin.bleu[number] for bin in bins], clip_on=False, zorder=3, **style)
    top = max([score for bin in bins if bin.sentences for score in bin.bleu], default=0)
    axes.set(xlim=(0, ends[-1]), ylim=(0, min(1.1 * top, 100) or 1), xlabel="Sentence length", ylabel="BLEU score")
    axes.set_xticks([0, *ends][:: -(-len(bins) // MAX_TICKS)])
    grey = {"transform": axes.get_xaxis_transform(), "color": "0.45", "fontsize": 8}
    for middle, bin in zip(middles, bins):
        upright = 90 if len(bins) > MAX_TICKS else 0
        axes.text(middle, 1.01, str(bin.sentences), ha="center", va="bottom", rotation=upright, **grey)
    axes.text(ends[-1] * 1.01, 1.01, "sentences", ha="left", va="bottom", **grey)
    draw_legend(axes)
    write_picture(figure, picture)
