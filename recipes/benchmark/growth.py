"""How what was measured grows with a size."""

from dataclasses import dataclass

import numpy as np

from recipes.benchmark.sizes import Line

BENT = ("lengths", "processes")  # axes along which no straight line is expected


@dataclass(frozen=True)
class Growth:
    """Two fits by least squares.

    Args:
        exponent: b of the power law a · size^b, fitted to the logarithms.
        error: its standard error; None of two sizes, through which a power law goes exactly.
        fixed, each: of the line fixed + each · size, which has the least squares of relative errors; None along axes
            where no line is expected.
    """

    exponent: float
    error: float | None
    fixed: float | None
    each: float | None


def fit_growth(line: Line) -> Growth:
    """Fit the medians, which are positive, at two or more sizes."""
    x, y = np.asarray(line.sizes, dtype=float), np.asarray(line.medians)
    error = None
    if len(x) > 2:
        (exponent, _), covariance = np.polyfit(np.log(x), np.log(y), 1, cov=True)
        error = float(np.sqrt(covariance[0, 0]))
    else:
        exponent, _ = np.polyfit(np.log(x), np.log(y), 1)
    if line.axis in BENT:
        return Growth(float(exponent), error, None, None)
    # Clocks err in proportion to what they measure.
    each, fixed = np.polyfit(x, y, 1, w=1 / y)
    return Growth(float(exponent), error, float(fixed), float(each))


def fit_square(line: Line) -> float | None:
    """c of a + b · size + c · size², fitted to the medians by least squares; None of fewer than three sizes."""
    return float(np.polyfit(np.asarray(line.sizes, dtype=float), line.medians, 2)[0]) if len(line.sizes) > 2 else None
