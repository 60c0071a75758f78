"""Show how far a training is, and keep its log.

Standard input is the output of fairseq-train --log-format simple. All of it is added to LOG; a short line is printed
every ten seconds at most, for each validation, and for what fairseq-train says of an error or of its end.

  fairseq-train ... --log-format simple 2>&1 | rnnsearch progress train.log 885
"""

import re
import signal
import sys
import time
from pathlib import Path

from rnnsearch_fairseq.errors import Count, make_parser
from rnnsearch_fairseq.plots.train_log import INTERVAL, read_statistics

SECONDS = 10  # between two lines
NEWS = re.compile(r"^error: |: error: |^\w*(?:Error|Exception)\b|\| (?:WARNING|ERROR) \| rnnsearch|: training stops after ")
NAMES = {"ppl": "perplexity", "bleu": "BLEU"}


class Progress:
    """Makes short lines of a log's lines; ``total`` is the last update, if it is known."""

    def __init__(self, total: int | None, name: str = "") -> None:
        self._total, self._name = total, name
        self._first: tuple[float, float] | None = None
        self._shown = float("-inf")

    def show(self, line: str, now: float) -> str | None:
        """The short line for a line of the log that came at ``now`` (seconds); None if it is not to be shown."""
        if NEWS.search(line):
            return line.rpartition(" | ")[2]
        _, kind, statistics = read_statistics(line) or (0, None, {})
        updates = statistics.get("num_updates")
        if kind is None or updates is None:
            return None
        self._first = self._first or (updates, now)
        if kind == INTERVAL and now < self._shown + SECONDS:
            return None
        self._shown = now
        parts = [f"update {updates:,.0f}" + (f" of {self._total:,}" if self._total else "")]
        valid = "" if kind == INTERVAL else "development "
        parts += [f"{valid}{name} {statistics[key]:.2f}" for key, name in NAMES.items() if key in statistics]
        parts += [left] if (left := self._time_left(updates, now)) else []
        return f"  {self._name}{' | '.join(parts)}"

    def _time_left(self, updates: float, now: float) -> str:
        done, seconds = updates - self._first[0], now - self._first[1]
        if not self._total or not done or updates >= self._total:
            return ""
        minutes = (self._total - updates) * seconds / done / 60
        return f"about {minutes / 60:.1f} hours left" if minutes > 90 else f"about {max(1, round(minutes))} min left"


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("log", metavar="LOG", type=Path, help="file to add the log to")
    parser.add_argument("total", action=Count, nargs="?", help="updates of the whole training")
    parser.add_argument("--name", default="", help="words to print first in each line")
    args = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the training ends by itself, and its last lines are wanted
    progress = Progress(args.total, args.name and f"{args.name}: ")
    with open(args.log, "ab") as log:
        for line in sys.stdin.buffer:
            log.write(line)
            log.flush()
            if shown := progress.show(line.decode(errors="replace").rstrip("\n"), time.monotonic()):
                print(shown, flush=True)
