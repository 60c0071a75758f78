"""After SIGTERM or SIGINT (Ctrl-C), finish the update, save, and end with status 143 or 130."""

import logging
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import fairseq.checkpoint_utils
import fairseq.distributed.utils
import fairseq_cli.train
import torch
from fairseq.trainer import Trainer

logger = logging.getLogger(__name__)

SIGNALS = (signal.SIGINT, signal.SIGTERM)

_asked: signal.Signals | None = None  # the first signal that asked this process to stop
_before: dict[signal.Signals, Any] = {}  # the handlers from before the training


def listen() -> None:
    """From here on, note the signals, except those that the shell has the process ignore.

    Before this there is nothing to save, and a signal ends the process. The workers that read the data are forked
    later, and do not die of a Ctrl-C either.
    """
    global _asked
    if threading.current_thread() is threading.main_thread() and not _before:
        _asked = None
        heard = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
        _before.update({number: signal.signal(number, _note) for number in heard})


def restore_handlers() -> None:
    """Undo `listen`."""
    while _before:
        signal.signal(*_before.popitem())


def part() -> None:
    """Wait for the other processes, which the launcher ends when this one ends, and close their group.

    The threads of an open group may abort Python at its end (PyTorch's pull request 179291).
    """
    if torch.distributed.is_initialized():
        torch.distributed.barrier(fairseq.distributed.utils.get_global_group())
        torch.distributed.destroy_process_group()


def patience() -> dict[str, Any]:
    """The best loss, and the validations since then, which fairseq keeps as attributes of a function."""
    return vars(getattr(sys.modules["__main__"], "should_stop_early", fairseq_cli.train.should_stop_early))


def _note(signum: int, frame: Any) -> None:
    global _asked
    _asked = _asked or signal.Signals(signum)
    if signum == signal.SIGINT:  # a second one ends the process at once
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def stop_after_update(
    validate_and_save: Callable[..., Any],
    cfg: Any,
    trainer: Trainer,
    task: Any,
    epoch_itr: Any,
    subsets: list[str],
    end_of_epoch: bool,
) -> Any:
    """After a signal, save once the update and its validation are done, and end.

    An epoch's end that fairseq did not save cannot be gone on from, since the learning rate falls there; then training
    stops after the next update.
    """
    losses, ended = validate_and_save(cfg, trainer, task, epoch_itr, subsets, end_of_epoch)
    # With several processes, all of them know the same signal.
    number = _asked if trainer.data_parallel_world_size == 1 else getattr(trainer, "asked_to_stop_by", None)
    updates, every = trainer.get_num_updates(), cfg.checkpoint.save_interval_updates
    is_saved = every > 0 and updates % every == 0 and updates >= cfg.dataset.validate_after_updates
    is_saved |= end_of_epoch and epoch_itr.epoch % cfg.checkpoint.save_interval == 0
    if number is None or ended or (end_of_epoch and not is_saved):
        return losses, ended
    if not is_saved:
        fairseq.checkpoint_utils.save_checkpoint(cfg.checkpoint, trainer, epoch_itr, None)
    part()
    way_on = f"started again, it goes on from {cfg.checkpoint.save_dir}/checkpoint_last.pt"
    logger.info(f"{number.name}: training stops after update {updates}; {way_on}")
    raise SystemExit(128 + number)  # as a shell gives it


def share_the_signal(
    aggregate: Callable[..., Any], self: Trainer, outputs: Any, *stats: Any, ignore: bool = False
) -> Any:
    """Tell all processes of a signal to one of them, by the numbers that fairseq sums in each update."""
    own = [float(_asked is number) for number in SIGNALS]
    outputs, stats = aggregate(self, outputs, *stats, *own, ignore=ignore)
    *stats, interrupted, terminated = stats
    asked = [number for number, count in zip(SIGNALS, (interrupted, terminated)) if count > 0]
    self.asked_to_stop_by = asked[0] if asked else None
    return outputs, stats
