"""The fairseq models ``rnnsearch`` and ``tree2seq``: the networks of modules/ behind fairseq's interfaces."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import torch
from fairseq import utils
from fairseq.data import Dictionary
from fairseq.dataclass import FairseqDataclass
from fairseq.models import (
    FairseqEncoder,
    FairseqEncoderDecoderModel,
    FairseqIncrementalDecoder,
    register_model,
    register_model_architecture,
)
from fairseq.tasks import FairseqTask
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf
from torch import Tensor, nn

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.modules import rnnsearch, tree2seq
from rnnsearch_fairseq.modules.config import NetworkConfig
from rnnsearch_fairseq.modules.init import initialize, initialize_uniform
from rnnsearch_fairseq.modules.parameters import check_parameters, shared_names
from rnnsearch_fairseq.modules.rnnsearch import RNNsearch, RNNsearchConfig
from rnnsearch_fairseq.modules.tree2seq import Tree2Seq, Tree2SeqConfig
from rnnsearch_fairseq.modules.tree_lstm import Forest
from rnnsearch_fairseq.search import select_rows
from rnnsearch_fairseq.text.preparation import find_preparations
from rnnsearch_fairseq.text.settings import TextSettings, pack_record, unpack_record
from rnnsearch_fairseq.text.vocabulary import Vocabulary

logger = logging.getLogger(__name__)

# fairseq's default of each option, and the value of the paper (Bahdanau et al., Section 4.2 and Appendix B.2).
PAPER_TRAINING = {
    "optimizer": (None, "adadelta"),
    "criterion": ("cross_entropy", "summed_nll"),
    "lr": ([0.25], [1.0]),
    "clip_norm": (0.0, 1.0),
}


class NetworkEncoder(FairseqEncoder):
    """The encoder of a network behind fairseq's encoder interface."""

    def __init__(self, network: nn.Module, dictionary: Dictionary) -> None:
        super().__init__(dictionary)
        self.network = network

    def forward(self, src_tokens: Tensor, src_lengths: Any = None, trees: Any = None, **_: Any) -> tuple[Any, int]:
        """Encode sentences ``(batch, src_len)``, each with end-of-sentence, padded left or right, with their Forest.

        The output is the network's, and ``src_len``.
        """
        forest = None if trees is None else Forest(*trees)
        return self.network(src_tokens, forest), src_tokens.size(1)

    def reorder_encoder_out(self, encoder_out: tuple[Any, int], new_order: Tensor) -> tuple[Any, int]:
        return select_rows(encoder_out, new_order)


class NetworkDecoder(FairseqIncrementalDecoder):
    """The decoder of a network; in a search, its state is the item "search" of the incremental state."""

    def __init__(self, network: nn.Module, dictionary: Dictionary) -> None:
        super().__init__(dictionary)
        self.network = network

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: tuple[Any, int],
        incremental_state: dict[str, Any] | None = None,
        features_only: bool = False,
        **_: Any,
    ) -> tuple[Tensor, dict[str, list[Tensor | None]]]:
        """The unnormalised log-probabilities of every next word ``(batch, tgt_len, K_y)``, and a dictionary.

        The previous words ``(batch, tgt_len)`` begin with end-of-sentence. In a search (``incremental_state``), only
        the last column is read. The dictionary has ``attn``, the alpha of words ``(batch, tgt_len, src_len)``, and
        ``constituents``, the alpha of words and phrases. ``features_only`` gives the features ``(batch, tgt_len, l)``
        instead, and the weight and bias of the ``output_layer``.
        """
        saved = None
        if incremental_state is not None:
            saved = self.get_incremental_state(incremental_state, "search")
            prev_output_tokens = prev_output_tokens[:, -1:]
        # In a search, the keys U_a h_j in the source are computed once for all words.
        recurrent, source = saved or self.network.begin(encoder_out[0])
        features, alpha, recurrent = self.network(prev_output_tokens, recurrent, source)
        self.set_incremental_state(incremental_state, "search", (recurrent, source))
        # fairseq's criterion of alignments needs contiguous weights.
        words = None if alpha is None else alpha[..., : encoder_out[1]].contiguous()
        extra = {"attn": [words], "constituents": [alpha]}
        layer = self.network.to_vocabulary
        if not features_only:
            return layer(features), extra
        # Views, because DistributedDataParallel with --find-unused-parameters must find the parameters that the
        # criterion uses among the model's outputs.
        return features, {**extra, "output_layer": [layer.weight.view_as(layer.weight), layer.bias.view_as(layer.bias)]}

    def reorder_incremental_state(self, incremental_state: dict[str, Any], new_order: Tensor) -> None:
        """Reorder the incremental state: row ``new_order[k]`` becomes row k. fairseq reorders ``encoder_out``."""
        saved = self.get_incremental_state(incremental_state, "search")
        self.set_incremental_state(incremental_state, "search", select_rows(saved, new_order))


