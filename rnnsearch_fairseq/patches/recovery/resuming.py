"""Go on from the newest complete checkpoint, with the state that fairseq forgets, and no further than was asked for."""

import copy
import logging
import math
import os
from collections.abc import Callable
from typing import Any

import fairseq.distributed.utils
import fairseq.file_io
from fairseq.data import FairseqDataset
from fairseq.logging import meters, metrics
from fairseq.optim.lr_scheduler.reduce_lr_on_plateau import ReduceLROnPlateauLRSchedule
from fairseq.tasks import FairseqTask
from fairseq.trainer import Trainer

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.files.integrity import find_damage, find_newest
from rnnsearch_fairseq.patches.around import Original, around
from rnnsearch_fairseq.patches.fixes import early_stopping
from rnnsearch_fairseq.patches.recovery.saving import name_last_good

logger = logging.getLogger(__name__)

LAST = "checkpoint_last.pt"  # the default of --restore-file
PLATEAU_COUNTS = ("num_bad_epochs", "cooldown_counter")


@around
def train_if_any(train: Original, cfg: Any, trainer: Trainer, task: Any, epoch_itr: Any) -> Any:
    """A training that has ended makes one update more when it is started again; now it makes none.

    fairseq looks at --max-update and --patience after an update only (fairseq_cli/train.py:389).
    """
    updates, worse = trainer.get_num_updates(), getattr(early_stopping(), "num_runs", 0)
    reason = (
        f"{updates} updates are done, and --max-update allows no more"
        if updates >= (cfg.optimization.max_update or math.inf)
        else f"{worse} validations in a row were no better, and --patience allows no more"
        if worse >= (cfg.checkpoint.patience if cfg.checkpoint.patience > 0 else math.inf)
        else None
    )
    if reason is None:
        return train(cfg, trainer, task, epoch_itr)
    logger.info(f"nothing to do: {reason}")
    return [None], True


def choose_checkpoint(cfg: Any, suffix: str) -> str | None:
    """What to load in place of what --restore-file names; None if that is well, or there is nothing to go on from.

    Args:
        cfg: fairseq's ``checkpoint`` section.
        suffix: of the checkpoints' names.

    Raises:
        InputError: the checkpoint that the user named is missing or damaged, or checkpoint_last.pt is and no other
            is complete.
    """
    if cfg.restore_file != LAST:
        _check_named("--restore-file", cfg.restore_file.replace(".pt", f"{suffix}.pt"), cfg.save_dir)
        return None
    last = os.path.join(cfg.save_dir, f"checkpoint_last{suffix}.pt")
    damage = find_damage(last)
    if damage is None:
        return None
    for option in ("continue_once", "finetune_from_model"):
        if getattr(cfg, option, None) is not None and not os.path.exists(last):
            _check_named("--" + option.replace("_", "-"), getattr(cfg, option), cfg.save_dir)
            return None
    newest, damaged = find_newest(cfg.save_dir, suffix)
    if newest is not None:
        others = "".join(f"; {path.name} {find_damage(path)}" for path in damaged if str(path) != last)
        logger.warning(f"{last} {damage}{others}; training goes on from {newest}, the newest complete checkpoint")
        return str(newest)
    if damaged:
        raise InputError(
            f"{last} {damage}, and no other checkpoint in {cfg.save_dir} is complete; put one back from a copy, or "
            "give another --save-dir to begin anew"
        )
    return None


def _check_named(option: str, path: str, save_dir: str) -> None:
    if not fairseq.file_io.PathManager.path_requires_pathmanager(path) and (damage := find_damage(path)):
        raise InputError(f"{option} {path} {damage}; name another: {name_last_good(save_dir)}")


@around
def load_complete_checkpoints(load_checkpoint: Original, cfg: Any, trainer: Trainer, **passthrough: Any) -> Any:
    """A damaged or missing checkpoint ends training or starts it from zero; now the newest complete one is loaded.

    fairseq raises a traceback of torch's, or writes over the checkpoints there are (checkpoint_utils.py:268,
    trainer.py:689). Shards of a checkpoint, of which each process has its own, are left to fairseq.
    """
    suffix = trainer.checkpoint_suffix
    if not trainer.is_fsdp and not fairseq.file_io.PathManager.path_requires_pathmanager(cfg.save_dir):
        chosen = _agree(trainer, lambda: choose_checkpoint(cfg, suffix))
        if chosen is not None:
            cfg = copy.deepcopy(cfg)
            # fairseq will put the suffix in again.
            cfg.restore_file = chosen.removesuffix(f"{suffix}.pt") + ".pt"
            cfg.finetune_from_model = None
    return load_checkpoint(cfg, trainer, **passthrough)


