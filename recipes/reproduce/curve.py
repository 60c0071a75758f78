"""Draw learning curves: perplexity, or BLEU on the development set, against updates or training time.

A log is what fairseq-train --log-format json printed; a training that was resumed into the same log is one curve. Thin
lines are of the training text, lines with marks of the (first) development set. BLEU needs fairseq-train --eval-bleu.
Training time is the time of the updates, without validation and saving.

  python -m recipes.reproduce.curve train.log --output curve.png
"""

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from recipes.reproduce.epochs import Lines, read_kinds
from rnnsearch_fairseq.command_line import make_parser, program
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.output import check_not_input
from rnnsearch_fairseq.plots import write_picture

LINES = ("-", "--", "-.", ":")
MARKERS = "osD^vP"
MAX_MARKS = 15  # on a line
MEASURES = {"perplexity": "ppl", "bleu": "bleu"}


def read_curves(path: Path, field: str, timed: bool = False) -> list[tuple[list[float], list[float]]]:
    """Read the curves of training and of the first development set: updates or hours, and the statistic ``field``.

    Training has a point every --log-interval updates, or one an epoch where there are more of these. Its statistics are
    of the updates since the last point.
    """
    epochs, intervals, validated = read_kinds(path)
    trained = max(intervals, epochs, key=len)
    if timed and not trained:
        raise InputError(f"{path}: holds no training time; give --against updates")
    curves = []
    for lines in (trained, validated):
        points = {updates: of[field] for updates, of in lines.items() if field in of}
        curves.append((_hours([*points], trained) if timed else [*points], [*points.values()]))
    return curves


def _hours(updates: Sequence[int], trained: Lines) -> list[float]:
    """The hours up to these updates: interpolated between lines, after the last one by the average speed."""
    known, walls = [0, *trained], (statistics["train_wall"] / 3600 for statistics in trained.values())
    hours = np.interp(updates, known, [0.0, *accumulate(walls)])
    return (hours * np.maximum(1, np.array(updates) / known[-1])).tolist()


def plot_curves(paths: Sequence[Path], measure: str, timed: bool, picture: Path) -> None:
    """Draw the curves of these logs to ``picture``."""
    figure = Figure(figsize=(7, 4.5))
    axes = figure.subplots()
    for number, path in enumerate(paths):
        train, dev = read_curves(path, MEASURES[measure], timed)
        if not dev[0]:
            cure = "train with --eval-bleu" if measure == "bleu" else "give a log of a training that was validated"
            raise InputError(f"{path}: holds no {measure} of a development set; {cure}")
        name = "/".join(path.absolute().parts[-2:])
        style = {"color": f"C{number}", "linestyle": LINES[number % len(LINES)], "markersize": 5}
        marked = {"marker": MARKERS[number % len(MARKERS)], "markevery": -(-len(dev[0]) // MAX_MARKS)}
        for kind, curve, look in (("training", train, {"linewidth": 0.7}), ("development", dev, marked)):
            if curve[0]:
                axes.plot(*curve, label=f"{name}, {kind}", **style, **look)
    axes.set(xlabel="Training time (hours)" if timed else "Updates", xlim=(0, None))
    axes.set_ylabel("BLEU score" if measure == "bleu" else "Perplexity")
    axes.xaxis.set_major_formatter("{x:,g}")
    if measure == "perplexity":
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:,g}")
        axes.yaxis.set_minor_formatter("")
    draw_legend(axes)
    write_picture(figure, picture)


def draw_legend(axes: Axes) -> None:
    """Draw the legend of all lines right of the axes, with dollar signs as they are."""
    legend = axes.figure.legend(handles=axes.get_lines(), loc="upper left", bbox_to_anchor=(0.92, 0.89), frameon=False)
    for text in legend.get_texts():
        text.set_parse_math(False)


@program
def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("logs", type=Path, nargs="+", metavar="TRAIN.LOG", help="log of fairseq-train")
    parser.add_argument("--output", type=Path, required=True, metavar="PICTURE", help="a .png, .svg or .pdf to write")
    parser.add_argument("--measure", choices=MEASURES, default="perplexity", help="default: perplexity")
    parser.add_argument("--against", choices=("updates", "time"), default="updates", help="default: updates")
    args = parser.parse_args()
    check_not_input(args.output, args.logs)
    plot_curves(args.logs, args.measure, args.against == "time", args.output)
    print(f"learning curves -> {args.output}")
