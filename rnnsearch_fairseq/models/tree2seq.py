"""Tree-to-sequence translation (Eriguchi, Hashimoto and Tsuruoka, ACL 2016) as the fairseq model ``tree2seq``."""

from dataclasses import dataclass
from typing import Any

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.models import register_model
from fairseq.tasks import FairseqTask
from omegaconf import DictConfig
from torch import Tensor

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.models.common import (
    Lists,
    NetworkDecoder,
    NetworkEncoder,
    NetworkModel,
    State,
    read_config,
    register_architectures,
)
from rnnsearch_fairseq.modules.init import initialize_uniform
from rnnsearch_fairseq.modules.tree2seq import ARCHITECTURES, Tree2Seq, Tree2SeqConfig
from rnnsearch_fairseq.modules.tree_decoder import DecoderState
from rnnsearch_fairseq.modules.tree_encoder import Constituents
from rnnsearch_fairseq.modules.tree_lstm import Forest


class Tree2SeqEncoder(NetworkEncoder):
    """:class:`~rnnsearch_fairseq.modules.tree_encoder.TreeEncoder` behind fairseq's encoder interface."""

    def forward(
        self, src_tokens: Tensor, src_lengths: Tensor | None = None, trees: tuple[Any, ...] | None = None, **_: Any
    ) -> Lists:
        """Encode ``src_tokens`` ``(batch, src_len)``, each sentence ended by end-of-sentence, padded left or right.

        Args:
            trees: the fields of a :class:`~rnnsearch_fairseq.modules.tree_lstm.Forest` as a plain tuple.

        Returns:
            The fields of :class:`~rnnsearch_fairseq.modules.tree_encoder.Constituents`, batch first, and ``src_len``
            ``(batch,)``: the number of columns of the states that are words.
        """
        source = self.network(src_tokens, None if trees is None else Forest(*trees))
        columns = torch.full((len(src_tokens),), src_tokens.size(1), device=src_tokens.device)
        encoded = {"states": [source.states], "padding_mask": [source.padding_mask], "end": list(source.end)}
        return {**encoded, "root": list(source.root or ()), "src_len": [columns]}


class Tree2SeqDecoder(NetworkDecoder):
    """:class:`~rnnsearch_fairseq.modules.tree_decoder.TreeDecoder` behind fairseq's decoder interface."""

    def decode(self, previous_words: Tensor, encoder_out: Lists, saved: State | None) -> tuple[Tensor, Lists, State]:
        (states,), (mask,), (columns,) = (encoder_out[name] for name in ("states", "padding_mask", "src_len"))
        source = Constituents(states, mask, tuple(encoder_out["end"]), tuple(encoder_out["root"]) or None)
        after: State = {}
        if saved is None:
            features, alpha = self.network.scan(previous_words, source)
        else:
            state = DecoderState(**saved) if saved else self.network.initial_state(source)
            features, alpha, state = self.network.step(previous_words[:, 0], state, source)
            features, alpha, after = features.unsqueeze(1), alpha.unsqueeze(1), state._asdict()
        return features, {"attn": [alpha[..., : int(columns[0])]], "constituents": [alpha]}, after


@dataclass
class Tree2SeqOptions(Tree2SeqConfig, FairseqDataclass):
    """The network's options, for fairseq's command line and Hydra."""


@register_model("tree2seq", dataclass=Tree2SeqOptions)
class Tree2SeqModel(NetworkModel):
    """:class:`~rnnsearch_fairseq.modules.tree2seq.Tree2Seq` as a fairseq model."""

    Config, Network, Encoder, Decoder = Tree2SeqConfig, Tree2Seq, Tree2SeqEncoder, Tree2SeqDecoder
    initialize = staticmethod(initialize_uniform)

    @classmethod
    def build_model(cls, cfg: DictConfig, task: FairseqTask) -> "NetworkModel":
        """As in the base class."""
        if read_config(cfg, Tree2SeqConfig).constituents != "words" and not getattr(task, "has_trees", False):
            raise InputError(
                "this model encodes trees, and the task has none; give --task rnnsearch --tree-lang SUFFIX, or --arch "
                "anmt"
            )
        return super().build_model(cfg, task)


register_architectures("tree2seq", ARCHITECTURES)
