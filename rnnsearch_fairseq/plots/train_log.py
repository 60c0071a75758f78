"""Read what ``fairseq-train`` logs of each epoch, and of the updates between."""

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import inf
from pathlib import Path

import numpy as np

from rnnsearch_fairseq.errors import InputError

# --log-format simple and tqdm print an epoch as its number, perhaps a subset, and then only statistics, separated by
# bars. In --log-file, nothing stands before "epoch".
EPOCH = re.compile(r"epoch ([0-9]{1,9})")
SUBSET = re.compile(r"valid on '([^']+)' subset")
STATISTIC = re.compile(r"\w+ \S+")
# What the simple format prints every --log-interval updates.
INNER = re.compile(r"epoch ([0-9]{1,9}): +[0-9]+ / [0-9]+ (.*)")
SINCE = ""  # in place of a subset: the updates since the last such line
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


def read_curve(path: Path, *later: Path) -> tuple[list[Point], list[Point]]:
    """The points of training and of the first development set, by updates, in the log or the logs of a training.

    Training has a point every --log-interval updates, or one an epoch where there are more of these. Where training was
    resumed, into the same file or another, what was trained again replaces what was there from there on.

    Raises:
        InputError: a file cannot be read, or there are no points.
    """
    lines: dict[str | None, dict[float, Statistics]] = {SINCE: {}, None: {}}  # updates ascending
    dev_set = None
    for _, subset, statistics in (line for each in (path, *later) for line in _read_lines(each)):
        updates = statistics.get("num_updates", inf)
        if subset:
            dev_set = dev_set or subset
        if not 0 < updates < inf or subset not in (SINCE, None, dev_set):
            continue
        lines.setdefault(subset, {})
        for kind, earlier in lines.items():
            # The lines of one update come in this order: training, validation, epoch.
            replaced = updates if subset in (SINCE, kind) else updates + 1
            while earlier and next(reversed(earlier)) >= replaced:
                earlier.popitem()
        lines[subset][updates] = statistics
    trained = max(lines[SINCE], lines[None], key=len)
    validated = lines.get(dev_set, {}) if dev_set else {}
    if not trained and not validated:
        raise InputError(f"{path}: holds no update; give the log of fairseq-train --log-format simple")
    times = _seconds(trained, [*trained, *validated])
    points = [
        Point(int(updates), seconds, statistics.get("ppl"), statistics.get("bleu"))
        for (updates, statistics), seconds in zip([*trained.items(), *validated.items()], times)
    ]
    return points[: len(trained)], points[len(trained) :]


def continues(path: Path, earlier: Path) -> bool:
    """Whether the log ``path`` is of a training that was resumed where the log ``earlier`` ends, or before."""
    before, after = ([line for line in _read_lines(log) if "num_updates" in line[2]] for log in (earlier, path))
    if not before or not after:
        return False
    first, last, start = (statistics["num_updates"] for _, _, statistics in (before[0], before[-1], after[0]))
    inner = [statistics["num_updates"] for _, subset, statistics in after if subset == SINCE]
    # A training that was not resumed begins with its first epoch, and all its intervals have as many updates.
    resumed = after[0][0] > 1 or (len(inner) > 1 and inner[0] > inner[1] - inner[0])
    return resumed and first <= start <= last + first


def _read_lines(path: Path) -> Iterator[tuple[int, str | None, Statistics]]:
    return filter(None, map(read_statistics, read_log(path).split("\n")))


def _seconds(trained: dict[float, Statistics], updates: Sequence[float]) -> list[float | None]:
    """The seconds at these updates; after the last line, by the average speed."""
    walls = [statistics.get("train_wall") for statistics in trained.values()]
    if not walls or None in walls:
        return [None] * len(updates)
    known, seconds = [0.0, *trained], [0.0, *accumulate(walls)]
    return (np.interp(updates, known, seconds) * np.maximum(1, np.array(updates) / known[-1])).tolist()


def read_log(path: Path) -> str:
    """The text of a log; an InputError if it cannot be read."""
    try:
        # Only numbers and names of devices are read from it, so bytes that are not UTF-8 do not matter.
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); give the log of fairseq-train") from error


def read_statistics(line: str) -> tuple[int, str | None, Statistics] | None:
    """The epoch, the development set and the statistics of a log line; None if the line has no statistics.

    The development set is None in the training line of a whole epoch, and SINCE in the line of a part of an epoch.
    """
    pieces = line.split(" | ")
    if inner := INNER.fullmatch(pieces[-1]):
        return int(inner[1]), SINCE, _numbers(dict(text.split("=", 1) for text in inner[2].split(", ") if "=" in text))
    first = len(pieces)
    while first and STATISTIC.fullmatch(pieces[first - 1]):
        first -= 1
    subset = SUBSET.fullmatch(pieces[first - 1]) if first > 1 else None
    # An epoch looks like a statistic: it is the first one, or stands before the subset.
    epochs = [first - 2] if subset else range(first, len(pieces) - 1)
    epoch = next((place for place in epochs if EPOCH.fullmatch(pieces[place])), None)
    if epoch is None:
        return None
    texts = dict(piece.split(" ") for piece in pieces[first if subset else epoch + 1 :])
    return int(pieces[epoch].split(" ")[1]), subset and subset[1], _numbers(texts)


def _numbers(texts: dict[str, str]) -> Statistics:
    """The statistics that are numbers."""
    numbers = {}
    for name, text in texts.items():
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            numbers[name] = float(text)
    return numbers
