"""The learning-rate scheduler ``halve_on_worse``, and fairseq's ``adadelta`` with the first paper's settings."""

from argparse import ArgumentParser
from dataclasses import dataclass, field

from fairseq.optim import OPTIMIZER_REGISTRY, adadelta
from fairseq.optim.lr_scheduler import register_lr_scheduler
from fairseq.optim.lr_scheduler.reduce_lr_on_plateau import (
    ReduceLROnPlateauLRSchedule,
    ReduceLROnPlateauLRScheduleConfig,
)


class Adadelta(adadelta.Adadelta):
    """fairseq's Adadelta (Zeiler, 2012). By default, rho is 0.95 and the learning rate 1 (Appendix B.2)."""

    @staticmethod
    def add_args(parser: ArgumentParser) -> None:
        """Add fairseq's options, whose defaults are a rho of 0.9 and a learning rate of 0.25."""
        adadelta.Adadelta.add_args(parser)
        parser.set_defaults(adadelta_rho=0.95, lr="1.0")


OPTIMIZER_REGISTRY["adadelta"] = Adadelta  # a name can be registered only once


@dataclass
class HalveOnWorseConfig(ReduceLROnPlateauLRScheduleConfig):
    """The options of ``reduce_lr_on_plateau``, with the paper's defaults."""

    lr_shrink: float = field(default=0.5, metadata={"help": "factor of the learning rate after a worse epoch"})
    lr_threshold: float = field(
        default=-1e-9,  # an equal loss is not worse
        metadata={"help": "an epoch is worse if its loss is not below 1 - THRESHOLD times the loss of the last epoch"},
    )


@register_lr_scheduler("halve_on_worse", dataclass=HalveOnWorseConfig)
class HalveOnWorse(ReduceLROnPlateauLRSchedule):
    """Halve the learning rate if the development loss is worse than after the epoch before (Eriguchi et al., 4.2).

    ``reduce_lr_on_plateau`` compares the loss with the lowest loss so far.
    """

    def step(self, epoch: int, val_loss: float | None = None) -> float:
        """End an epoch with this development loss, None if it is unknown, and return the learning rate."""
        super().step(epoch, val_loss)
        if val_loss is not None:
            self.lr_scheduler.best = val_loss  # torch compares the next loss with ``best``, also from a checkpoint
        return self.optimizer.get_lr()
