"""Format measurements as Markdown."""

import statistics
from collections.abc import Mapping, Sequence

import numpy as np

from recipes.benchmark.runner import Timing
from recipes.reproduce.document import Table, markdown_block

NONE = "–"
NONLINEAR = ("lengths", "threads")  # axes along which no line is expected


def format_tables(timings: Sequence[Timing], unit: str, updates: int, axis: str | None) -> str:
    """Format the speed and memory of all cases and, if sizes grow along ``axis``, how time and memory grow."""
    parts = [speed_table(timings, unit)]
    if axis is not None:
        milliseconds = [1e3 * timing.seconds / updates for timing in timings]
        parts += [f"Milliseconds a batch, by {axis}:", growth_table(axis, timings, milliseconds)]
    if axis is not None and all(timing.peak is not None for timing in timings):
        parts += [f"Peak MB, by {axis}:", growth_table(axis, timings, [timing.peak / 1e6 for timing in timings])]
    return "\n\n".join(part.strip("\n") for part in parts)


def speed_table(timings: Sequence[Timing], unit: str) -> str:
    """Format units a second in the median round, their range over the rounds, units a second of CPU time, and memory.

    The column "time" is the time of a unit, relative to the first case.
    """
    header = ["", f"{unit}/s", "slowest to fastest round", f"{unit}/s of CPU time", "time", "peak MB"]
    first = timings[0].seconds / timings[0].count
    rows = [
        [
            timing.case.label,
            short(timing.count / timing.seconds),
            f"{short(timing.count / max(timing.wall))} to {short(timing.count / min(timing.wall))}",
            short(timing.count / statistics.median(timing.cpu)),
            f"{timing.seconds / timing.count / first:.2f}",
            NONE if timing.peak is None else short(timing.peak / 1e6),
        ]
        for timing in timings
    ]
    return markdown_block(Table(header, rows))


def growth_table(axis: str, timings: Sequence[Timing], values: Sequence[float]) -> str:
    """Format the values of the timings, one setup a row and one size a column, and what `fit_growth` finds."""
    lines: dict[str, dict[int | None, float]] = {}
    for timing, value in zip(timings, values):
        lines.setdefault(timing.case.name, {})[timing.case.along] = value
    sizes = sorted({size for line in lines.values() for size in line if size is not None})
    rows, columns = [], []
    for name, line in lines.items():
        fit = fit_growth(axis, line, timings[0].case.size.batch)
        columns = columns or list(fit)
        rows.append([name, *(short(line[size]) if size in line else NONE for size in sizes)])
        rows[-1] += [fit.get(column, NONE) for column in columns]
    return markdown_block(Table(["", *(f"{size:,}" for size in sizes), *columns], rows))


def fit_growth(axis: str, line: Mapping[int, float], pairs: int) -> dict[str, str]:
    """Fit the values at two or more sizes by least squares.

    Returns:
        ``exponent``: b of the power law a · size^b, fitted to the logarithms. ``fixed + each``: the line with the least
        relative errors, except along `NONLINEAR` axes. Along both lengths, if there are three, ``each word pair``: the
        quadratic coefficient of a parabola for each of the batch's sentence ``pairs``, in millionths; in a table of MB,
        the bytes that each source word × target word of a sentence adds.
    """
    if len(line) < 2:
        return {}
    x, y = (np.array(list(numbers), dtype=float) for numbers in (line.keys(), line.values()))
    fit = {"exponent": f"{np.polyfit(np.log(x), np.log(y), 1)[0]:.2f}"}
    if axis not in NONLINEAR:
        each, fixed = np.polyfit(x, y, 1, w=1 / y)
        fit["fixed + each"] = f"{short(fixed)} + {short(each)}"
    if axis == "lengths" and len(x) > 2:
        fit["each word pair"] = f"{1e6 * np.polyfit(x, y, 2)[0] / pairs:,.1f}"
    return fit


def short(value: float) -> str:
    """Format a number with at least three digits."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
