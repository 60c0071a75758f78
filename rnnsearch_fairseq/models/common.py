"""What the models of both papers share of fairseq's interface."""

import argparse
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.models import FairseqEncoder, FairseqIncrementalDecoder, register_model_architecture
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from torch import Tensor, nn

from rnnsearch_fairseq.errors import InputError

MAX_POSITIONS = 100_000  # recurrent networks have no table of positions: any length fits


def fill_in(cfg: Any, options: type[FairseqDataclass]) -> DictConfig:
    """The ``options`` of ``cfg`` (from the command line, Hydra or a checkpoint), with defaults where it has none.

    Raises:
        InputError: if a value is of another type, or no choice.
    """
    names = {option.name for option in fields(options)}
    values = vars(cfg) if isinstance(cfg, argparse.Namespace) else OmegaConf.to_container(cfg)
    merged = OmegaConf.structured(options)
    for name in sorted(names & values.keys()):
        try:
            merged[name] = values[name]
        except OmegaConfBaseException:
            option = "--" + name.replace("_", "-")
            raise InputError(f"{option} cannot be {values[name]!r}: see fairseq-train --help for its values") from None
    return merged


def check_sizes(cfg: DictConfig, *names: str) -> None:
    """
    Raises:
        InputError: if one of these options is below 1.
    """
    for name in names:
        if cfg[name] < 1:
            raise InputError(f"--{name.replace('_', '-')} is {cfg[name]}, but a size must be at least 1")


def register_architectures(
    model: str, architectures: dict[str, dict[str, Any]], then: Callable[[argparse.Namespace], None] | None = None
) -> None:
    """Register the settings of each architecture for ``--arch``, and its name for Hydra's ``model._name``.

    Args:
        then: what else is to be done with a command line that names one of them.
    """
    for name, settings in architectures.items():

        def architecture(args: Any, settings: dict[str, Any] = settings) -> None:
            for option, value in settings.items():
                if getattr(args, option, None) is None:
                    setattr(args, option, value)
            if then is not None and isinstance(args, argparse.Namespace):
                then(args)

        register_model_architecture(model, name)(architecture)


class BatchFirstEncoder(FairseqEncoder):
    """An encoder whose output is lists of tensors ``(batch, ...)``."""

    def reorder_encoder_out(self, encoder_out: dict[str, list[Tensor]], new_order: Tensor) -> dict[str, list[Tensor]]:
        """Take the sentences ``new_order`` ``(new_batch,)`` of the batch, in that order."""
        return {name: [tensor.index_select(0, new_order) for tensor in kept] for name, kept in encoder_out.items()}

    def max_positions(self) -> int:
        """The longest source that the encoder takes, in words."""
        return MAX_POSITIONS


class BatchFirstDecoder(FairseqIncrementalDecoder):
    """A decoder that keeps tensors ``(batch, ...)``, or None, under the name "search" during search."""

    to_vocabulary: nn.Linear

    def output_layer(self) -> list[Tensor]:
        """The weight ``(K_y, l)`` and bias ``(K_y,)`` of ``to_vocabulary``, for criterions that score features.

        Trap: with --find-unused-parameters, torch's DistributedDataParallel takes a parameter for unused that no output
        of the model depends on, and ends the training when the criterion uses it. Cure: the model gives out views.
        """
        layer = self.to_vocabulary
        return [layer.weight.view_as(layer.weight), layer.bias.view_as(layer.bias)]

    def reorder_incremental_state(
        self, incremental_state: dict[str, dict[str, Tensor | None]], new_order: Tensor
    ) -> None:
        """Follow the beams: row ``new_order[k]`` becomes row k; fairseq reorders ``encoder_out`` itself."""
        saved = self.get_incremental_state(incremental_state, "search")
        if saved:
            reordered = {
                name: None if tensor is None else tensor.index_select(0, new_order) for name, tensor in saved.items()
            }
            self.set_incremental_state(incremental_state, "search", reordered)

    def get_normalized_probs_scriptable(
        self, net_output: tuple[Tensor, Any], log_probs: bool, sample: dict[str, Any] | None = None
    ) -> Tensor:
        """Probabilities of the next words, or their logarithms, as in fairseq, but of float64 scores in float64.

        Args:
            net_output: scores ``(batch, tgt_len, K_y)``, and what else the model gave.
        """
        scores = net_output[0]
        softmax = torch.log_softmax if log_probs else torch.softmax
        return softmax(scores, dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32))

    def max_positions(self) -> int:
        """The longest target that the decoder writes, in words."""
        return MAX_POSITIONS
