"""Updates whose gradient is NaN or infinite: each is skipped and counted, and ten in a row end the training."""

import dataclasses
import logging
from collections.abc import Sequence
from typing import Any

import torch
from fairseq.logging import metrics
from fairseq.trainer import Trainer

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.patches.around import Original, around
from rnnsearch_fairseq.patches.recovery.saving import name_last_good

logger = logging.getLogger(__name__)

LONGEST_ROW = 10


class NonFiniteGradient(ArithmeticError):
    """An update must not be made. fairseq's trainer catches the two subclasses of ArithmeticError, but not this one."""


@dataclasses.dataclass
class Skipped:
    """The skipped updates of a trainer.

    Attributes:
        total: how many there were.
        row: how many there were without another update in between, up to now.
        just_now: the last update was skipped.
        reason: why the update under way is to be skipped, if it is.
        scale: the loss scale with which the update under way was tried.
    """

    total: int = 0
    row: int = 0
    just_now: bool = False
    reason: str | None = None
    scale: float = 1.0


def skipped_updates(trainer: Trainer) -> Skipped:
    """The trainer's record of its skipped updates."""
    return vars(trainer).setdefault("skipped_updates", Skipped())


@around
def validate_after_updates_only(
    validate_and_save: Original, cfg: Any, trainer: Trainer, task: Any, epoch_itr: Any, subsets: Any, end_of_epoch: bool
) -> Any:
    """fairseq validates and saves after a skipped update, too; now it waits for an update, or the end of the epoch."""
    if skipped_updates(trainer).just_now and not end_of_epoch:
        return [None], False
    return validate_and_save(cfg, trainer, task, epoch_itr, subsets, end_of_epoch)


@around
def find_nonfinite_gradients(clip_grad_norm: Original, self: Trainer, clip_norm: float) -> torch.Tensor:
    """A gradient that is NaN or infinite ends the training (trainer.py:970); now it raises `NonFiniteGradient`.

    The norm is of the gradient summed over all processes, so all decide alike. A loss scale that is too large (--fp16)
    has been lowered before; fairseq's own way on from there needs CUDA (trainer.py:1023). With --amp the update goes
    on, since its scaler skips it.
    """
    skipped = skipped_updates(self)
    skipped.scale = _loss_scale(self.optimizer)
    try:
        norm = clip_grad_norm(self, clip_norm)
    except OverflowError as overflow:
        raise NonFiniteGradient(f"the scaled gradient is NaN or infinite, {overflow}") from overflow
    except FloatingPointError as error:
        raise InputError(f"{name_last_good(self.cfg.checkpoint.save_dir)}: {error}") from error
    norm = norm.cpu()  # waits for a GPU once: fairseq looks at it twice more (trainer.py:970 and 1522)
    if not torch.isfinite(norm).all():
        skipped.reason = "the gradient is NaN or infinite"
        if not (self.cfg.common.amp and self.optimizer.scaler.is_enabled()):
            raise NonFiniteGradient(skipped.reason)
    return norm


@around
def end_by_inconsistent_gradients(check_grad_norms: Original, self: Trainer, grad_norm: torch.Tensor) -> None:
    """Gradients that differ between processes end in a search for NaN that itself fails; now in one sentence."""
    try:
        check_grad_norms(self, grad_norm)
    except FloatingPointError as error:
        said = str(error).partition("\n")[0]
        raise InputError(f"{said} {name_last_good(self.cfg.checkpoint.save_dir)}") from error


def _loss_scale(optimizer: Any) -> float:
    scaler = getattr(optimizer, "scaler", None)
    if scaler is None:
        return 1.0
    return scaler.get_scale() if hasattr(scaler, "get_scale") else scaler.loss_scale


@around
@metrics.aggregate("train")
def skip_updates(train_step: Original, self: Trainer, samples: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
    """fairseq cannot skip an update on a CPU; now parameters, optimizer and count stay, and the log says so.

    An exception leaves an aggregator of the step open (logging/metrics.py:94), and under --bf16 the factor of the
    gradients NaN, which only an update resets (optim/fp16_optimizer.py:185). The gradients are reset before each
    update.
    """
    skipped = skipped_updates(self)
    skipped.reason = None
    open_before = metrics._active_aggregators_cnt["train"]
    try:
        output = train_step(self, samples, *args, **kwargs)
    except NonFiniteGradient as error:
        skipped.reason, output = str(error), None
        metrics._active_aggregators_cnt["train"] = open_before
        if getattr(self.optimizer, "scaler", None) is None and hasattr(self.optimizer, "_multiply_factor"):
            self.optimizer._multiply_factor = 1.0
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

    A loss scale above 1 may have caused it, and has been lowered: such an update does not count in a row.

    Raises:
        InputError: it is the last of a row.
    """
    skipped.total += 1
    skipped.row += skipped.scale <= 1
    skipped.just_now = True
    reason, skipped.reason = skipped.reason, None  # --amp tries an update several times; only the last try counts
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


@around
def clip_without_a_scaler(
    clip_grad_norm: Original, self: Any, max_norm: float, aggregate_norm_fn: Any = None
) -> torch.Tensor:
    """On a CPU --amp asks a scaler that is not there (optim/amp_optimizer.py:57); now it clips as without --amp."""
    if self.scaler.is_enabled():
        return clip_grad_norm(self, max_norm, aggregate_norm_fn)
    return self.fp32_optimizer.clip_grad_norm(max_norm, aggregate_norm_fn)
