"""Format measurements as Markdown."""

import statistics
from collections.abc import Sequence

from recipes.benchmark.growth import Growth
from recipes.benchmark.sizes import Line
from recipes.benchmark.workloads import Timing
from rnnsearch_fairseq.analysis.document import Table, markdown_block

NONE = "–"


def speed_table(timings: Sequence[Timing], unit: str, rates: dict[str, float]) -> str:
    """Format units a second, their range over the rounds, operations a second and their share of the machine's rate.

    The last column is the time per unit, relative to the first setup.

    Args:
        rates: the machine's operations a second, by precision.
    """
    header = [
        "",
        f"{unit}/s",
        "slowest to fastest round",
        f"{unit}/s of CPU time",
        "GFlop/s",
        "of the machine's",
        "time",
    ]
    rows = []
    for timing in timings:
        per_unit = [
            ours / timing.count / (first / timings[0].count) for ours, first in zip(timing.wall, timings[0].wall)
        ]
        rate, share = NONE, NONE
        if timing.operations:
            done = timing.operations / statistics.median(timing.wall)
            rate, share = f"{done / 1e9:,.0f}", f"{done / rates[timing.dtype]:.2f}"
        cells = [
            timing.name,
            f"{timing.per_second(timing.wall):,.4g}"
            if unit == "sentences"
            else f"{timing.per_second(timing.wall):,.0f}",
            f"{timing.count / max(timing.wall):,.0f} to {timing.count / min(timing.wall):,.0f}",
            f"{timing.per_second(timing.cpu):,.0f}",
            rate,
            share,
            f"{statistics.median(per_unit):.2f}",
        ]
        rows.append(cells)
    return markdown_block(Table(header, rows))


def growth_table(lines: Sequence[Line], growths: Sequence[Growth], per: float, more: dict[str, list[str]]) -> str:
    """Format lines along one axis, one a row: the median and range at each size, and the coefficients of the fits.

    Args:
        per: the unit of the measurements, such as 1e-3 for milliseconds.
        more: further columns, by their headers.
    """
    straight = ["fixed + each"] if growths[0].each is not None else []
    header = ["", *(f"{size:,}" for size in lines[0].sizes), "exponent", *straight, *more]
    rows = []
    for number, (line, growth) in enumerate(zip(lines, growths)):
        cells = [line.setup, *(_spread([value / per for value in values]) for values in line.values)]
        cells.append(f"{growth.exponent:.2f}" + ("" if growth.error is None else f" ± {growth.error:.2f}"))
        if growth.fixed is not None and growth.each is not None:
            cells.append(f"{_short(growth.fixed / per)} + {_short(growth.each / per)}")
        rows.append(cells + [column[number] for column in more.values()])
    return markdown_block(Table(header, rows))


def _spread(values: Sequence[float]) -> str:
    middle = _short(statistics.median(values))
    return middle if len(values) == 1 else f"{middle} ({_short(min(values))} to {_short(max(values))})"


def _short(value: float) -> str:
    """Format a number with at least three digits."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
