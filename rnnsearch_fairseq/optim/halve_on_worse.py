"""The learning rate of the second paper (Eriguchi et al., 2016, Section 4.2)."""

from dataclasses import dataclass, field

from fairseq.optim.lr_scheduler import register_lr_scheduler
from fairseq.optim.lr_scheduler.reduce_lr_on_plateau import (
    ReduceLROnPlateauLRSchedule,
    ReduceLROnPlateauLRScheduleConfig,
)


@dataclass
class HalveOnWorseConfig(ReduceLROnPlateauLRScheduleConfig):
    """The options of ``reduce_lr_on_plateau``, with the paper's defaults."""

    lr_shrink: float = field(default=0.5, metadata={"help": "factor of the learning rate after a worse epoch"})
    lr_threshold: float = field(
        default=-1e-9,
        metadata={
            "help": "an epoch is worse unless its loss is below 1 - THRESHOLD times that of the epoch before "
            "(default: -1e-9, with which an equal loss is not worse)"
        },
    )


@register_lr_scheduler("halve_on_worse", dataclass=HalveOnWorseConfig)
class HalveOnWorse(ReduceLROnPlateauLRSchedule):
    """Halve the learning rate after an epoch whose development loss is worse than that of the epoch before.

    ``reduce_lr_on_plateau`` compares the loss with the lowest one so far instead.
    """

    def step(self, epoch: int, val_loss: float | None = None) -> float:
        """End an epoch with this development loss (None: it is not known), and return the learning rate."""
        super().step(epoch, val_loss)
        if val_loss is not None:
            self.lr_scheduler.best = val_loss  # torch compares the next loss with ``best``, which checkpoints hold
        return self.optimizer.get_lr()
