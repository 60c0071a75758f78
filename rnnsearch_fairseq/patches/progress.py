"""Short lines about a training, for people, beside those that fairseq writes for programs.

They are part of the log (and of --log-file), by the name ``progress``: one after the first update that ends
:data:`SECONDS` or more after the last such line, and one for each validation. ::

    update 1,200 of 5,000 | perplexity 12.3 | 3,456 words/s | 12 min left
    update 1,200 | valid perplexity 14.2 | valid BLEU 31.20
"""

import logging
import os
import time
from collections.abc import Iterable, Iterator
from typing import Any

from fairseq.logging import metrics
from fairseq.logging.meters import MetersDict
from fairseq.logging.progress_bar import BaseProgressBar, logger, rename_logger
from tqdm import tqdm

from rnnsearch_fairseq.patches.around import Original, around

SECONDS = 20.0

_last: float | None = None  # when the last line but those of validations was written, by time.monotonic


@around
def write_lines_for_people(
    make_bar: Original,
    batches: Iterable[Any],
    log_format: str | None = None,
    log_interval: int = 100,
    log_file: str | None = None,
    epoch: int | None = None,
    prefix: str | None = None,
    **kwargs: Any,
) -> BaseProgressBar:
    """fairseq tells of a training in long lines, every --log-interval updates; now in short ones as well, by time.

    --log-file has a line as often as epochs have begun, since each adds a handler (logging/progress_bar.py:47); now it
    has each line once.
    """
    files = [handler.baseFilename for handler in logger.handlers if isinstance(handler, logging.FileHandler)]
    if log_file is not None and os.path.abspath(log_file) in files:
        log_file = None
    bar = make_bar(batches, log_format, log_interval, log_file, epoch, prefix, **kwargs)
    # Bars without an epoch are not of a training.
    return bar if epoch is None or log_format == "none" else ReadableLines(bar, batches, epoch)


class ReadableLines(BaseProgressBar):
    """Writes the lines, and leaves everything else to ``bar``.

    Args:
        batches: of an epoch or of a development set, as fairseq counts them.
        epoch: its number, from 1.
    """

    def __init__(self, bar: BaseProgressBar, batches: Any, epoch: int) -> None:
        self.bar = bar
        self.batches = batches
        self.epoch = epoch
        self.limits: dict[str, Any] | None = None  # of the number of updates; None: this is a development set

    def update_config(self, config: dict[str, Any]) -> None:
        """fairseq gives the options of the command to an epoch's bar only."""
        self.limits = config["optimization"]
        self.bar.update_config(config)

    def log(self, stats: Any, tag: str | None = None, step: int | None = None) -> None:
        """As in fairseq."""
        self.bar.log(stats, tag=tag, step=step)

    def print(self, stats: Any, tag: str | None = None, step: int | None = None) -> None:
        """As in fairseq; of a development set, also the short line."""
        self.bar.print(stats, tag=tag, step=step)
        if self.limits is None:
            found = [f"update {stats['num_updates']:,}"]
            for name, key, digits in (("perplexity", "ppl", 1), ("BLEU", "bleu", 2)):
                if key in stats:
                    found.append(f"{tag} {name} {stats[key]:,.{digits}f}")
            _write(" | ".join(found))

    def __len__(self) -> int:
        return len(self.bar)

    def __iter__(self) -> Iterator[Any]:
        global _last
        _last = time.monotonic() if _last is None else _last
        context = metrics.aggregate()
        recent = context.__enter__()
        try:
            for done, batch in enumerate(self.bar, getattr(self.batches, "n", 0) + 1):
                yield batch
                if time.monotonic() - _last >= SECONDS and (line := self._line(recent, done)) is not None:
                    _write(line)
                    _last = time.monotonic()
                    recent.reset()
        finally:
            # fairseq's context does not end itself after an exception, and one ends this generator.
            context.__exit__(None, None, None)

    def _line(self, recent: MetersDict, done: int) -> str | None:
        """The line after ``done`` batches of this epoch; None if nothing is known yet.

        Its perplexity is that of ``recent`` updates; words and time are by the average speed since the command started.
        When fairseq goes on from a checkpoint, it puts the checkpoint's meters in the place that `metrics.get_meter`
        reads, and updates the others (logging/metrics.py:326): those of the first active aggregator.
        """
        if self.limits is None:
            return f"validation: batch {done:,} of {len(self.batches):,}"
        ups, wps = (metrics.get_active_aggregators()[0].get(name) for name in ("ups", "wps"))
        # The first update starts the clock of the speeds. An update may have been skipped.
        if ups is None or not ups.avg or "num_updates" not in recent or recent["num_updates"].val is None:
            return None
        update = recent["num_updates"].val
        end, whose = self._end(update, done)
        found = [f"update {update:,} of {end:,}"]
        values = recent.get_smoothed_values()
        if "ppl" in values:
            found.append(f"perplexity {values['ppl']:,.1f}")
        if wps is not None:
            found.append(f"{wps.avg:,.0f} words/s")
        return " | ".join([*found, f"{_duration((end - update) / ups.avg)} left{whose}"])

    def _end(self, update: int, done: int) -> tuple[int, str]:
        """The update that ends the training, and no words; without a limit, the last of this epoch, and its name."""
        end = update + len(self.batches) - done
        limits = [self.limits["max_update"]] if self.limits["max_update"] else []
        if self.limits["max_epoch"]:
            limits.append(end + (self.limits["max_epoch"] - self.epoch) * len(self.batches))
        return (min(limits), "") if limits else (end, f" of epoch {self.epoch}")


def _write(line: str) -> None:
    # A bar on the terminal makes room for the line.
    with tqdm.external_write_mode(), rename_logger(logger, "progress"):
        logger.info(line)


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60:,} h {minutes % 60} min"
