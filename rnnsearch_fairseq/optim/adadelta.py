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

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.modules.fused import dispatch

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

    def multiply_grads(self, c: Tensor | float) -> None:
        """As in fairseq, but multiplying by 1 does nothing: with a summed cost fairseq does so at each update."""
        if isinstance(c, Tensor) or c != 1:
            super().multiply_grads(c)

    def clip_grad_norm(self, max_norm: float, aggregate_norm_fn: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """As in fairseq; on a GPU by few kernels for all gradients, where fairseq has one for each (utils.py:393)."""
        gradients = [parameter.grad for parameter in self.params if parameter.grad is not None]
        if not gradients or not dispatch.on_gpu(gradients[0]):
            return super().clip_grad_norm(max_norm, aggregate_norm_fn)
        with torch.no_grad():
            norms = torch._foreach_norm(gradients, 2, dtype=torch.promote_types(gradients[0].dtype, torch.float32))
            norm = torch.linalg.vector_norm(torch.stack(norms))
            if aggregate_norm_fn is not None:
                norm = aggregate_norm_fn(norm)
            if max_norm > 0:
                torch._foreach_mul_(gradients, (max_norm / (norm + 1e-6)).clamp_(max=1))
        return norm

    @property
    def supports_flat_params(self) -> bool:
        """True: Adadelta is an elementwise algorithm."""
        return True


class _Adadelta(torch.optim.Adadelta):
    """torch's Adadelta, with updates and state in float32 for parameters in half precision, and one kernel on a GPU.

    In float16 the squares of most gradients underflow to zero, and so do small gradients divided by the loss scale.
    fairseq reads two attributes: ``supports_memory_efficient_fp16`` says that parameters may be in half precision, and
    ``supports_step_with_scale`` says that ``step`` divides the gradients by the loss scale.
    """

    supports_memory_efficient_fp16 = True

    @property
    def supports_step_with_scale(self) -> bool:
        """Whether a parameter is in half precision or on a GPU."""
        return any(
            parameter.dtype in (torch.float16, torch.bfloat16) or dispatch.on_gpu(parameter)
            for group in self.param_groups
            for parameter in group["params"]
        )

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None, scale: Tensor | float = 1.0) -> Any:
        """Make one update with the gradients divided by ``scale``; torch's own for float32 on a CPU."""
        if not self.supports_step_with_scale:
            return super().step(closure)
        with torch.enable_grad():
            loss = None if closure is None else closure()
        for group in self.param_groups:
            settings = {name: group[name] for name in ("lr", "rho", "eps", "weight_decay")}
            for parameter in group["params"]:
                if parameter.grad is not None:
                    if not isinstance(scale, Tensor):
                        scale = torch.full((), scale, device=parameter.device)
                    with torch.cuda.device_of(parameter):
                        self._update(parameter, scale, settings)
        return loss

    def _update(self, parameter: Tensor, scale: Tensor | float, settings: dict[str, float]) -> None:
        state, names = self.state[parameter], ("square_avg", "acc_delta")
        dtype = torch.promote_types(parameter.dtype, torch.float32)
        if not state:
            state["step"] = torch.zeros(())
            state.update({name: torch.zeros_like(parameter, dtype=dtype) for name in names})
        for name in names:
            state[name] = state[name].to(parameter.device, dtype)  # fairseq loads a checkpoint's state on the CPU
        state["step"] += 1
        averages = (state[name] for name in names)
        dispatch.kernels_for(parameter).adadelta(parameter, parameter.grad, *averages, scale, **settings)
