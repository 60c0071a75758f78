"""Adadelta (Zeiler, 2012) with the paper's settings (Section 4.2 and Appendix B.2)."""

from argparse import ArgumentParser
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.optim import OPTIMIZER_REGISTRY, FairseqOptimizer, register_optimizer
from omegaconf import II, DictConfig


@dataclass
class AdadeltaConfig(FairseqDataclass):
    """The published algorithm has no learning rate, which corresponds to ``lr`` = 1."""

    adadelta_rho: float = field(default=0.95, metadata={"help": "decay rate of the running averages"})
    adadelta_eps: float = field(default=1e-6, metadata={"help": "added inside both square roots"})
    weight_decay: float = field(default=0.0, metadata={"help": "weight decay", "argparse_alias": "--wd"})
    lr: Any = II("optimization.lr")


# fairseq's own adadelta is configured by argparse, which Hydra cannot use. A name can be registered only once.
OPTIMIZER_REGISTRY.pop("adadelta", None)


@register_optimizer("adadelta", dataclass=AdadeltaConfig)
class Adadelta(FairseqOptimizer):
    """``torch.optim.Adadelta`` with a dataclass configuration; replaces fairseq's ``adadelta``, whose rho is 0.9."""

    supports_flat_params = True  # it is an elementwise algorithm

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
        """The arguments of ``torch.optim.Adadelta``. A resumed training keeps its own, but for the learning rate."""
        return {
            "lr": self.cfg.lr[0],
            "rho": self.cfg.adadelta_rho,
            "eps": self.cfg.adadelta_eps,
            "weight_decay": self.cfg.weight_decay,
        }
