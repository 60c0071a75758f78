"""The parts of fairseq's model interface that the models of both papers share."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.dataclass import FairseqDataclass
from fairseq.models import FairseqEncoder, FairseqIncrementalDecoder, register_model_architecture
from fairseq.tasks import FairseqTask
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from torch import Tensor, nn

from rnnsearch_fairseq.errors import InputError

MAX_POSITIONS = 100_000  # fairseq wants a limit; recurrent networks have none


@dataclass
class CommonConfig(FairseqDataclass):
    """The options of the models of both papers that neither paper has; they are off by default.

    Shared matrices: Press and Wolf (2017), *Using the Output Embedding to Improve Language Models*. Both options have
    the names and the meaning of fairseq's own models. Word dropout: see :func:`drop_words`.
    """

    share_decoder_input_output_embed: bool = field(
        default=False, metadata={"help": "use the target embeddings as the output matrix; they must be equally wide"}
    )
    share_all_embeddings: bool = field(
        default=False,
        metadata={
            "help": "use one matrix as source embeddings, target embeddings and output matrix; needs a dictionary of "
            "both languages (fairseq-preprocess --joined-dictionary)"
        },
    )
    word_dropout: float = field(
        default=0.0, metadata={"help": "probability that training replaces a word, source or previous, by <unk>"}
    )


def fill_in(cfg: Any, options: type[FairseqDataclass]) -> DictConfig:
    """The ``options`` of ``cfg`` (from the command line, Hydra or a checkpoint), with defaults for missing ones.

    Raises:
        InputError: if a value has the wrong type or is not one of the choices, a size is below 1, or a rate of dropout
            is outside [0, 1).
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
    for name, value in merged.items():
        option = "--" + name.replace("_", "-")
        if name.endswith(("_size", "_pool")) and value < 1:
            raise InputError(f"{option} is {value}, but a size must be at least 1")
        if name.endswith("dropout") and not 0 <= value < 1:
            raise InputError(f"{option} is {value}, but it must be at least 0 and below 1")
    return merged


def drop_words(words: Tensor, rate: float, dictionary: Dictionary) -> Tensor:
    """Replace ``words`` (int64, any shape) by <unk> with probability ``rate``; end of sentence and padding stay.

    Sennrich, Haddow and Birch (2016), *Edinburgh Neural Machine Translation Systems for WMT 16*, drop whole words on
    both sides, after Gal and Ghahramani (2016); they replace the embedding by zero. <unk> is the replacement of Bowman
    et al. (2016), *Generating Sentences from a Continuous Space*: the model learns its embedding.
    """
    if rate == 0:
        return words
    dropped = torch.rand(words.shape, device=words.device) < rate
    dropped &= words.ne(dictionary.pad()) & words.ne(dictionary.eos())
    return words.masked_fill(dropped, dictionary.unk())


def check_output_width(cfg: DictConfig, width: str) -> None:
    """Check that the output matrix can be the target embeddings, if ``cfg`` shares them.

    Args:
        width: the option of the output matrix's width.

    Raises:
        InputError: if it is not as wide as the embeddings.
    """
    shared = [name for name in ("share_all_embeddings", "share_decoder_input_output_embed") if cfg[name]]
    if shared and cfg[width] != cfg.embedding_size:
        raise InputError(
            f"--{shared[0].replace('_', '-')} needs an output matrix as wide as the embeddings, but "
            f"--{width.replace('_', '-')} is {cfg[width]} and --embedding-size is {cfg.embedding_size}: make them equal"
        )


def share_embeddings(
    cfg: DictConfig, task: FairseqTask, source: nn.Embedding, target: nn.Embedding, output: nn.Linear
) -> None:
    """Replace matrices by those that ``cfg`` shares: the output matrix and the source embeddings by ``target``'s.

    Raises:
        InputError: if source and target share a matrix and have different dictionaries.
    """
    if cfg.share_all_embeddings:
        if task.source_dictionary != task.target_dictionary:
            raise InputError(
                "--share-all-embeddings needs one dictionary of both languages: give fairseq-preprocess "
                "--joined-dictionary, or the model --share-decoder-input-output-embed"
            )
        source.weight = target.weight
    if cfg.share_all_embeddings or cfg.share_decoder_input_output_embed:
        output.weight = target.weight


def check_shared(model: nn.Module, loaded: dict[str, Tensor]) -> None:
    """Check that the matrices that ``model`` shares are equal in the checkpoint ``loaded``.

    Raises:
        InputError: if they differ: the checkpoint is of a model that does not share them.
    """
    names: dict[nn.Parameter, str] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        first = names.setdefault(parameter, name)
        if name != first and name in loaded and not torch.equal(loaded[name], loaded[first]):
            raise InputError(
                f"The checkpoint's {first} and {name} differ, and this model shares them: leave out "
                "--share-all-embeddings and --share-decoder-input-output-embed"
            )


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
