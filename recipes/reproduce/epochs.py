"""Read the epochs of a log of ``fairseq-train``."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isnan
from pathlib import Path

from recipes.reproduce.logs import read_kinds
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.plugin.progress import Statistics


@dataclass(frozen=True)
class Epoch:
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


def read_train_log(path: Path) -> list[Epoch]:
    """Read the finished epochs in the output of ``fairseq-train --log-format json``.

    Raises:
        InputError: the file cannot be read, holds no finished epoch, or does not say how long one took.
    """
    trained, _, validated = read_kinds(path)
    epochs: dict[float, Epoch] = {}  # one that was ended by --max-update, and went on later, has two lines
    for updates, train in trained.items():
        if "train_wall" not in train:
            raise InputError(f"{path}: epoch {train['epoch']} has no train_wall; train it anew")
        in_epoch = [dev for dev in validated.values() if dev["epoch"] == train["epoch"]]
        dev = min(in_epoch, key=_loss, default={})
        of_dev = (dev.get(name) for name in ("loss", "ppl", "nll_sentence_nats"))
        numbers = updates, train["train_wall"], train.get("nll_sentence_nats")
        epochs[train["epoch"]] = Epoch(train["epoch"], *numbers, *of_dev)
    if not epochs:
        raise InputError(f"{path}: holds no finished epoch; give the log of fairseq-train --log-format json")
    return list(epochs.values())


def best_epoch(epochs: Sequence[Epoch]) -> Epoch | None:
    """The epoch of lowest loss on the development set, the first of equals; None if none was validated."""
    validated = [epoch for epoch in epochs if epoch.dev_loss is not None and not isnan(epoch.dev_loss)]
    return min(validated, key=lambda epoch: epoch.dev_loss, default=None)


def _loss(dev: Statistics) -> float:
    """The loss of a validation; one that is missing or not a number is the highest."""
    loss = dev.get("loss", inf)
    return inf if isnan(loss) else loss
