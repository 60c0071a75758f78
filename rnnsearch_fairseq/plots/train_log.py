"""Read what ``fairseq-train`` logs of each epoch, of the intervals between, and of each validation."""

import contextlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import numpy as np

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.text.lines import open_bytes

# --log-format simple and tqdm print the epoch's number, perhaps a subset, and statistics. Before that a line has the
# time, or nothing in --log-file.
EPOCH = re.compile(r"(?:^|\| )epoch (\d+)(?: \| valid on '([^']+)' subset)?((?: \| \w+ \S+)+)$")
# The simple format prints an interval of --log-interval updates.
INNER = re.compile(r"(?:^|\| )epoch (\d+): +\d+ / \d+ (.*)$")
INTERVAL = ""  # in place of the subset, in the line of an interval
Statistics = dict[str, float]


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


def read_curve(path: Path) -> tuple[list[Point], list[Point]]:
    """Read the points of training and of the first development set, by updates.

    Training has a point every --log-interval updates, or one an epoch where there are more of these.
    """
    kinds = read_kinds(path)
    validated = next((lines for subset, lines in kinds.items() if subset), {})
    trained = max(kinds.get(INTERVAL, {}), kinds.get(None, {}), key=len)
    if not trained and not validated:
        raise InputError(f"{path}: holds no update; give the log of fairseq-train --log-format simple")
    return _make_points(trained, trained), _make_points(validated, trained)


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
