"""Draw learning curves: perplexity, or BLEU on the development set, against updates or training time.

A log is what fairseq-train --log-format json printed; a training that was resumed into the same log is one curve. Thin
lines are of the training text, lines with marks of the (first) development set. BLEU needs fairseq-train --eval-bleu.
Training time is the time of the updates, without validation and saving.

  python -m recipes.reproduce.curve train.log --output curve.png
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import numpy as np
from matplotlib.ticker import LogLocator

from recipes.reproduce.logs import read_kinds
from rnnsearch_fairseq.command_line import make_parser, print_without_traceback
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.output import check_not_input
from rnnsearch_fairseq.plots.picture import plt, write_picture
from rnnsearch_fairseq.plugin.progress import Statistics

LINES = ("-", "--", "-.", ":")
MARKERS = "osD^vP"
MAX_MARKS = 15  # on a line
MEASURES = {"perplexity": "ppl", "bleu": "bleu"}


@dataclass(frozen=True)
class Point:
    """What the log says at an update; None: nothing.

    seconds: spent in updates so far, without validation and saving; between two lines of training, interpolated.
    ppl, bleu: of the training text, of the updates since the last point; or of the development set.
    """

    updates: int
    seconds: float | None
    ppl: float | None
    bleu: float | None


Curves = dict[str, tuple[list[Point], list[Point]]]  # by name, the points of training and of the development set


def read_curve(path: Path) -> tuple[list[Point], list[Point]]:
    """Read the points of training and of the first development set, by updates.

    Training has a point every --log-interval updates, or one an epoch where there are more of these.
    """
    epochs, intervals, validated = read_kinds(path)
    trained = max(intervals, epochs, key=len)
    if not trained and not validated:
        raise InputError(f"{path}: holds no update; give the log of fairseq-train --log-format json")
    return _make_points(trained, trained), _make_points(validated, trained)


def _make_points(lines: dict[int, Statistics], trained: dict[int, Statistics]) -> list[Point]:
    """Make points of these lines; their seconds are interpolated, after the last update by the average speed."""
    walls = [statistics.get("train_wall") for statistics in trained.values()]
    seconds: list[float | None] = [None] * len(lines)
    if walls and None not in walls:
        known = [0, *trained]
        times = np.interp([*lines], known, [0.0, *accumulate(walls)])
        seconds = (times * np.maximum(1, np.array([*lines]) / known[-1])).tolist()
    return [
        Point(updates, at, statistics.get("ppl"), statistics.get("bleu"))
        for (updates, statistics), at in zip(lines.items(), seconds)
    ]


def read_curves(paths: Sequence[Path], measure: str) -> Curves:
    """Read the points of these logs that have the ``measure``, by the logs' folders and names."""
    curves = {}
    for path in paths:
        train, dev = (
            [point for point in points if getattr(point, MEASURES[measure]) is not None] for points in read_curve(path)
        )
        if not dev:
            cure = "train with --eval-bleu" if measure == "bleu" else "give a log of a training that was validated"
            raise InputError(f"{path}: holds no {measure} of a development set; {cure}")
        curves["/".join(path.absolute().parts[-2:])] = train, dev
    return curves


def plot_curves(curves: Curves, measure: str, timed: bool, picture: Path) -> None:
    """Draw the curves to ``picture``."""
    figure, axes = plt.subplots(figsize=(7, 4.5))
    lines, labels = [], []
    for number, (name, (train, dev)) in enumerate(curves.items()):
        style = {"color": f"C{number}", "linestyle": LINES[number % len(LINES)]}
        marked = {"marker": MARKERS[number % len(MARKERS)], "markevery": -(-len(dev) // MAX_MARKS)}
        for kind, points, look in (("training", train, {"linewidth": 0.7}), ("development", dev, marked)):
            if points:
                across = [point.seconds / 3600 if timed else point.updates for point in points]
                heights = [getattr(point, MEASURES[measure]) for point in points]
                lines += axes.plot(across, heights, markersize=5, **style, **look)
                labels.append(f"{name}, {kind}")
    axes.set(xlabel="Training time (hours)" if timed else "Updates", xlim=(0, None))
    axes.set_ylabel("BLEU score" if measure == "bleu" else "Perplexity")
    axes.xaxis.set_major_formatter("{x:,g}")
    if measure == "perplexity":
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:,g}")
        axes.yaxis.set_minor_formatter("")
    legend = figure.legend(lines, labels, loc="upper left", bbox_to_anchor=(0.92, 0.89), frameon=False)
    for text in legend.get_texts():
        text.set_parse_math(False)
    write_picture(figure, picture)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("logs", type=Path, nargs="+", metavar="TRAIN.LOG", help="log of fairseq-train")
    parser.add_argument("--output", type=Path, required=True, metavar="PICTURE", help="a .png, .svg or .pdf to write")
    parser.add_argument("--measure", choices=MEASURES, default="perplexity", help="default: perplexity")
    parser.add_argument("--against", choices=("updates", "time"), default="updates", help="default: updates")
    args = parser.parse_args()
    check_not_input(args.output, args.logs)
    timed = args.against == "time"
    plot_curves(read_curves(args.logs, args.measure), args.measure, timed, args.output)
    print(f"learning curves -> {args.output}")


if __name__ == "__main__":
    print_without_traceback()
    main()
