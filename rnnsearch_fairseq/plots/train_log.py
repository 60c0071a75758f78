"""Read what ``fairseq-train`` logs of each epoch, and of the updates between."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import inf, isfinite, isnan
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
class Epoch:
    """An epoch as the log has it, its numbers rounded as fairseq prints them; None if it was not validated.

    updates: of all epochs up to this one.
    seconds: whole ones, spent in updates; not in reading data, validation and saving.
    train_nll_sentence, dev_nll_sentence: nats a sentence; None if the criterion does not log them, as summed_nll does.
    dev_loss: what fairseq calls "loss" and chooses its best checkpoint by, of the first development set: bits a word,
        or bits a sentence by cross_entropy with --sentence-avg. Of several validations, the lowest.
    dev_ppl: perplexity by word.
    """

    number: int
    updates: int
    seconds: float
    train_nll_sentence: float | None
    dev_loss: float | None
    dev_ppl: float | None
    dev_nll_sentence: float | None


@dataclass(frozen=True)
class Point:
    """What the log says at an update; None: nothing.

    seconds: spent in updates so far, as of :class:`Epoch`; between two lines of training they are interpolated.
    ppl, bleu: of the training text, of the updates since the last point; or of the development set.
    """

    updates: int
    seconds: float | None
    ppl: float | None
    bleu: float | None


def read_train_log(path: Path) -> list[Epoch]:
    """The finished epochs in what ``fairseq-train`` printed or wrote to ``--log-file``, with any --log-format but none.

    Where training was resumed into the same file, an epoch that was trained again replaces itself and all after it.

    Raises:
        InputError: the file cannot be read, holds no finished epoch, or says too little of one.
    """
    epochs: dict[int, Epoch] = {}
    validated: list[tuple[int, Statistics]] = []  # epoch and statistics, updates ascending
    dev_set = None
    for line_number, line in enumerate(read_log(path).split("\n"), 1):
        number, subset, statistics = _statistics(line) or (0, None, {})
        try:
            if subset == SINCE:
                continue
            if subset is not None:
                dev_set = dev_set or subset
                if subset == dev_set:
                    updates = statistics["num_updates"]
                    validated = [(n, dev) for n, dev in validated if dev["num_updates"] < updates]
                    validated.append((number, statistics))
            elif number > 0:
                epochs = {earlier: epoch for earlier, epoch in epochs.items() if earlier < number}
                epochs[number] = _epoch(number, statistics, [dev for n, dev in validated if n == number])
        except KeyError as missing:
            raise InputError(f"{path}, line {line_number}: epoch {number} has no {missing}; train it anew") from None
    if not epochs:
        raise InputError(f"{path}: holds no finished epoch; give the log of fairseq-train --log-format simple or json")
    return list(epochs.values())


def read_curve(path: Path) -> tuple[list[Point], list[Point]]:
    """The points of training and of the first development set, by updates, in what :func:`read_train_log` reads.

    Training has a point every --log-interval updates, or one an epoch where there are more of these. Where training was
    resumed into the same file, what was trained again replaces what the file had from there on.

    Raises:
        InputError: the file cannot be read, or has neither.
    """
    lines: dict[str | None, dict[float, Statistics]] = {SINCE: {}, None: {}}  # updates ascending
    dev_set = None
    for _, subset, statistics in filter(None, map(_statistics, read_log(path).split("\n"))):
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
        raise InputError(f"{path}: holds no update; give the log of fairseq-train --log-format simple or json")
    times = _seconds(trained, [*trained, *validated])
    points = [
        Point(int(updates), seconds, statistics.get("ppl"), statistics.get("bleu"))
        for (updates, statistics), seconds in zip([*trained.items(), *validated.items()], times)
    ]
    return points[: len(trained)], points[len(trained) :]


def _seconds(trained: dict[float, Statistics], updates: Sequence[float]) -> list[float | None]:
    """The seconds at these updates; after the last line, by the average speed."""
    walls = [statistics.get("train_wall") for statistics in trained.values()]
    if not walls or None in walls:
        return [None] * len(updates)
    known, seconds = [0.0, *trained], [0.0, *accumulate(walls)]
    return (np.interp(updates, known, seconds) * np.maximum(1, np.array(updates) / known[-1])).tolist()


def best_epoch(epochs: Sequence[Epoch]) -> Epoch | None:
    """The epoch of lowest loss on the development set, the first of equals; None if none was validated."""
    validated = [epoch for epoch in epochs if epoch.dev_loss is not None and not isnan(epoch.dev_loss)]
    return min(validated, key=lambda epoch: epoch.dev_loss, default=None)


def read_log(path: Path) -> str:
    """The text of a log.

    Raises:
        InputError: it cannot be read.
    """
    try:
        # Only numbers and names of devices are read from it, so bytes that are not UTF-8 do not matter.
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); give the log of fairseq-train") from error


def _statistics(line: str) -> tuple[int, str | None, Statistics] | None:
    """The epoch, the development set and the statistics of a log line; None if the line has no statistics.

    The development set is None in the training line of a whole epoch, and SINCE in the line of a part of an epoch.
    """
    if '{"epoch": ' not in line:
        return _printed_statistics(line.split(" | "))
    try:
        record = json.loads(line[line.index("{") :])
    except (ValueError, RecursionError):
        return None  # a training that was stopped left the line unfinished
    # Names begin with that of the data: "train_wall" is "wall", the time since the command started, and the epoch's
    # own "train_wall" is "train_train_wall". Of a part of an epoch, names have no such beginning.
    prefix = next((name.removesuffix("num_updates") for name in record if name.endswith("num_updates")), None)
    if prefix is None or type(record.get("epoch")) is not int:
        return None
    texts = {name.removeprefix(prefix): text for name, text in record.items() if name.startswith(prefix)}
    return record["epoch"], None if prefix == "train_" else prefix.removesuffix("_"), _numbers(texts)


def _printed_statistics(pieces: list[str]) -> tuple[int, str | None, Statistics] | None:
    """The same, from the pieces between a line's bars."""
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
    """The statistics that are numbers; names without ``_nats``, which version 0.2.0 did not write."""
    numbers = {}
    for name, text in texts.items():
        try:
            numbers[name.removesuffix("_nats")] = float(text)
        except (TypeError, ValueError, OverflowError):
            continue
    return numbers


def _epoch(number: int, train: Statistics, validated: Sequence[Statistics]) -> Epoch:
    """Raises KeyError with the name of what fairseq logs of every epoch and ``train`` has not."""
    if not isfinite(train["num_updates"]):
        raise KeyError("num_updates")
    # A loss that is missing or not a number is the highest.
    dev = min(validated, key=lambda dev: inf if isnan(dev.get("loss", inf)) else dev.get("loss", inf), default={})
    of_dev = (dev.get(name) for name in ("loss", "ppl", "nll_sentence"))
    return Epoch(number, int(train["num_updates"]), train["train_wall"], train.get("nll_sentence"), *of_dev)
