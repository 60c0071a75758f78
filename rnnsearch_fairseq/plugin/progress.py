"""Show how far a training is, and keep its log.

Standard input is the output of fairseq-train --log-format simple. All of it is added to LOG; a short line is printed
every ten seconds at most, for each validation, and for each error, warning of this package, and end by a signal.

  fairseq-train ... --log-format simple 2>&1 | rnnsearch progress train.log 885
"""

import contextlib
import re
import signal
import sys
import time
from pathlib import Path

from rnnsearch_fairseq.command_line import count, make_parser
from rnnsearch_fairseq.text.lines import open_bytes

SECONDS = 10  # between two lines
NEWS = re.compile(
    r"(?:^|: )(error: .*)|^([\w.]*(?:Error|Exception)\b.*)|"
    r"\| (?:WARNING \| rnnsearch|ERROR \| )[\w.]* \| (.*)|\| (\w+: training stops after .*)"
)
NAMES = {"ppl": "perplexity", "bleu": "BLEU"}
# --log-format simple and tqdm print the epoch's number, perhaps a subset, and statistics. Before that a line has the
# time, or nothing in --log-file.
EPOCH = re.compile(r"(?:^|\| )epoch (\d+)(?: \| valid on '([^']+)' subset)?((?: \| \w+ \S+)+)$")
# The simple format prints an interval of --log-interval updates.
INNER = re.compile(r"(?:^|\| )epoch (\d+): +\d+ / \d+ (.*)$")
INTERVAL = ""  # in place of the subset, in the line of an interval
Statistics = dict[str, float]


def read_statistics(line: str) -> tuple[int, str | None, Statistics] | None:
    """Read the epoch, the kind (INTERVAL, a development set, or None: the epoch) and the statistics of a log line."""
    inner, whole = INNER.search(line), EPOCH.search(line)
    if not (found := inner or whole):
        return None
    numbers = {}
    for name, text in re.findall(r"(\w+)[= ]([^\s,]+)", found[found.lastindex]):
        with contextlib.suppress(ValueError):
            numbers[name] = float(text)
    return int(found[1]), INTERVAL if inner else whole[2], numbers


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


class Progress:
    """Makes short lines of a log's lines; ``total`` is the last update, if it is known; each begins with ``name``."""

    def __init__(self, total: int | None = None, name: str = "") -> None:
        self._total, self._name = total, name
        self._first: tuple[float, float] | None = None  # updates, and when; a resumed training does not begin at 0
        self._shown = float("-inf")

    def show(self, line: str, now: float) -> str | None:
        """The short line for a line of the log that came at ``now`` (seconds); None if it is not to be shown."""
        if news := NEWS.search(line):
            return f"  {self._name}{news[news.lastindex]}"
        _, kind, statistics = read_statistics(line) or (0, None, {})
        if kind is None or "num_updates" not in statistics:
            return None
        self._first = self._first or (statistics["num_updates"], now)
        if kind == INTERVAL and now < self._shown + SECONDS:
            return None
        self._shown = now
        parts = [f"update {statistics['num_updates']:,.0f}" + (f" of {self._total:,}" if self._total else "")]
        valid = "" if kind == INTERVAL else "development "
        parts += [f"{valid}{name} {statistics[key]:.2f}" for key, name in NAMES.items() if key in statistics]
        return f"  {self._name}{' | '.join(parts)}{self._time_left(statistics, now)}"

    def _time_left(self, statistics: Statistics, now: float) -> str:
        """By the average speed since the first line, where fairseq's own (``ups``, updates a second) must do."""
        updates = statistics["num_updates"]
        done, seconds = updates - self._first[0], now - self._first[1]
        speed = done / seconds if done and seconds else statistics.get("ups")
        if not self._total or not speed or updates >= self._total:
            return ""
        minutes = (self._total - updates) / speed / 60
        return f" | about {f'{minutes / 60:.1f} hours' if minutes > 90 else f'{max(1, round(minutes))} min'} left"


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("log", metavar="LOG", type=Path, help="file to add the log to")
    parser.add_argument("total", type=count, nargs="?", metavar="TOTAL", help="updates of the whole training")
    parser.add_argument("--name", default="", help="words to print first in each line")
    args = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):  # the training ends by itself, and its last lines are wanted
        signal.signal(number, signal.SIG_IGN)
    progress = Progress(args.total, args.name and f"{args.name}: ")
    with args.log.open("ab", buffering=0) as log:
        for line in sys.stdin.buffer:
            log.write(line)
            if shown := progress.show(line.decode(errors="replace").rstrip("\n"), time.monotonic()):
                print(shown, flush=True)
