"""Read the epochs of a log of ``fairseq-train``."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite, isnan
from pathlib import Path

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.plots.train_log import INTERVAL, Statistics, read_log, read_statistics


@dataclass(frozen=True)
class Epoch:
    """An epoch as the log has it, its numbers rounded as fairseq prints them; None if it was not validated.

    updates: of all epochs up to this one.
    seconds: whole ones, spent in updates; not in reading data, validation and saving.
    train_nll_sentence, dev_nll_sentence: nats a sentence; None if the criterion does not log them, as summed_nll does.
    dev_loss: fairseq's "loss", by which it chooses its best checkpoint, of the first development set: bits a word,
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


def read_train_log(path: Path) -> list[Epoch]:
    """The finished epochs in the output of ``fairseq-train`` or its ``--log-file``, with any --log-format but none.

    Where training was resumed into the same file, an epoch that was trained again replaces itself and all after it.

    Raises:
        InputError: the file cannot be read, holds no finished epoch, or says too little of one.
    """
    epochs: dict[int, Epoch] = {}
    validated: list[tuple[int, Statistics]] = []  # epoch and statistics, updates ascending
    dev_set = None
    for line_number, line in enumerate(read_log(path).split("\n"), 1):
        number, subset, statistics = read_statistics(line) or (0, None, {})
        try:
            if subset == INTERVAL:
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
        raise InputError(f"{path}: holds no finished epoch; give the log of fairseq-train --log-format simple")
    return list(epochs.values())


def best_epoch(epochs: Sequence[Epoch]) -> Epoch | None:
    """The epoch of lowest loss on the development set, the first of equals; None if none was validated."""
    validated = [epoch for epoch in epochs if epoch.dev_loss is not None and not isnan(epoch.dev_loss)]
    return min(validated, key=lambda epoch: epoch.dev_loss, default=None)


def _epoch(number: int, train: Statistics, validated: Sequence[Statistics]) -> Epoch:
    """Raises KeyError with the name of a statistic that ``train`` lacks and fairseq logs of every epoch."""
    if not isfinite(train["num_updates"]):
        raise KeyError("num_updates")
    # A loss that is missing or not a number is the highest.
    dev = min(validated, key=lambda dev: inf if isnan(dev.get("loss", inf)) else dev.get("loss", inf), default={})
    of_dev = (dev.get(name) for name in ("loss", "ppl", "nll_sentence_nats"))
    return Epoch(number, int(train["num_updates"]), train["train_wall"], train.get("nll_sentence_nats"), *of_dev)