def scores_features(model: nn.Module) -> bool:
    """Whether a criterion may compute the output layer of this model itself, as W f + b."""
    decoder = getattr(model, "decoder", None)
    return isinstance(decoder, NetworkDecoder) and type(decoder.network.to_vocabulary) is nn.Linear


class NetworkModel(FairseqEncoderDecoderModel):
    """A network of ``modules/`` as a fairseq model.

    The parameter ``encoder.NAME`` of the network is ``encoder.network.NAME`` here. Checkpoints also hold the
    languages, the vocabularies and how text was prepared, so that :func:`rnnsearch_fairseq.load` needs no other file.
    """

    Config: ClassVar[type[NetworkConfig]]
    Network: ClassVar[Callable[..., nn.Module]]
    initialize: ClassVar[Callable[[nn.Module], None]]
    text: TextSettings

    @classmethod
    def build_model(cls, cfg: DictConfig, task: FairseqTask) -> "NetworkModel":
        """Build the model that ``cfg`` describes, with the paper's initial values."""
        config = cls.Config.from_values(OmegaConf.to_container(cfg, enum_to_str=True))
        _check_architecture(cfg.get("_name"), config)
        source, target = task.source_dictionary, task.target_dictionary
        if config.share_all_embeddings and source != target:
            cure = "give fairseq-preprocess --joined-dictionary, or the model --share-decoder-input-output-embed"
            raise InputError(f"--share-all-embeddings needs one dictionary of both languages: {cure}")
        if getattr(config, "constituents", "words") != "words" and not getattr(task, "has_trees", False):
            cure = "give --task rnnsearch --tree-lang SUFFIX, or --arch anmt"
            raise InputError(f"this model encodes trees, and the task has none; {cure}")
        network = cls.Network(config, len(source), len(target))
        cls.initialize(network)
        model = cls(NetworkEncoder(network.encoder, source), NetworkDecoder(network.decoder, target))
        settings = getattr(task, "cfg", None)
        languages = tuple(getattr(settings, f"{side}_lang", None) or side for side in ("source", "target"))
        data = getattr(settings, "data", None)
        preparations = find_preparations(Path(utils.split_paths(data)[0]), languages) if data else None
        model.text = TextSettings(languages, (Vocabulary(source.symbols), Vocabulary(target.symbols)), preparations)
        return model

    def prepare_for_inference_(self, cfg: DictConfig) -> None:
        """As in fairseq, but translate the last batch in every task."""
        cfg.dataset.required_batch_size_multiple = 1  # fairseq's 8 may drop sentences (data/data_utils.py:357)
        super().prepare_for_inference_(cfg)

    def get_extra_state(self) -> Tensor:
        """The text settings, for the checkpoint."""
        return pack_record(self.text.to_record())

    def set_extra_state(self, state: Tensor) -> None:
        """Refuse a checkpoint with other vocabularies, and remember how its text was prepared."""
        text = TextSettings.from_record(unpack_record(state.cpu()))
        for language, theirs, ours in zip(self.text.languages, text.vocabularies, self.text.vocabularies):
            if theirs != ours:
                sizes = f"{len(theirs):,} words, here {len(ours):,}"
                raise InputError(f"the checkpoint has another dictionary of {language} ({sizes}); give its data")
        self.text = replace(self.text, preparations=text.preparations or self.text.preparations)

    def load_state_dict(self, state_dict: dict[str, Any], *args: Any, **options: Any) -> Any:
        """As in fairseq, but with a clear error for parameters that do not fit."""
        loaded = dict(state_dict)
        if (text := loaded.pop("_extra_state", None)) is not None:
            self.set_extra_state(text)
        parameters = dict(self.named_parameters(remove_duplicate=False))
        try:
            check_parameters(loaded, parameters)
        except InputError as error:
            cure = "give its --arch and model options, or another --save-dir"
            raise InputError(f"the checkpoint does not fit: {error}; {cure}") from error
        for name, first in shared_names(parameters).items():
            if name != first and not torch.equal(loaded[name], loaded[first]):
                cure = "leave out --share-all-embeddings and --share-decoder-input-output-embed"
                raise InputError(f"the checkpoint's {first} and {name} differ, and this model shares them: {cure}")
        return super().load_state_dict(state_dict, *args, **options)


