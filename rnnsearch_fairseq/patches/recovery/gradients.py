"""Updates whose gradient is NaN or infinite: skipped and counted, and ten in a row end the training."""

import dataclasses
import logging
from collections.abc import Callable, Sequence
from typing import Any

import fairseq.nan_detector
import fairseq.optim.amp_optimizer
import torch
from fairseq.logging import metrics
from fairseq.trainer import Trainer
from torch import nn

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.patches.recovery.saving import name_last_good
from rnnsearch_fairseq.patches.wrap import wrap, wrap_in_command

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


def guard() -> None:
    """Skip the updates."""
    _find_nonfinite_gradients()
    _skip_updates()
    _remember_skipped_updates()
    _clip_without_a_scaler()
    _detect_in_any_output()


def guard_command() -> None:
    """After a skipped update there is nothing new to validate and save, until the end of the epoch."""

    def make(validate_and_save: Callable[..., Any]) -> Callable[..., Any]:
        def validate_new(
            cfg: Any, trainer: Trainer, task: Any, epoch_itr: Any, valid_subsets: list[str], end_of_epoch: bool
        ) -> Any:
            if _skipped(trainer).just_now and not end_of_epoch:
                return [None], False
            return validate_and_save(cfg, trainer, task, epoch_itr, valid_subsets, end_of_epoch)

        return validate_new

    wrap_in_command("fairseq_cli.train", "validate_and_save", make)


def _find_nonfinite_gradients() -> None:
    """Raise `NonFiniteGradient` where fairseq ends the training (trainer.py:970), or lowers its loss scale.

    The norm is that of the gradient summed over all processes, so they decide alike. A loss scale that is too large
    (--fp16) ends up here, too, and has been lowered by then; fairseq's own way on from there wants CUDA
    (trainer.py:1023). Only the scaler of --amp wants the update to be made, for it then makes none.
    """

    def make(clip_grad_norm: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def check(self: Trainer, clip_norm: float) -> torch.Tensor:
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

        return check

    wrap(Trainer, "clip_grad_norm", make)


def _skip_updates() -> None:
    """Leave parameters, optimizer and number of updates as they are, and say so."""

    def make(train_step: Callable[..., Any]) -> Callable[..., Any]:
        # An exception must not pass fairseq's aggregator, which would never end (logging/metrics.py:94).
        train_step = getattr(train_step, "__wrapped__", train_step)

        def skip_or_step(self: Trainer, samples: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
            skipped = _skipped(self)
            skipped.reason = None
            try:
                output = train_step(self, samples, *args, **kwargs)
            except NonFiniteGradient as error:
                skipped.reason, output = str(error), None
                _forget_factor(self)
                metrics.log_stop_time("train_wall")
            if output is not None:
                skipped.row, skipped.just_now = 0, False
            elif skipped.reason is not None:
                _count(self, skipped, samples)
            if skipped.total:
                metrics.log_scalar("skipped", skipped.total, weight=0, priority=550, round=0)
            return output

        return metrics.aggregate("train")(skip_or_step)

    wrap(Trainer, "train_step", make)


def _count(trainer: Trainer, skipped: Skipped, samples: Sequence[Any]) -> None:
    """Count a skipped update, and name its sentences; those of the other processes are in their logs.

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
    """Trap: with --bf16, what gradients are to be multiplied with, by now NaN, is reset in making an update only
    (optim/fp16_optimizer.py:185). Cure: reset it. Gradients themselves are, before each.
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


def _remember_skipped_updates() -> None:
    """Keep the counts in the checkpoint."""

    def make_save(save_checkpoint: Callable[..., Any]) -> Callable[..., Any]:
        def save(self: Trainer, filename: str, extra_state: dict[str, Any]) -> Any:
            skipped = _skipped(self)
            counts = {"skipped_updates": {"total": skipped.total, "row": skipped.row}} if skipped.total else {}
            return save_checkpoint(self, filename, {**extra_state, **counts})

        return save

    def make_load(load_checkpoint: Callable[..., Any]) -> Callable[..., Any]:
        def load(self: Trainer, *args: Any, reset_meters: bool = False, **kwargs: Any) -> Any:
            extra_state = load_checkpoint(self, *args, reset_meters=reset_meters, **kwargs)
            if extra_state is not None and not reset_meters:
                vars(_skipped(self)).update(extra_state.get("skipped_updates", {}))
            return extra_state

        return load

    wrap(Trainer, "save_checkpoint", make_save)
    wrap(Trainer, "load_checkpoint", make_load)


def _clip_without_a_scaler() -> None:
    """Trap: on a CPU --amp has no scaler, and asks it for its next scale all the same where a gradient is not finite
    (optim/amp_optimizer.py:57), an AttributeError. Cure: clip as without --amp.
    """

    def make(clip_grad_norm: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def clip(self: Any, max_norm: float, aggregate_norm_fn: Any = None) -> torch.Tensor:
            with_scaler = self.scaler.is_enabled()
            return (
                clip_grad_norm(self, max_norm, aggregate_norm_fn)
                if with_scaler
                else self.fp32_optimizer.clip_grad_norm(max_norm, aggregate_norm_fn)
            )

        return clip

    wrap(fairseq.optim.amp_optimizer.AMPOptimizer, "clip_grad_norm", make)


def _detect_in_any_output() -> None:
    """Trap: the hooks with which fairseq looks for the module where a NaN arises (nan_detector.py:55) want a tensor in
    its output, and raise StopIteration where that is a dictionary of lists, as every encoder's is. Cure: torch's newer
    hooks, which pass such a module over.
    """

    def make(add_hooks: Callable[..., None]) -> Callable[..., None]:
        def add(self: Any, module: nn.Module) -> None:
            backward, self.backward = self.backward, False
            add_hooks(self, module)
            self.backward = backward
            if backward:
                self.bhooks.append(module.register_full_backward_hook(self.bhook_fn))

        return add

    wrap(fairseq.nan_detector.NanDetector, "add_hooks", make)
