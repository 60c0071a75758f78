"""After Ctrl-C (SIGINT) or SIGTERM, a training finishes its update, saves a checkpoint, and ends."""

import logging
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import fairseq.checkpoint_utils
import fairseq.distributed.utils
import torch
from fairseq.trainer import Trainer

logger = logging.getLogger(__name__)

received = 0  # the number of the signal that asks this process to stop


def install_signal_handlers() -> None:
    """Note SIGINT and SIGTERM; a second Ctrl-C ends the process at once."""
    signal.signal(signal.SIGINT, _note_signal)
    signal.signal(signal.SIGTERM, _note_signal)
    os.register_at_fork(after_in_child=_heed_parent_only)


def _note_signal(number: int, frame: Any) -> None:
    global received
    received = number
    if number == signal.SIGINT:
        signal.signal(number, signal.SIG_DFL)


def _heed_parent_only() -> None:
    """Let a worker that reads the data live on: ``timeout`` and Slurm signal all processes, and the update needs it."""

    def wait_for_parent(parent: int = os.getppid()) -> None:
        while signal.sigwaitinfo({signal.SIGTERM}).si_pid != parent:
            pass
        os._exit(0)

    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    threading.Thread(target=wait_for_parent, daemon=True).start()


def stop_after_update(
    validate_and_save: Callable[..., Any], cfg: Any, trainer: Trainer, task: Any, epoch_itr: Any, *options: Any
) -> Any:
    """Validate and save as in fairseq; after a signal, save and end with the status that a shell gives to it."""
    losses, should_stop = validate_and_save(cfg, trainer, task, epoch_itr, *options)
    number = received
    if trainer.data_parallel_world_size > 1:  # one process may have the signal an update later than another
        signals = torch.tensor(number, device=trainer.device)
        fairseq.distributed.utils.all_reduce(signals, trainer.data_parallel_process_group, op="max")
        number = int(signals)
    if not number or should_stop:
        return losses, should_stop
    fairseq.checkpoint_utils.save_checkpoint(cfg.checkpoint, trainer, epoch_itr, losses[0])
    if torch.distributed.is_initialized():  # the launcher kills the others when the first one ends
        torch.distributed.barrier(fairseq.distributed.utils.get_global_group())
    updates, goes_on = trainer.get_num_updates(), f"goes on from {cfg.checkpoint.save_dir}/checkpoint_last.pt"
    logger.info(f"{signal.Signals(number).name}: training stops after update {updates}; the same command {goes_on}")
    raise SystemExit(128 + number)