def _check_architecture(name: str | None, config: NetworkConfig) -> None:
    """Refuse the name of an architecture in a file of Hydra, which sets the model's defaults instead."""
    settings = {**rnnsearch.ARCHITECTURES, **tree2seq.ARCHITECTURES}.get(name, {})
    unset = {key: value for key, value in settings.items() if getattr(config, key) == getattr(type(config)(), key)}
    options = " ".join(f"model.{key}={value}" for key, value in unset.items() if getattr(config, key) != value)
    if options and HydraConfig.initialized():
        raise InputError(f"with model._name={name}, Hydra sets none of its options; give them, too: {options}")


def set_architecture(settings: dict[str, Any], args: Any) -> None:
    """Set the options of an architecture that were not given.

    Without ``--optimizer``, which fairseq needs, the first paper's models are trained with ``PAPER_TRAINING``, and with
    80 pairs a batch. Options that were typed stay as they are.
    """
    for name, value in settings.items():
        if getattr(args, name, None) is None:
            setattr(args, name, value)
    if getattr(args, "arch", None) in rnnsearch.ARCHITECTURES and getattr(args, "optimizer", "") is None:
        chosen = {name: paper for name, (default, paper) in PAPER_TRAINING.items() if getattr(args, name) == default}
        if args.batch_size is None and args.max_tokens is None:
            chosen |= {"batch_size": 80, "batch_size_valid": 80}
        vars(args).update(chosen)
        logger.warning(f"there is no --optimizer, so the training is the first paper's: {chosen}")


@dataclass
class RNNsearchOptions(RNNsearchConfig, FairseqDataclass):
    """The network's options, for fairseq's command line and Hydra."""


@register_model("rnnsearch", dataclass=RNNsearchOptions)
class RNNsearchModel(NetworkModel):
    """:class:`~rnnsearch_fairseq.modules.rnnsearch.RNNsearch` as a fairseq model."""

    Config, Network = RNNsearchConfig, RNNsearch
    initialize = staticmethod(initialize)


@dataclass
class Tree2SeqOptions(Tree2SeqConfig, FairseqDataclass):
    """The network's options, for fairseq's command line and Hydra."""


@register_model("tree2seq", dataclass=Tree2SeqOptions)
class Tree2SeqModel(NetworkModel):
    """:class:`~rnnsearch_fairseq.modules.tree2seq.Tree2Seq` as a fairseq model."""

    Config, Network = Tree2SeqConfig, Tree2Seq
    initialize = staticmethod(initialize_uniform)


for _model, _network in (("rnnsearch", rnnsearch), ("tree2seq", tree2seq)):  # for --arch, and Hydra's model._name
    for _name, _settings in _network.ARCHITECTURES.items():
        register_model_architecture(_model, _name)(partial(set_architecture, _settings))
