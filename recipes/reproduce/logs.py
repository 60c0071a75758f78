"""Read the statistics in a log of fairseq-train."""

import re
from pathlib import Path

from rnnsearch_fairseq.plugin.progress import EPOCH, UPDATES, Statistics, read_statistics
from rnnsearch_fairseq.text.lines import open_bytes

# The logs of the stored runs were written with --log-format simple.
SIMPLE = re.compile(r"\| INFO \| ([\w.-]+) \| epoch (\d+)([ |:].*)$")
Lines = dict[int, Statistics]  # by updates


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
        if not 0 < updates < float("inf"):
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
