"""Go on from the newest complete checkpoint, with the same numbers as without the stop."""

import copy
import logging
import os
from collections.abc import Callable
from typing import Any

import fairseq.file_io
from fairseq.logging import metrics
from fairseq.optim.lr_scheduler.reduce_lr_on_plateau import ReduceLROnPlateauLRSchedule
from fairseq.trainer import Trainer

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.patches.recovery import stopping
from rnnsearch_fairseq.patches.recovery.integrity import find_damage, find_newest
from rnnsearch_fairseq.patches.recovery.saving import name_last_good

logger = logging.getLogger(__name__)

LAST = "checkpoint_last.pt"  # the default of --restore-file


def go_on(load_checkpoint: Callable[..., Any], cfg: Any, trainer: Trainer, **passthrough: Any) -> Any:
    """Load the newest complete checkpoint where the one to load is damaged or missing; from here on, hear signals.

    fairseq ends in a traceback there, or begins anew and overwrites what it has (checkpoint_utils.py:268,
    trainer.py:689). A training that has ended makes no update more; fairseq's makes one (fairseq_cli/train.py:389).

    Raises:
        InputError: none is complete, or the checkpoint that was named is not.
    """
    if not trainer.is_fsdp and not fairseq.file_io.PathManager.path_requires_pathmanager(cfg.save_dir):
        cfg = _choose_checkpoint(cfg, trainer.checkpoint_suffix)
    state, epoch_itr = load_checkpoint(cfg, trainer, **passthrough)
    if state is not None and not cfg.reset_dataloader and state["train_iterator"].get("iterations_in_epoch") == 0:
        _begin_epoch(state, cfg, trainer)
    updates, most = trainer.get_num_updates(), trainer.cfg.optimization.max_update
    if isinstance(most, int) and 0 < most <= updates:
        logger.info(f"nothing to do: {updates} updates are done, and --max-update allows no more")
        raise SystemExit(0)
    stopping.listen()
    return state, epoch_itr


def _begin_epoch(state: dict[str, Any], cfg: Any, trainer: Trainer) -> None:
    """Restore what fairseq forgets between epochs: the mean of the log's interval, and a fall of the learning rate.

    reduce_lr_on_plateau, and halve_on_worse, end an epoch only after its checkpoint is saved.
    """
    if not cfg.reset_meters and "train_inner" in state.get("metrics", {}):
        metrics.load_state_dict({"train_inner": state["metrics"]["train_inner"]})
    resets = cfg.reset_optimizer or cfg.reset_lr_scheduler
    if isinstance(trainer.lr_scheduler, ReduceLROnPlateauLRSchedule) and not resets:
        trainer.lr_step(state["train_iterator"]["epoch"] - 1, state.get("val_loss"))


def _choose_checkpoint(cfg: Any, suffix: str) -> Any:
    """fairseq's ``checkpoint`` section, with the newest complete checkpoint as its --restore-file where need be."""
    if cfg.restore_file != LAST:
        _check_named("--restore-file", cfg.restore_file.replace(".pt", f"{suffix}.pt"), cfg.save_dir)
        return cfg
    last = os.path.join(cfg.save_dir, f"checkpoint_last{suffix}.pt")
    damage = find_damage(last)
    if damage is None:
        return cfg
    if cfg.finetune_from_model is not None and not os.path.exists(last):
        _check_named("--finetune-from-model", cfg.finetune_from_model, cfg.save_dir)
        return cfg
    newest, damaged = find_newest(cfg.save_dir, suffix)
    if newest is None and not damaged:
        return cfg
    if newest is None:
        raise InputError(
            f"{last} {damage}, and no other checkpoint in {cfg.save_dir} is complete; put one back from a copy, or "
            "give another --save-dir to begin anew"
        )
    others = "".join(f"; {path.name} {find_damage(path)}" for path in damaged if str(path) != last)
    logger.warning(f"{last} {damage}{others}; training goes on from {newest}, the newest complete checkpoint")
    cfg = copy.deepcopy(cfg)
    cfg.restore_file = str(newest).removesuffix(f"{suffix}.pt") + ".pt"  # fairseq adds the suffix again
    cfg.finetune_from_model = None
    return cfg


def _check_named(option: str, path: str, save_dir: str) -> None:
    if not fairseq.file_io.PathManager.path_requires_pathmanager(path) and (damage := find_damage(path)):
        raise InputError(f"{option} {path} {damage}; name another: {name_last_good(save_dir)}")
