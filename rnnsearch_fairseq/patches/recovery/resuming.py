"""Go on from the newest complete checkpoint, with the state that fairseq forgets, and no further than was asked for."""

import copy
import logging
import math
import os
import sys
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
from rnnsearch_fairseq.patches.recovery.gradients import skipped_updates
from rnnsearch_fairseq.patches.recovery.saving import name_last_good

logger = logging.getLogger(__name__)

LAST = "checkpoint_last.pt"  # the default of --restore-file
PLATEAU = "fairseq.optim.lr_scheduler.reduce_lr_on_plateau.ReduceLROnPlateauLRSchedule"
PLATEAU_COUNTS = ("num_bad_epochs", "cooldown_counter")
PATIENCE = ("best", "num_runs")  # attributes of a function, in which fairseq counts for --patience

# The checkpoint to go on from


@around
def load_complete_checkpoints(load_checkpoint: Original, cfg: Any, trainer: Trainer, **passthrough: Any) -> Any:
    """A damaged or missing checkpoint ends training or starts it from zero; now the newest complete one is loaded.

    fairseq prints a traceback of torch's, or overwrites the checkpoints that are there (checkpoint_utils.py:268,
    trainer.py:689). Where each process has a shard of the checkpoint, the choice is left to fairseq.
    """
    suffix = trainer.checkpoint_suffix
    if not trainer.is_fsdp and not fairseq.file_io.PathManager.path_requires_pathmanager(cfg.save_dir):
        chosen = _agree(trainer, lambda: _choose_checkpoint(cfg, suffix))
        if chosen is not None:
            cfg = copy.deepcopy(cfg)
            # fairseq adds the suffix again.
            cfg.restore_file = chosen.removesuffix(f"{suffix}.pt") + ".pt"
            cfg.finetune_from_model = None
    return load_checkpoint(cfg, trainer, **passthrough)


def _choose_checkpoint(cfg: Any, suffix: str) -> str | None:
    """The checkpoint to load in place of --restore-file; None if that one is complete, or there is none at all.

    Args:
        cfg: fairseq's ``checkpoint`` section.
        suffix: --checkpoint-suffix.

    Raises:
        InputError: the checkpoint that the user named is missing or damaged; or checkpoint_last.pt is, and no other
            one is complete.
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


def _agree(trainer: Trainer, choose: Callable[[], str | None]) -> str | None:
    """Return in all processes what ``choose`` returns in the first one, or raise its `InputError`."""
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


# The state that fairseq forgets


@around
def save_counts(save_checkpoint: Original, self: Trainer, filename: str, extra_state: dict[str, Any]) -> Any:
    """fairseq counts for --patience in memory only (fairseq_cli/train.py:230); now the checkpoint keeps its counts.

    It also keeps the counts of skipped updates.
    """
    patience = {name: value for name, value in vars(_early_stopping()).items() if name in PATIENCE}
    skipped = skipped_updates(self)
    counts = {"patience": patience} if patience else {}
    counts |= {"skipped_updates": {"total": skipped.total, "row": skipped.row}} if skipped.total else {}
    return save_checkpoint(self, filename, {**extra_state, **counts})


@around
def restore_what_fairseq_forgets(
    load_checkpoint: Original,
    self: Trainer,
    filename: str,
    reset_optimizer: bool = False,
    reset_lr_scheduler: bool = False,
    optimizer_overrides: Any = None,
    reset_meters: bool = False,
) -> Any:
    """A resumed training has lost its counts, and its meters or the epoch's last step; now it goes on with them.

    reduce_lr_on_plateau ends an epoch after its checkpoint is saved, so a training that goes on from there takes that
    step first.
    """
    resets = reset_optimizer, reset_lr_scheduler, optimizer_overrides, reset_meters
    extra_state = load_checkpoint(self, filename, *resets)
    if extra_state is None:
        return None
    begins_epoch = extra_state.get("train_iterator", {}).get("iterations_in_epoch") == 0
    if not reset_meters:
        if "best" in extra_state:
            # Without a count, the best score of the checkpoint is the one to beat.
            start = {"best": extra_state["best"], "num_runs": 0}
            vars(_early_stopping()).update(extra_state.get("patience", start))
        vars(skipped_updates(self)).update(extra_state.get("skipped_updates", {}))
        if begins_epoch and "metrics" in extra_state:
            _restore_meters(extra_state["metrics"])
    is_plateau = isinstance(self.lr_scheduler, ReduceLROnPlateauLRSchedule)
    if begins_epoch and is_plateau and not (reset_optimizer or reset_lr_scheduler):
        self.lr_step(extra_state["train_iterator"]["epoch"] - 1, extra_state.get("val_loss"))
    return extra_state


def _restore_meters(state: Any) -> None:
    """At the start of an epoch fairseq resets all meters (trainer.py:649); reset only those of the epoch.

    Otherwise the next line of the log is the mean of fewer updates than without the stop.
    """
    metrics.load_state_dict(state)
    metrics.reset_meters("train")
    for meter in metrics.get_meters("default"):
        if isinstance(meter, meters.TimeMeter):
            meter.reset()


def _early_stopping() -> Callable[..., bool]:
    """fairseq-train's function, which keeps its count in its attributes; another one where no training is under way."""
    for module in (sys.modules["__main__"], sys.modules.get("fairseq_cli.train")):
        if hasattr(module, "should_stop_early"):
            return module.should_stop_early
    return lambda cfg, valid_loss: False


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
def batch_as_from_the_start(
    get_batch_iterator: Original, self: FairseqTask, dataset: FairseqDataset, *args: Any, epoch: int = 1, **kwargs: Any
) -> Any:
    """A training resumed in a later epoch has new batches (tasks/fairseq_task.py:290); now it keeps the first ones.

    fairseq makes the batches once for all epochs, but the order of sentences of one length depends on the epoch in
    which it makes them.
    """
    renewed = kwargs.get("disable_iterator_cache") or kwargs.get("update_epoch_batch_itr")
    if renewed or not self.can_reuse_epoch_itr(dataset):
        return get_batch_iterator(self, dataset, *args, epoch=epoch, **kwargs)
    made_before = dataset in self.dataset_to_epoch_iter
    iterator = get_batch_iterator(self, dataset, *args, epoch=1, **kwargs)
    if not made_before:
        iterator.epoch = max(epoch, 1)
        dataset.set_epoch(epoch)
    return iterator


# No update more than was asked for


@around
def train_if_any(train: Original, cfg: Any, trainer: Trainer, task: Any, epoch_itr: Any) -> Any:
    """A training that has ended makes one update more when it is started again; now it makes none.

    fairseq checks --max-update and --patience only after an update (fairseq_cli/train.py:389).
    """
    updates, worse = trainer.get_num_updates(), getattr(_early_stopping(), "num_runs", 0)
    if updates >= (cfg.optimization.max_update or math.inf):
        logger.info(f"nothing to do: {updates} updates are done, and --max-update allows no more")
    elif 0 < cfg.checkpoint.patience <= worse:
        logger.info(f"nothing to do: {worse} validations in a row were no better, and --patience allows no more")
    else:
        return train(cfg, trainer, task, epoch_itr)
    return [None], True
