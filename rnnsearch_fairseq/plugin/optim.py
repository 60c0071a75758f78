"""The fairseq optimizer ``adadelta`` and the learning-rate scheduler ``halve_on_worse``."""

from argparse import ArgumentParser
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.optim import OPTIMIZER_REGISTRY, FairseqOptimizer, register_optimizer
from fairseq.optim.lr_scheduler import register_lr_scheduler
from fairseq.optim.lr_scheduler.reduce_lr_on_plateau import (
    ReduceLROnPlateauLRSchedule,
    ReduceLROnPlateauLRScheduleConfig,
)
from omegaconf import II, DictConfig

from rnnsearch_fairseq.command_line import described


@dataclass
class AdadeltaConfig(FairseqDataclass):
    """Adadelta (Zeiler, 2012) with the first paper's settings (Appendix B.2); its learning rate is 1."""

    adadelta_rho: float = described(0.95, "decay rate of the running averages")
    adadelta_eps: float = described(1e-6, "added inside both square roots")
    weight_decay: float = described(0.0, "weight decay", argparse_alias="--wd")
    lr: Any = II("optimization.lr")


# fairseq's own adadelta is configured by argparse, which Hydra cannot use. A name can be registered only once.
OPTIMIZER_REGISTRY.pop("adadelta", None)


@register_optimizer("adadelta", dataclass=AdadeltaConfig)
class Adadelta(FairseqOptimizer):
    """``torch.optim.Adadelta`` with a dataclass configuration; replaces fairseq's ``adadelta``, whose rho is 0.9."""

    supports_flat_params = True  # the algorithm is elementwise

    def __init__(self, cfg: DictConfig, params: Iterable[torch.nn.Parameter]) -> None:
        super().__init__(cfg)
        self._optimizer = torch.optim.Adadelta(params, **self.optimizer_config)

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        """Add the options, and change the default of ``--lr`` from fairseq's 0.25 to 1."""
        gen_parser_from_dataclass(parser, AdadeltaConfig())
        parser.set_defaults(lr="1.0")

    @property
    def optimizer_config(self) -> dict[str, float]:
        """The arguments of ``torch.optim.Adadelta``; a resumed training takes only the learning rate from them."""
        return {
            "lr": self.cfg.lr[0],
            "rho": self.cfg.adadelta_rho,
            "eps": self.cfg.adadelta_eps,
            "weight_decay": self.cfg.weight_decay,
        }


@dataclass
class HalveOnWorseConfig(ReduceLROnPlateauLRScheduleConfig):
    """The options of ``reduce_lr_on_plateau``, with the paper's defaults."""

    lr_shrink: float = described(0.5, "factor of the learning rate after a worse epoch")
    lr_threshold: float = described(  # an equal loss is not worse
        -1e-9, "an epoch is worse if its loss is not below (1 - THRESHOLD) times that of the epoch before"
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
