"""What the benchmarks print."""

from recipes.benchmark.growth import Growth
from recipes.benchmark.sizes import Line
from recipes.benchmark.tables import growth_table, speed_table
from recipes.benchmark.workloads import Timing


def read(table: str) -> list[list[str]]:
    """The cells of a table in Markdown, without the line under its header."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    return [row for row in rows if set(row) != {"---"}]


def test_speeds_are_medians_and_compare_rounds() -> None:
    first = Timing("first", 600, 8 * 10**9, wall=[1.0, 2.0, 3.0], cpu=[0.5, 1.0, 1.5])
    second = Timing("second", 300, wall=[1.0, 4.0, 3.0], cpu=[1.0, 1.0, 1.0])
    table = speed_table([first, second], "words", {"float32": 1e10})
    assert read(table)[1:] == [
        ["first", "300", "200 to 600", "600", "4", "0.40", "1.00"],
        ["second", "100", "75 to 300", "300", "–", "–", "2.00"],
    ]


def test_growth_is_told_with_medians_and_ranges() -> None:
    lines = [
        Line("a", "source", [10, 2000], [[0.030, 0.010, 0.020], [1.5, 1.6, 1.7]]),
        Line("b", "source", [10, 2000], [[0.010], [0.2]]),
    ]
    growths = [Growth(0.826, 0.014, 0.0126, 0.00079), Growth(0.565, None, 0.009, 0.0001)]
    header, *rows = read(growth_table(lines, growths, 1e-3, {}))
    assert header == ["", "10", "2,000", "exponent", "fixed + each"]
    assert rows == [
        ["a", "20 (10 to 30)", "1,600 (1,500 to 1,700)", "0.83 ± 0.01", "12.6 + 0.79"],
        ["b", "10", "200", "0.56", "9 + 0.1"],
    ]


def test_where_no_line_was_fitted_there_is_no_column_for_it() -> None:
    lines = [Line("a", "lengths", [10, 20], [[1e6], [3e6]])]
    header, row = read(growth_table(lines, [Growth(1.585, None, None, None)], 1e6, {"bytes": ["7"]}))
    assert header == ["", "10", "20", "exponent", "bytes"]
    assert row == ["a", "1", "3", "1.58", "7"]
