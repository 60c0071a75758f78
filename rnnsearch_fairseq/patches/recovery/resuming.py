"""Go on from the newest complete checkpoint, with the state that fairseq forgets, and no further than was asked for."""

import copy
import logging
import math
import os
from collections.abc import Callable
from typing import Any

import fairseq.checkpoint_utils
import fairseq.distributed.utils
import fairseq.file_io
import fairseq.optim.lr_scheduler.reduce_lr_on_plateau
import fairseq.trainer
from fairseq.data import FairseqDataset
from fairseq.logging import meters, metrics
from fairseq.tasks import FairseqTask
from fairseq.trainer import Trainer

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.files.integrity import find_damage, find_newest
from rnnsearch_fairseq.patches.fixes import early_stopping
from rnnsearch_fairseq.patches.recovery.saving import name_last_good
from rnnsearch_fairseq.patches.wrap import wrap, wrap_in_command

logger = logging.getLogger(__name__)

LAST = "checkpoint_last.pt"  # the default of --restore-file


def guard() -> None:
    """Choose what to go on from, and restore what fairseq does not."""
    _load_complete_checkpoints()
    _batch_as_from_the_start()
    _keep_interval_meters()
    _remember_plateau()


def guard_command() -> None:
    """Trap: fairseq looks at --max-update and --patience after an update only (fairseq_cli/train.py:389), so that a
    training that has ended, started again, does one more, and saves it. Cure: look before the first, too.
    """

    def make(train: Callable[..., Any]) -> Callable[..., Any]:
        def train_if_any(cfg: Any, trainer: Trainer, task: Any, epoch_itr: Any) -> Any:
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

        return train_if_any

    wrap_in_command("fairseq_cli.train", "train", make)


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


def _load_complete_checkpoints() -> None:
    """Trap: a checkpoint_last.pt that is damaged ends in a traceback of torch's, and one that is missing, or a
    --restore-file, in a training from zero over the checkpoints there are (checkpoint_utils.py:268, trainer.py:689).
    Cure: `choose_checkpoint`. Shards of a checkpoint, of which each process has its own, are left to fairseq.
    """

    def make(load_checkpoint: Callable[..., Any]) -> Callable[..., Any]:
        def load(cfg: Any, trainer: Trainer, **passthrough: Any) -> Any:
            suffix = trainer.checkpoint_suffix
            if not trainer.is_fsdp and not fairseq.file_io.PathManager.path_requires_pathmanager(cfg.save_dir):
                chosen = _agree(trainer, lambda: choose_checkpoint(cfg, suffix))
                if chosen is not None:
                    cfg = copy.deepcopy(cfg)
                    # fairseq will put the suffix in again.
                    cfg.restore_file = chosen.removesuffix(f"{suffix}.pt") + ".pt"
                    cfg.finetune_from_model = None
            return load_checkpoint(cfg, trainer, **passthrough)

        return load

    wrap(fairseq.checkpoint_utils, "load_checkpoint", make)


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


def _batch_as_from_the_start() -> None:
    """Trap: fairseq cuts the data into batches once for all epochs, but draws the order of sentences of one length by
    the epoch that it starts with (tasks/fairseq_task.py:290), so that a training that goes on in another epoch than the
    first has other batches. Cure: draw it by the first.
    """

    def make(get_batch_iterator: Callable[..., Any]) -> Callable[..., Any]:
        def get(
            self: FairseqTask,
            dataset: FairseqDataset,
            *args: Any,
            epoch: int = 1,
            disable_iterator_cache: bool = False,
            update_epoch_batch_itr: bool = False,
            **kwargs: Any,
        ) -> Any:
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

        return get

    wrap(FairseqTask, "get_batch_iterator", make)


def _keep_interval_meters() -> None:
    """Trap: on going on at the start of an epoch fairseq begins all meters anew (trainer.py:649), so that the next line
    of the log is the mean of fewer updates than it would be. Cure: only those of the epoch begin anew.
    """

    def make(load_checkpoint: Callable[..., Any]) -> Callable[..., Any]:
        def load(self: Trainer, *args: Any, reset_meters: bool = False, **kwargs: Any) -> Any:
            extra_state = load_checkpoint(self, *args, reset_meters=reset_meters, **kwargs)
            if _begins_epoch(extra_state) and "metrics" in extra_state and not reset_meters:
                metrics.load_state_dict(extra_state["metrics"])
                metrics.reset_meters("train")
                for meter in metrics.get_meters("default"):
                    if isinstance(meter, meters.TimeMeter):
                        meter.reset()
            return extra_state

        return load

    wrap(Trainer, "load_checkpoint", make)


def _remember_plateau() -> None:
    """Trap: reduce_lr_on_plateau keeps only half of its state (reduce_lr_on_plateau.py:107), and takes the step that an
    epoch ends with after the checkpoint is saved, so that a training that goes on from there never takes it. Cure: keep
    the other half, and take the step.
    """
    counts = ("num_bad_epochs", "cooldown_counter")
    plateau = fairseq.optim.lr_scheduler.reduce_lr_on_plateau.ReduceLROnPlateauLRSchedule

    def make_state(state_dict: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        return lambda self: state_dict(self) | {name: getattr(self.lr_scheduler, name) for name in counts}

    def make_load_state(load_state_dict: Callable[..., None]) -> Callable[..., None]:
        def load(self: Any, state: dict[str, Any]) -> None:
            load_state_dict(self, state)
            vars(self.lr_scheduler).update({name: state[name] for name in counts if name in state})

        return load

    def make_load(load_checkpoint: Callable[..., Any]) -> Callable[..., Any]:
        def load(
            self: Trainer,
            filename: str,
            reset_optimizer: bool = False,
            reset_lr_scheduler: bool = False,
            *rest: Any,
            **kwargs: Any,
        ) -> Any:
            extra_state = load_checkpoint(self, filename, reset_optimizer, reset_lr_scheduler, *rest, **kwargs)
            resets = reset_optimizer or reset_lr_scheduler
            if _begins_epoch(extra_state) and isinstance(self.lr_scheduler, plateau) and not resets:
                self.lr_step(extra_state["train_iterator"]["epoch"] - 1, extra_state.get("val_loss"))
            return extra_state

        return load

    wrap(plateau, "state_dict", make_state)
    wrap(plateau, "load_state_dict", make_load_state)
    wrap(Trainer, "load_checkpoint", make_load)


def _begins_epoch(extra_state: dict[str, Any] | None) -> bool:
    return extra_state is not None and extra_state.get("train_iterator", {}).get("iterations_in_epoch") == 0
