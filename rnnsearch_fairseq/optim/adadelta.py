"""Adadelta (Zeiler, 2012) with the paper's settings (Section 4.2 and Appendix B.2)."""

from argparse import ArgumentParser
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.optim import OPTIMIZER_REGISTRY, FairseqOptimizer, register_optimizer
from omegaconf import II, DictConfig
from torch import Tensor
from torch.optim.adadelta import adadelta

from rnnsearch_fairseq.errors import InputError

LEARNING_RATE = 1.0


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
    """``torch.optim.Adadelta`` with a dataclass configuration; replaces fairseq's ``adadelta``, whose rho is 0.9.

    It accepts parameters in half precision (``--memory-efficient-bf16``), and computes their updates in float32.
    """

    def __init__(self, cfg: DictConfig, params: Iterable[torch.nn.Parameter]) -> None:
        """Make the optimizer for ``params``.

        Raises:
            InputError: if a setting is outside its range.
        """
        super().__init__(cfg)
        try:
            self._optimizer = _Adadelta(params, **self.optimizer_config)
        except ValueError as error:
            raise InputError(f"adadelta: {error} (see --adadelta-rho, --adadelta-eps, --lr, --weight-decay)") from None

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        """Add the options, and change the default of ``--lr`` from fairseq's 0.25 to 1."""
        gen_parser_from_dataclass(parser, AdadeltaConfig())
        parser.set_defaults(lr=str(LEARNING_RATE))

    @property
    def optimizer_config(self) -> dict[str, float]:
        """The settings that override a checkpoint's, so that a resumed run follows its command line."""
        lr = self.cfg.lr
        return {
            "lr": float(lr if isinstance(lr, (int, float)) else lr[0]),
            "rho": self.cfg.adadelta_rho,
            "eps": self.cfg.adadelta_eps,
            "weight_decay": self.cfg.weight_decay,
        }

    @property
    def supports_flat_params(self) -> bool:
        """True: Adadelta is an elementwise algorithm."""
        return True


class _Adadelta(torch.optim.Adadelta):
    """torch's Adadelta, with updates and state in float32 for parameters in half precision.

    In float16 the squares of most gradients underflow to zero, and so do small gradients divided by the loss scale.
    fairseq reads two attributes: ``supports_memory_efficient_fp16`` says that parameters may be in half precision, and
    ``supports_step_with_scale`` says that ``step`` divides the gradients by the loss scale.
    """

    supports_memory_efficient_fp16 = True

    @property
    def supports_step_with_scale(self) -> bool:
        """Whether a parameter is in half precision."""
        return any(p.dtype in (torch.float16, torch.bfloat16) for group in self.param_groups for p in group["params"])

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None, scale: Tensor | float = 1.0) -> Any:
        """Make one update with the gradients divided by ``scale``; torch's own if no parameter is in half precision."""
        if not self.supports_step_with_scale:
            return super().step(closure)
        with torch.enable_grad():
            loss = None if closure is None else closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._step_in_float32(parameter, parameter.grad.float() / scale, group)
        return loss

    def _step_in_float32(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        value, state = parameter.float(), self.state[parameter]
        if not state:
            state.update(step=torch.zeros(()), square_avg=torch.zeros_like(value), acc_delta=torch.zeros_like(value))
        for name in ("square_avg", "acc_delta"):
            state[name] = state[name].to(value)  # fairseq loads a checkpoint's state on the CPU
        lists = ([state[name]] for name in ("square_avg", "acc_delta", "step"))
        settings = {name: group[name] for name in ("lr", "rho", "eps", "weight_decay", "maximize")}
        adadelta([value], [gradient], *lists, **settings)
        parameter.copy_(value)
