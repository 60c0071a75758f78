"""The fitted growth of made-up times."""

import numpy as np
import pytest
from scipy.stats import linregress

from recipes.benchmark.growth import fit_growth, fit_square
from recipes.benchmark.sizes import Line, Size

SIZES = [10, 20, 40, 80]
NOISY = [0.9, 2.3, 3.8, 8.9]


def make_line(values: list[float], axis: str = "source", sizes: list[int] = SIZES) -> Line:
    """One round each."""
    return Line("setup", axis, sizes, [[value] for value in values])


@pytest.mark.parametrize("exponent", [-1.0, 0.5, 1.0, 2.0])
def test_the_exponent_of_a_power_law_is_found(exponent: float) -> None:
    growth = fit_growth(make_line([0.03 * size**exponent for size in SIZES]))
    assert growth.exponent == pytest.approx(exponent, abs=1e-12)
    assert growth.error == pytest.approx(0, abs=1e-9)


def test_the_exponent_and_its_error_are_those_of_linear_regression() -> None:
    growth, expected = fit_growth(make_line(NOISY)), linregress(np.log(SIZES), np.log(NOISY))
    assert growth.exponent == pytest.approx(expected.slope)
    assert growth.error == pytest.approx(expected.stderr)


def test_the_line_is_found() -> None:
    growth = fit_growth(make_line([0.25 + 0.03 * size for size in SIZES]))
    assert (growth.fixed, growth.each) == pytest.approx((0.25, 0.03))


def test_the_line_has_the_least_relative_squares() -> None:
    def squares(fixed: float, each: float) -> float:
        return sum(((fixed + each * size) / value - 1) ** 2 for size, value in zip(SIZES, NOISY))

    growth = fit_growth(make_line(NOISY))
    assert growth.fixed is not None and growth.each is not None
    least = squares(growth.fixed, growth.each)
    for step in (-1e-3, 1e-3):
        assert squares(growth.fixed + step, growth.each) > least
        assert squares(growth.fixed, growth.each + step) > least


def test_medians_are_fitted() -> None:
    line = Line("setup", "batch", SIZES, [[size, 2 * size, 1e6] for size in SIZES])
    assert fit_growth(line) == fit_growth(make_line([2.0 * size for size in SIZES], "batch"))


def test_two_sizes_leave_no_error() -> None:
    growth = fit_growth(make_line([3.0, 1.5], "processes", [1, 2]))
    assert (growth.exponent, growth.error) == (pytest.approx(-1), None)


@pytest.mark.parametrize("axis", ["lengths", "processes"])
def test_no_line_is_fitted_where_none_is_expected(axis: str) -> None:
    growth = fit_growth(make_line(NOISY, axis))
    assert (growth.fixed, growth.each) == (None, None)


def test_the_square_of_a_parabola_is_found() -> None:
    assert fit_square(make_line([5 + 3 * size + 0.5 * size**2 for size in SIZES])) == pytest.approx(0.5)
    assert fit_square(make_line([1.0, 2.0], sizes=[1, 2])) is None


def test_one_size_grows_at_a_time() -> None:
    base = Size((3, 4), 5, 6)
    assert base.along("source", 9) == Size((9, 4), 5, 6)
    assert base.along("target", 9) == Size((3, 9), 5, 6)
    assert base.along("lengths", 9) == Size((9, 9), 5, 6)
    assert base.along("batch", 9) == Size((3, 4), 9, 6)
    assert base.along("vocabulary", 9) == Size((3, 4), 5, 9)
    assert base.along("processes", 9) == Size((3, 4), 5, 6, 9)


def test_what_stays_is_told() -> None:
    assert Size((3, 4), 5, 6000).besides("source") == "4 target words, batches of 5, a vocabulary of 6,000"
    assert Size((3, 4), 5).besides("lengths") == "batches of 5"
