"""What the benchmarks print."""

from recipes.benchmark.cases import Case, Size
from recipes.benchmark.runner import Timing
from recipes.benchmark.tables import format_tables, speed_table


def make_timing(name: str, along: int | None = None, **values: object) -> Timing:
    return Timing(Case(name, "train", "fairseq", [], Size(batch=2), along), **values)  # type: ignore[arg-type]


def read(table: str) -> list[list[str]]:
    """The cells of a table in Markdown, without the line under its header."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    return [row for row in rows if set(row) != {"---"}]


def test_speeds_are_medians_and_ratios_of_medians() -> None:
    first = make_timing("first", count=600, peak=2_500_000, wall=[1.0, 2.0, 3.0], cpu=[0.5, 1.0, 1.5])
    second = make_timing("second", count=300, wall=[1.0, 4.0, 3.0], cpu=[1.0, 1.0, 1.0])
    assert read(speed_table([first, second], "words"))[1:] == [
        ["first", "300", "200 to 600", "600", "1.00", "2.5"],
        ["second", "100", "75 to 300", "300", "3.00", "–"],
    ]


def test_time_and_memory_are_told_if_a_size_grows() -> None:
    timings = [make_timing("a", size, count=size, peak=size**2, wall=[size], cpu=[size]) for size in (10, 20, 40)]
    speed, times, time_table, peaks, memory_table = format_tables(timings, "words", 5, "lengths").split("\n\n")
    assert [row[0] for row in read(speed)[1:]] == ["a, 10", "a, 20", "a, 40"]
    assert times == "Milliseconds a batch, by lengths:"
    assert read(time_table)[1][:5] == ["a", "2,000", "4,000", "8,000", "1.00"]
    assert peaks == "Peak MB, by lengths:"
    assert read(memory_table) == [
        ["", "10", "20", "40", "exponent", "each word pair"],
        ["a", "0.0001", "0.0004", "0.0016", "2.00", "0.5"],  # a byte for two sentence pairs
    ]
    assert format_tables(timings, "words", 5, None) == speed
    timings[0].peak = None
    assert len(format_tables(timings, "words", 5, "lengths").split("\n\n")) == 3
