"""Draw learning curves: perplexity, or BLEU on the development set, against updates or training time.

A log is what fairseq-train --log-format json printed; a training that was resumed into the same log is one curve. Thin
lines are of the training text, lines with marks of the (first) development set. BLEU needs fairseq-train --eval-bleu.
Training time is the time of the updates, without validation and saving.

  python -m recipes.reproduce.curve train.log --output curve.png
"""

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator

from recipes.reproduce.epochs import Lines, read_kinds
from rnnsearch_fairseq.command_line import make_parser, program
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.output import check_not_input
from rnnsearch_fairseq.plots.picture import plt, write_picture

LINES = ("-", "--", "-.", ":")
MARKERS = "osD^vP"
MAX_MARKS = 15  # on a line
MEASURES = {"perplexity": "ppl", "bleu": "bleu"}


class Point(NamedTuple):
    """What the log says at an update; None: nothing.

    seconds: spent in updates so far, without validation and saving; between two lines of training, interpolated.
    ppl, bleu: of the training text, of the updates since the last point; or of the development set.
    """

    updates: int
    seconds: float | None
    ppl: float | None
    bleu: float | None


def read_curve(path: Path) -> tuple[list[Point], list[Point]]:
    """Read the points of training and of the first development set, by updates.

    Training has a point every --log-interval updates, or one an epoch where there are more of these.
    """
    epochs, intervals, validated = read_kinds(path)
    trained = max(intervals, epochs, key=len)
    return _make_points(trained, trained), _make_points(validated, trained)


def _make_points(lines: Lines, trained: Lines) -> list[Point]:
    """Make points of these lines; their seconds are interpolated, after the last update by the average speed."""
    walls = [statistics.get("train_wall") for statistics in trained.values()]
    seconds: list[float | None] = [None] * len(lines)
    if walls and None not in walls:
        known = [0, *trained]
        times = np.interp([*lines], known, [0.0, *accumulate(walls)])
        seconds = (times * np.maximum(1, np.array([*lines]) / known[-1])).tolist()
    return [Point(at, second, of.get("ppl"), of.get("bleu")) for (at, of), second in zip(lines.items(), seconds)]


def plot_curves(paths: Sequence[Path], measure: str, timed: bool, picture: Path) -> None:
    """Draw the curves of these logs to ``picture``."""
    field = MEASURES[measure]
    figure, axes = plt.subplots(figsize=(7, 4.5))
    for number, path in enumerate(paths):
        train, dev = ([point for point in points if getattr(point, field) is not None] for points in read_curve(path))
        if not dev:
            cure = "train with --eval-bleu" if measure == "bleu" else "give a log of a training that was validated"
            raise InputError(f"{path}: holds no {measure} of a development set; {cure}")
        name = "/".join(path.absolute().parts[-2:])
        style = {"color": f"C{number}", "linestyle": LINES[number % len(LINES)], "markersize": 5}
        marked = {"marker": MARKERS[number % len(MARKERS)], "markevery": -(-len(dev) // MAX_MARKS)}
        for kind, points, look in (("training", train, {"linewidth": 0.7}), ("development", dev, marked)):
            if points:
                across = [point.seconds / 3600 if timed else point.updates for point in points]
                up = [getattr(point, field) for point in points]
                axes.plot(across, up, label=f"{name}, {kind}", **style, **look)
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
