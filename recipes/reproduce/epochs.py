"""Read the statistics in a log of ``fairseq-train``, and its epochs."""

import re
from collections.abc import Sequence
from math import inf, isnan, nan
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.plugin.progress import EPOCH, UPDATES, Statistics, read_statistics
from rnnsearch_fairseq.text.lines import open_bytes

# The logs of the stored runs were written with --log-format simple.
SIMPLE = re.compile(r"\| INFO \| ([\w.-]+) \| epoch (\d+)([ |:].*)$")
Lines = dict[int, Statistics]  # by updates


class Epoch(NamedTuple):
    """An epoch as the log has it, its numbers rounded as fairseq prints them; None if it was not validated.

    updates: of all epochs up to this one.
    seconds: spent in updates; not in reading data, validation and saving.
    train_nll_sentence, dev_nll_sentence: nats a sentence; None if the criterion does not log them.
    dev_loss: the loss by which fairseq chooses its best checkpoint, of the first development set; the lowest of an
        epoch's validations.
    dev_ppl: perplexity by word.
    """

    number: int
    updates: int
    seconds: float
    train_nll_sentence: float | None
    dev_loss: float | None
    dev_ppl: float | None
    dev_nll_sentence: float | None


def read_log(path: Path) -> str:
    """Read the text of a log, in which bytes that are not UTF-8 do not matter."""
    with open_bytes(path) as file:
        return file.read().decode(errors="replace")


def read_kinds(path: Path) -> tuple[Lines, Lines, Lines]:
    """Read the statistics of epochs, of --log-interval updates, and of validations on the first development set.

    If a training was resumed, later lines replace earlier lines of the same or higher update numbers.
    """
    kinds: dict[str, Lines] = {EPOCH: {}, UPDATES: {}}
    last = 0.0
    for line in read_log(path).split("\n"):
        kind, statistics = read_statistics(line) or _read_simple(line) or (EPOCH, {})
        updates = statistics.get("num_updates", 0)
        if not 0 < updates < inf:
            continue
        if updates < last:  # resumed
            kinds = {name: {at: lines[at] for at in lines if at < updates} for name, lines in kinds.items()}
        last = updates
        kinds.setdefault(kind, {})[int(updates)] = statistics
    return kinds.pop(EPOCH), kinds.pop(UPDATES), next(iter(kinds.values()), {})


def _read_simple(line: str) -> tuple[str, Statistics] | None:
    if not (match := SIMPLE.search(line)):
        return None
    kind, epoch, rest = match.groups()
    numbers = re.findall(r"(\w+)[= ](-?(?:[\d.]+(?:e[-+]\d+)?|nan|inf))(?=,| \||$)", rest)
    return kind, {"epoch": int(epoch), **{name: float(text) for name, text in numbers}}


def read_train_log(path: Path) -> list[Epoch]:
    """Read the finished epochs in the output of ``fairseq-train --log-format json``; an InputError if there is none."""
    trained, _, validated = read_kinds(path)
    epochs: dict[float, Epoch] = {}  # one that was ended by --max-update, and went on later, has two lines
    for updates, train in trained.items():
        devs = [dev for dev in validated.values() if dev["epoch"] == train["epoch"] and not isnan(dev.get("loss", nan))]
        dev = min(devs, key=itemgetter("loss"), default={})
        of_dev = (dev.get(name) for name in ("loss", "ppl", "nll_sentence_nats"))
        numbers = updates, train["train_wall"], train.get("nll_sentence_nats")
        epochs[train["epoch"]] = Epoch(int(train["epoch"]), *numbers, *of_dev)
    if not epochs:
        raise InputError(f"{path}: holds no finished epoch; give the log of fairseq-train --log-format json")
    return list(epochs.values())


def best_epoch(epochs: Sequence[Epoch]) -> Epoch | None:
    """The epoch of lowest loss on the development set, of equals that of lowest NLL; None if none was validated."""
    validated = [epoch for epoch in epochs if epoch.dev_loss is not None]
    return min(validated, key=lambda epoch: (epoch.dev_loss, epoch.dev_nll_sentence or 0), default=None)
