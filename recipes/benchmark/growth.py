"""Fit how measurements grow with a size."""

from dataclasses import dataclass

import numpy as np

from recipes.benchmark.sizes import Line

NONLINEAR = ("lengths", "processes")  # axes without a linear fit


@dataclass(frozen=True)
class Growth:
    """Two least-squares fits.

    Args:
        exponent: b of the power law a · size^b, fitted to the logarithms.
        error: the standard error of ``exponent``; None for two sizes, where the fit is exact.
        fixed, each: coefficients of fixed + each · size, fitted to relative errors; None along `NONLINEAR` axes.
    """

    exponent: float
    error: float | None
    fixed: float | None
    each: float | None


def fit_growth(line: Line) -> Growth:
    """Fit the medians, which must be positive, at two or more sizes."""
    x, y = np.asarray(line.sizes, dtype=float), np.asarray(line.medians)
    error = None
    if len(x) > 2:
        (exponent, _), covariance = np.polyfit(np.log(x), np.log(y), 1, cov=True)
        error = float(np.sqrt(covariance[0, 0]))
    else:
        exponent, _ = np.polyfit(np.log(x), np.log(y), 1)
    if line.axis in NONLINEAR:
        return Growth(float(exponent), error, None, None)
    # The error of a time is proportional to the time.
    each, fixed = np.polyfit(x, y, 1, w=1 / y)
    return Growth(float(exponent), error, float(fixed), float(each))


def fit_square(line: Line) -> float | None:
    """Fit a + b · size + c · size² to the medians by least squares and return c; None for fewer than three sizes."""
    return float(np.polyfit(np.asarray(line.sizes, dtype=float), line.medians, 2)[0]) if len(line.sizes) > 2 else None
