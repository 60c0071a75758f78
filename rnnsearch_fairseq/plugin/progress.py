"""Show how far a training is, and write its log.

Standard input is the output of fairseq-train --log-format json, which is appended to LOG. The command prints a short
line for each validation, error, warning of this package and stop signal, and at most every ten seconds in between.

  fairseq-train ... --log-format json 2>&1 | rnnsearch progress train.log 885
"""

import json
import re
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

from rnnsearch_fairseq.command_line import count, make_parser

SECONDS = 10  # between two lines
NEWS = re.compile(
    r"(?:^|: )(error: .*)|^([\w.]*(?:Error|Exception)\b.*)|"
    r"\| (?:WARNING \| rnnsearch|ERROR \| )[\w.]* \| (.*)|\| (\w+: training stops after .*|Loaded checkpoint .*)"
)
STATISTIC_NAMES = {"ppl": "perplexity", "bleu": "BLEU"}
EPOCH, UPDATES = "train", "train_inner"  # kinds of lines: after an epoch, and after --log-interval updates
LINE = re.compile(r"\| INFO \| ([\w.-]+) \| (\{.*\})$")
Statistics = dict[str, float]


def read_statistics(line: str) -> tuple[str, Statistics] | None:
    """Read the kind (EPOCH, UPDATES, or the name of a development set) and the statistics of a line of the log."""
    if not (match := LINE.search(line)):
        return None
    kind, record = match.groups()
    try:
        return kind, {name.removeprefix(f"{kind}_"): float(text) for name, text in json.loads(record).items()}
    except (ValueError, TypeError):  # another line in braces
        return None


class Progress:
    """Turns lines of a log into short lines, which begin with ``name``; ``total`` is the last update, if known."""

    def __init__(self, total: int | None = None, name: str = "") -> None:
        self._total, self._name = total, name
        self._shown, self._pace = float("-inf"), 0.0  # seconds an update, smoothed
        self._resumed = False  # fairseq's next rate would count the time of the updates before, too

    def show(self, line: str, now: float) -> str | None:
        """The short line for a line of the log that came at ``now`` (seconds), or None."""
        if news := NEWS.search(line):
            self._resumed |= "Loaded checkpoint" in line
            return f"  {self._name}{news[news.lastindex]}"
        kind, statistics = read_statistics(line) or (EPOCH, {})
        if kind == UPDATES and (rate := statistics.get("ups")):  # updates a second
            if not self._resumed:
                self._pace = 0.8 * self._pace + 0.2 / rate if self._pace else 1 / rate
            self._resumed = False
        if kind == EPOCH or "num_updates" not in statistics or (kind == UPDATES and now < self._shown + SECONDS):
            return None
        self._shown, updates = now, statistics["num_updates"]
        parts = [f"update {updates:,.0f}" + (f" of {self._total:,}" if self._total else "")]
        valid = "" if kind == UPDATES else "development "
        parts += [f"{valid}{name} {statistics[key]:.2f}" for key, name in STATISTIC_NAMES.items() if key in statistics]
        if self._total and updates < self._total and self._pace:
            left = timedelta(seconds=max(1, round((self._total - updates) * self._pace)))
            parts.append(f"about {left} left")
        return f"  {self._name}{' | '.join(parts)}"


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("log", metavar="LOG", type=Path, help="file to add the log to")
    parser.add_argument("total", type=count, nargs="?", metavar="TOTAL", help="updates of the whole training")
    parser.add_argument("--name", default="", help="words to print at the beginning of each line")
    args = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # the last lines come when the training has ended
        signal.signal(number, signal.SIG_IGN)
    progress = Progress(args.total, args.name and f"{args.name}: ")
    with args.log.open("ab", buffering=0) as log:
        for line in sys.stdin.buffer:
            log.write(line)
            if shown := progress.show(line.decode(errors="replace").rstrip("\n"), time.monotonic()):
                print(shown, flush=True)
