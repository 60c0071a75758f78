"""Updates whose gradient is NaN or infinite: skipped and counted, and ten in a row end the training."""

import dataclasses
import logging
from collections.abc import Sequence
from typing import Any

import torch
from fairseq.logging import metrics
from fairseq.trainer import Trainer
from torch import nn

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.patches.around import Original, around
from rnnsearch_fairseq.patches.recovery.saving import name_last_good

logger = logging.getLogger(__name__)

LONGEST_ROW = 10


class NonFiniteGradient(ArithmeticError):
    """An update that must not be made. Of ArithmeticError's kinds, fairseq's trainer catches the two others."""


@dataclasses.dataclass
class Skipped:
    """What a trainer knows of its skipped updates: how many, how many in a row to now, and of the one under way why
    it is one, and the loss scale that it was tried with.
    """

    total: int = 0
    row: int = 0
    just_now: bool = False
    reason: str | None = None
    scale: float = 1.0


@around
def validate_after_updates_only(
    validate_and_save: Original, cfg: Any, trainer: Trainer, task: Any, epoch_itr: Any, subsets: Any, end_of_epoch: bool
) -> Any:
    """fairseq validates and saves after a skipped update, too; now it waits for an update, or the end of the epoch."""
    if _skipped(trainer).just_now and not end_of_epoch:
        return [None], False
    return validate_and_save(cfg, trainer, task, epoch_itr, subsets, end_of_epoch)


@around
def find_nonfinite_gradients(clip_grad_norm: Original, self: Trainer, clip_norm: float) -> torch.Tensor:
    """A gradient that is NaN or infinite ends the training (trainer.py:970); now it raises `NonFiniteGradient`.

    The norm is that of the gradient summed over all processes, so they decide alike. A loss scale that is too large
    (--fp16) has been lowered by then; fairseq's own way on from there wants CUDA (trainer.py:1023). Only the scaler of
    --amp wants the update to be made, for it then makes none.
    """
    skipped = _skipped(self)
    skipped.scale = _loss_scale(self.optimizer)
    try:
        norm = clip_grad_norm(self, clip_norm)
    except OverflowError as overflow:
        raise NonFiniteGradient(f"the scaled gradient is NaN or infinite, {overflow}") from overflow
    except FloatingPointError as error:
        raise InputError(f"{name_last_good(self.cfg.checkpoint.save_dir)}: {error}") from error
    if not torch.isfinite(norm).all():
        skipped.reason = "the gradient is NaN or infinite"
        if not (self.cfg.common.amp and self.optimizer.scaler.is_enabled()):
            raise NonFiniteGradient(skipped.reason)
    return norm


@around
@metrics.aggregate("train")
def skip_updates(train_step: Original, self: Trainer, samples: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
    """fairseq has no way to skip an update on a CPU; now parameters, optimizer and count stay, and the log says so."""
    skipped = _skipped(self)
    skipped.reason = None
    begun = metrics._active_aggregators_cnt["train"]
    try:
        output = train_step(self, samples, *args, **kwargs)
    except NonFiniteGradient as error:
        skipped.reason, output = str(error), None
        # An exception leaves the step's aggregator open (logging/metrics.py:94).
        metrics._active_aggregators_cnt["train"] = begun
        _forget_factor(self)
        metrics.log_stop_time("train_wall")
    if output is not None:
        skipped.row, skipped.just_now = 0, False
    elif skipped.reason is not None:
        _count(self, skipped, samples)
    if skipped.total:
        metrics.log_scalar("skipped", skipped.total, weight=0, priority=550, round=0)
    return output


def _count(trainer: Trainer, skipped: Skipped, samples: Sequence[Any]) -> None:
    """Count a skipped update and name its sentences; each process logs its own sentences.

    A loss scale above 1 may be to blame for it, and has been lowered: such an update is not part of a row.

    Raises:
        InputError: it is the last of a row.
    """
    skipped.total += 1
    skipped.row += skipped.scale <= 1
    skipped.just_now = True
    reason, skipped.reason = skipped.reason, None  # of --amp's tries of one update the last one counts
    ids = [str(id_) for sample in samples if sample for id_ in sample.get("id", torch.empty(0)).tolist()]
    sentences = f"the training sentences {' '.join(ids)} (counted from 0)"
    if skipped.row >= LONGEST_ROW:
        raise InputError(
            f"{LONGEST_ROW} updates in a row had a gradient that is NaN or infinite, the last one on {sentences}; go "
            "on with a lower --lr or --clip-norm, or without those sentences: "
            + name_last_good(trainer.cfg.checkpoint.save_dir)
        )
    level = logging.WARNING if skipped.scale <= 1 else logging.INFO
    logger.log(level, f"update {trainer.get_num_updates() + 1} is skipped: {reason}; it was of {sentences}")


def _forget_factor(trainer: Trainer) -> None:
    """Reset the factor of the gradients under --bf16, by now NaN; only an update does it (optim/fp16_optimizer.py:185).

    The gradients themselves are reset before each update.
    """
    if getattr(trainer.optimizer, "scaler", None) is None and hasattr(trainer.optimizer, "_multiply_factor"):
        trainer.optimizer._multiply_factor = 1.0


def _loss_scale(optimizer: Any) -> float:
    scaler = getattr(optimizer, "scaler", None)
    if scaler is None:
        return 1.0
    return scaler.get_scale() if hasattr(scaler, "get_scale") else scaler.loss_scale


def _skipped(trainer: Trainer) -> Skipped:
    return vars(trainer).setdefault("skipped_updates", Skipped())


@around
def save_skipped_updates(save_checkpoint: Original, self: Trainer, filename: str, extra_state: dict[str, Any]) -> Any:
    """The counts of skipped updates are kept in the checkpoint."""
    skipped = _skipped(self)
    counts = {"skipped_updates": {"total": skipped.total, "row": skipped.row}} if skipped.total else {}
    return save_checkpoint(self, filename, {**extra_state, **counts})


@around
def load_skipped_updates(
    load_checkpoint: Original, self: Trainer, *args: Any, reset_meters: bool = False, **kwargs: Any
) -> Any:
    """The counts of skipped updates go on from the checkpoint."""
    extra_state = load_checkpoint(self, *args, reset_meters=reset_meters, **kwargs)
    if extra_state is not None and not reset_meters:
        vars(_skipped(self)).update(extra_state.get("skipped_updates", {}))
    return extra_state


@around
def clip_without_a_scaler(
    clip_grad_norm: Original, self: Any, max_norm: float, aggregate_norm_fn: Any = None
) -> torch.Tensor:
    """On a CPU --amp asks a scaler that is not there (optim/amp_optimizer.py:57); now it clips as without --amp."""
    if self.scaler.is_enabled():
        return clip_grad_norm(self, max_norm, aggregate_norm_fn)
    return self.fp32_optimizer.clip_grad_norm(max_norm, aggregate_norm_fn)


@around
def detect_in_any_output(add_hooks: Original, self: Any, module: nn.Module) -> None:
    """The NaN detector's hooks fail where an output has no tensor (nan_detector.py:55); now torch's newer hooks do not.

    The old hooks raise StopIteration where the output is a dictionary of lists, as every encoder's is.
    """
    backward, self.backward = self.backward, False
    add_hooks(self, module)
    self.backward = backward
    if backward:
        self.bhooks.append(module.register_full_backward_hook(self.bhook_fn))
