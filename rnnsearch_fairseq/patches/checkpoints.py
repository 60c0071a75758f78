"""Checkpoint files that are whole or absent, and a training that goes on from one as if it had not been broken."""

import contextlib
import logging
import os
import pickle
import shutil
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import torch
from fairseq.file_io import PathManager
from fairseq.logging import metrics
from fairseq.optim.lr_scheduler.reduce_lr_on_plateau import ReduceLROnPlateauLRSchedule
from fairseq.trainer import Trainer

from rnnsearch_fairseq.errors import InputError, in_short
from rnnsearch_fairseq.patches import stopping

logger = logging.getLogger(__name__)

LAST = "checkpoint_last.pt"  # the default of --restore-file


@contextlib.contextmanager
def open_whole(path: str) -> Iterator[BinaryIO]:
    """Open a file under a temporary name, the same for each try; it is renamed to ``path`` when it is on the disk."""
    with open(f"{path}.tmp", "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{path}.tmp", path)


def save_whole(torch_persistent_save: Callable[..., Any], obj: Any, filename: str, async_write: bool = False) -> None:
    """Write a checkpoint; fairseq tries again, after an error, behind the partial bytes (checkpoint_utils.py:599)."""
    if async_write or not PathManager.supports_rename(filename):
        torch_persistent_save(obj, filename, async_write)
        return
    with open_whole(filename) as file:
        torch.save(obj, file)


def copy_whole(copy: Callable[..., Any], src_path: str, dst_path: str, overwrite: bool = False) -> Any:
    """Copy a checkpoint; fairseq copies over the old one (checkpoint_utils.py:139)."""
    if not (overwrite and PathManager.supports_rename(dst_path)):
        return copy(src_path, dst_path, overwrite=overwrite)
    with open(src_path, "rb") as source, open_whole(dst_path) as file:
        shutil.copyfileobj(source, file)
    return True


def resume(load_checkpoint: Callable[..., Any], cfg: Any, trainer: Trainer, **passthrough: Any) -> Any:
    """Load the checkpoint; end a training that has made all its updates; from here on, stop after signals.

    fairseq makes one more update in each start after the last (fairseq_cli/train.py:389).

    Raises:
        InputError: the checkpoint cannot be read, or ``--restore-file`` names none.
    """
    path = cfg.restore_file.replace(".pt", f"{trainer.checkpoint_suffix}.pt")
    if cfg.restore_file == LAST:
        path = os.path.join(cfg.save_dir, path)
    elif not PathManager.exists(path):
        raise InputError(f"--restore-file {path}: no such file; without the option, training goes on from {LAST}")
    try:
        state, epoch_itr = load_checkpoint(cfg, trainer, **passthrough)
    except (RuntimeError, EOFError, pickle.UnpicklingError) as error:
        path = path if PathManager.exists(path) else cfg.finetune_from_model
        raise InputError(
            f"{path}: cannot be loaded ({in_short(error)}); if it is damaged, go on from an older checkpoint in "
            f"{cfg.save_dir} by --restore-file"
        ) from error
    if state is not None and not cfg.reset_dataloader and state["train_iterator"]["iterations_in_epoch"] == 0:
        end_epoch(state, cfg, trainer)
    updates = trainer.get_num_updates()
    if updates > 0 and updates == trainer.cfg.optimization.max_update:
        logger.info(f"nothing to do: the {updates} updates of --max-update are done")
        raise SystemExit(0)
    stopping.install_signal_handlers()
    return state, epoch_itr


def end_epoch(state: dict[str, Any], cfg: Any, trainer: Trainer) -> None:
    """Restore what fairseq forgets between epochs: the mean of the log's interval, and a fall of the learning rate.

    reduce_lr_on_plateau, and halve_on_worse, step only after the checkpoint at the end of the epoch is saved.
    """
    if not cfg.reset_meters and "train_inner" in state.get("metrics", {}):
        metrics.load_state_dict({"train_inner": state["metrics"]["train_inner"]})
    resets = cfg.reset_optimizer or cfg.reset_lr_scheduler
    if isinstance(trainer.lr_scheduler, ReduceLROnPlateauLRSchedule) and not resets:
        trainer.lr_step(state["train_iterator"]["epoch"] - 1, state.get("val_loss"))
