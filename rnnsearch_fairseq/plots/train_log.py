"""Read what ``fairseq-train`` logs of each epoch, of the intervals between, and of each validation."""

import contextlib
import re
from collections.abc import Iterable

# --log-format simple and tqdm print the epoch's number, perhaps a subset, and statistics. Before that a line has the
# time, or nothing in --log-file.
EPOCH = re.compile(r"(?:^|\| )epoch (\d+)(?: \| valid on '([^']+)' subset)?((?: \| \w+ \S+)+)$")
# The simple format prints an interval of --log-interval updates.
INNER = re.compile(r"(?:^|\| )epoch (\d+): +\d+ / \d+ (.*)$")
INTERVAL = ""  # in place of the subset, in the line of an interval
Statistics = dict[str, float]


def read_statistics(line: str) -> tuple[int, str | None, Statistics] | None:
    """Read the epoch, the kind (see `read_kinds`) and the statistics of a log line; None if it has no statistics."""
    if inner := INNER.search(line):
        pairs = (text.partition("=")[::2] for text in inner[2].split(", "))
        return int(inner[1]), INTERVAL, _read_numbers(pairs)
    if whole := EPOCH.search(line):
        return int(whole[1]), whole[2], _read_numbers(text.split(" ") for text in whole[3].split(" | ")[1:])
    return None


def _read_numbers(pairs: Iterable[tuple[str, str] | list[str]]) -> Statistics:
    """The statistics that are numbers, by name."""
    numbers = {}
    for name, text in pairs:
        with contextlib.suppress(ValueError):
            numbers[name] = float(text)
    return numbers
