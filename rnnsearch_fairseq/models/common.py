"""The parts of fairseq's model interface that the models of both papers share."""

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

MAX_POSITIONS = 100_000  # fairseq wants a limit; recurrent networks have none


def fill_in(cfg: Any, options: type[FairseqDataclass]) -> DictConfig:
    """The ``options`` of ``cfg`` (from the command line, Hydra or a checkpoint), with defaults for missing ones.

    Raises:
        InputError: if a value has the wrong type or is not one of the choices.
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
    """Check that the options ``names`` are at least 1.

    Raises:
        InputError: if one of them is not.
    """
    for name in names:
        if cfg[name] < 1:
            raise InputError(f"--{name.replace('_', '-')} is {cfg[name]}, but a size must be at least 1")


def register_architectures(
    model: str, architectures: dict[str, dict[str, Any]], then: Callable[[argparse.Namespace], None] | None = None
) -> None:
    """Register the settings of each architecture for ``--arch``, and its name for Hydra's ``model._name``.

    Args:
        then: called with the parsed command line after an architecture's settings are applied to it.
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
    """An encoder whose output is a dictionary of lists of tensors ``(batch, ...)``."""

    def reorder_encoder_out(self, encoder_out: dict[str, list[Tensor]], new_order: Tensor) -> dict[str, list[Tensor]]:
        """Take the sentences ``new_order`` ``(new_batch,)`` of the batch, in that order."""
        return {
            name: [tensor.index_select(0, new_order) for tensor in tensors] for name, tensors in encoder_out.items()
        }

    def max_positions(self) -> int:
        """The longest source that the encoder takes, in words."""
        return MAX_POSITIONS


class BatchFirstDecoder(FairseqIncrementalDecoder):
    """A decoder whose incremental state in a search is tensors ``(batch, ...)``, or None, under the name "search"."""

    to_vocabulary: nn.Linear

    def output_layer(self) -> list[Tensor]:
        """The weight ``(K_y, l)`` and bias ``(K_y,)`` of ``to_vocabulary``, for criterions that score features.

        They are views, because DistributedDataParallel with --find-unused-parameters must find them among the model's
        outputs. Otherwise it takes the parameters for unused and raises an error when the criterion uses them.
        """
        layer = self.to_vocabulary
        return [layer.weight.view_as(layer.weight), layer.bias.view_as(layer.bias)]

    def reorder_incremental_state(
        self, incremental_state: dict[str, dict[str, Tensor | None]], new_order: Tensor
    ) -> None:
        """Reorder the incremental state: row ``new_order[k]`` becomes row k. fairseq reorders ``encoder_out``."""
        saved = self.get_incremental_state(incremental_state, "search")
        if saved:
            reordered = {
                name: None if tensor is None else tensor.index_select(0, new_order) for name, tensor in saved.items()
            }
            self.set_incremental_state(incremental_state, "search", reordered)

    def get_normalized_probs_scriptable(
        self, net_output: tuple[Tensor, Any], log_probs: bool, sample: dict[str, Any] | None = None
    ) -> Tensor:
        """The probabilities of the next words, or their logarithms, as in fairseq, but in float64 for float64 scores.

        Args:
            net_output: scores ``(batch, tgt_len, K_y)``, and the model's other outputs.
        """
        scores = net_output[0]
        softmax = torch.log_softmax if log_probs else torch.softmax
        return softmax(scores, dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32))

    def max_positions(self) -> int:
        """The longest target that the decoder writes, in words."""
        return MAX_POSITIONS
