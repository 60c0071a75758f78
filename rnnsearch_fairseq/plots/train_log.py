"""Read what ``fairseq-train`` logs of each epoch, of the intervals between, and of each validation."""

import contextlib
import re
from collections.abc import Iterable
from pathlib import Path

from rnnsearch_fairseq.text.lines import open_bytes

# --log-format simple and tqdm print the epoch's number, perhaps a subset, and statistics. Before that a line has the
# time, or nothing in --log-file.
EPOCH = re.compile(r"(?:^|\| )epoch (\d+)(?: \| valid on '([^']+)' subset)?((?: \| \w+ \S+)+)$")
# The simple format prints an interval of --log-interval updates.
INNER = re.compile(r"(?:^|\| )epoch (\d+): +\d+ / \d+ (.*)$")
INTERVAL = ""  # in place of the subset, in the line of an interval
Statistics = dict[str, float]


def read_kinds(path: Path) -> dict[str | None, dict[int, Statistics]]:
    """Read the statistics of a log, by updates, of each kind of line, in the order of their first lines.

    The kinds are ``INTERVAL``, None for whole epochs, and the name of each development set. If training was resumed,
    later lines replace earlier lines of the same or higher update numbers. The number of the epoch is a statistic, too.
    """
    kinds: dict[str | None, dict[int, Statistics]] = {}
    last = 0
    for line in read_log(path).split("\n"):
        epoch, subset, statistics = read_statistics(line) or (0, None, {})
        if not 0 < statistics.get("num_updates", 0) < float("inf"):
            continue
        updates = int(statistics["num_updates"])
        if updates < last:  # resumed
            kinds = {kind: {at: lines[at] for at in lines if at < updates} for kind, lines in kinds.items()}
        last = updates
        kinds.setdefault(subset, {})[updates] = {"epoch": epoch, **statistics}
    return kinds


def read_log(path: Path) -> str:
    """Read the text of a log; only numbers and names count, so bytes that are not UTF-8 do not matter."""
    with open_bytes(path) as file:
        return file.read().decode(errors="replace")


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
