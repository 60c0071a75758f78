"""Checkpoint files that are whole or absent, and a training that goes on from one as if it had not been broken."""

import logging
import os
import pickle
from collections.abc import Callable
from typing import Any

from fairseq.file_io import PathManager
from fairseq.logging import metrics
from fairseq.optim.lr_scheduler.reduce_lr_on_plateau import ReduceLROnPlateauLRSchedule
from fairseq.trainer import Trainer

from rnnsearch_fairseq.errors import InputError, in_short
from rnnsearch_fairseq.patches import stopping

logger = logging.getLogger(__name__)

LAST = "checkpoint_last.pt"  # the default of --restore-file


def copy_whole(copy: Callable[..., Any], src_path: str, dst_path: str, overwrite: bool = False) -> bool:
    """Copy a checkpoint aside, then rename the copy; fairseq copies over the old file (checkpoint_utils.py:139)."""
    copy(src_path, f"{dst_path}.tmp", overwrite=True)
    os.replace(f"{dst_path}.tmp", dst_path)
    return True


def resume(load_checkpoint: Callable[..., Any], cfg: Any, trainer: Trainer, **passthrough: Any) -> Any:
    """Load the checkpoint; end a training that has made all its updates; from here on, stop after signals.

    fairseq makes one more update in each start after the last (fairseq_cli/train.py:389).
    """
    path = cfg.restore_file.replace(".pt", f"{trainer.checkpoint_suffix}.pt")
    if cfg.restore_file == LAST:
        path = os.path.join(cfg.save_dir, path)
    elif not PathManager.exists(path):
        raise InputError(f"--restore-file {path}: no such file; without the option, training goes on from {LAST}")
    try:
        state, epoch_itr = load_checkpoint(cfg, trainer, **passthrough)
    except (RuntimeError, OSError, EOFError, pickle.UnpicklingError) as error:
        path = path if PathManager.exists(path) else cfg.finetune_from_model
        cure = f"if it is damaged, go on from an older checkpoint in {cfg.save_dir} by --restore-file"
        raise InputError(f"{path}: cannot be loaded ({in_short(error)}); {cure}") from error
    resets = cfg.reset_optimizer or cfg.reset_lr_scheduler or cfg.reset_dataloader or cfg.reset_meters
    goes_on = PathManager.exists(path) and not resets  # not with --finetune-from-model
    if goes_on and state["train_iterator"]["iterations_in_epoch"] == 0:
        if "train_inner" in state.get("metrics", {}):  # the mean of the log's interval
            metrics.load_state_dict({"train_inner": state["metrics"]["train_inner"]})
        if isinstance(trainer.lr_scheduler, ReduceLROnPlateauLRSchedule):
            # The learning rate falls only after the checkpoint at the end of the epoch is saved.
            trainer.lr_step(state["train_iterator"]["epoch"] - 1, state.get("val_loss"))
    updates = trainer.get_num_updates()
    if updates > 0 and updates == trainer.cfg.optimization.max_update:
        logger.info(f"nothing to do: the {updates} updates of --max-update are done")
        raise SystemExit(0)
    stopping.install_signal_handlers()
    return state, epoch_itr