def _agree(trainer: Trainer, choose: Callable[[], str | None]) -> str | None:
    """What the first process chooses, or its error, in all of them."""
    if trainer.data_parallel_world_size == 1:
        return choose()
    chosen: dict[str, str | None] = {}
    if trainer.is_data_parallel_master:
        try:
            chosen["path"] = choose()
        except InputError as error:
            chosen["error"] = str(error)
    chosen = fairseq.distributed.utils.broadcast_object(
        chosen, src_rank=0, group=trainer.data_parallel_process_group, dist_device=trainer.device
    )
    if "error" in chosen:
        raise InputError(chosen["error"])
    return chosen["path"]


@around
def batch_as_from_the_start(
    get_batch_iterator: Original,
    self: FairseqTask,
    dataset: FairseqDataset,
    *args: Any,
    epoch: int = 1,
    disable_iterator_cache: bool = False,
    update_epoch_batch_itr: bool = False,
    **kwargs: Any,
) -> Any:
    """A training resumed in a later epoch has new batches (tasks/fairseq_task.py:290); now it keeps the first ones.

    fairseq cuts the data into batches once for all epochs, but orders sentences of one length by the epoch in which it
    starts.
    """
    renewed = disable_iterator_cache or update_epoch_batch_itr or not self.can_reuse_epoch_itr(dataset)
    made_before = dataset in self.dataset_to_epoch_iter
    iterator = get_batch_iterator(
        self,
        dataset,
        *args,
        epoch=epoch if renewed else 1,
        disable_iterator_cache=disable_iterator_cache,
        update_epoch_batch_itr=update_epoch_batch_itr,
        **kwargs,
    )
    if not (renewed or made_before):
        iterator.epoch = max(epoch, 1)
        dataset.set_epoch(epoch)
    return iterator


@around
def keep_interval_meters(
    load_checkpoint: Original, self: Trainer, *args: Any, reset_meters: bool = False, **kwargs: Any
) -> Any:
    """Going on at the start of an epoch begins all meters anew (trainer.py:649); now only those of the epoch.

    The next line of the log would be the mean of fewer updates than without the stop.
    """
    extra_state = load_checkpoint(self, *args, reset_meters=reset_meters, **kwargs)
    if _begins_epoch(extra_state) and "metrics" in extra_state and not reset_meters:
        metrics.load_state_dict(extra_state["metrics"])
        metrics.reset_meters("train")
        for meter in metrics.get_meters("default"):
            if isinstance(meter, meters.TimeMeter):
                meter.reset()
    return extra_state


@around
def save_plateau(state_dict: Original, self: Any) -> dict[str, Any]:
    """reduce_lr_on_plateau saves half of its state (reduce_lr_on_plateau.py:107); now its counts, too."""
    return state_dict(self) | {name: getattr(self.lr_scheduler, name) for name in PLATEAU_COUNTS}


@around
def load_plateau(load_state_dict: Original, self: Any, state: dict[str, Any]) -> None:
    """reduce_lr_on_plateau forgets its counts; now it loads them."""
    load_state_dict(self, state)
    vars(self.lr_scheduler).update({name: state[name] for name in PLATEAU_COUNTS if name in state})


@around
def step_plateau(
    load_checkpoint: Original,
    self: Trainer,
    filename: str,
    reset_optimizer: bool = False,
    reset_lr_scheduler: bool = False,
    *rest: Any,
    **kwargs: Any,
) -> Any:
    """reduce_lr_on_plateau ends an epoch after the checkpoint is saved; now a training that goes on takes that step."""
    extra_state = load_checkpoint(self, filename, reset_optimizer, reset_lr_scheduler, *rest, **kwargs)
    resets = reset_optimizer or reset_lr_scheduler
    if _begins_epoch(extra_state) and isinstance(self.lr_scheduler, ReduceLROnPlateauLRSchedule) and not resets:
        self.lr_step(extra_state["train_iterator"]["epoch"] - 1, extra_state.get("val_loss"))
    return extra_state


def _begins_epoch(extra_state: dict[str, Any] | None) -> bool:
    return extra_state is not None and extra_state.get("train_iterator", {}).get("iterations_in_epoch") == 0
