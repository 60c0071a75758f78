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
    NetworkDecoder,
    NetworkEncoder,
    NetworkModel,
    read_config,
    register_architectures,
)
from rnnsearch_fairseq.modules.init import initialize_uniform
from rnnsearch_fairseq.modules.symbols import PAD
from rnnsearch_fairseq.modules.tree2seq import ARCHITECTURES, Tree2Seq, Tree2SeqConfig
from rnnsearch_fairseq.modules.tree_decoder import DecoderState
from rnnsearch_fairseq.modules.tree_encoder import Constituents
from rnnsearch_fairseq.modules.tree_lstm import Forest


class Tree2SeqEncoder(NetworkEncoder):
    """:class:`~rnnsearch_fairseq.modules.tree_encoder.TreeEncoder` behind fairseq's encoder interface."""

    def forward(
        self, src_tokens: Tensor, src_lengths: Tensor | None = None, trees: tuple[Any, ...] | None = None, **_: Any
    ) -> dict[str, list[Tensor]]:
        """Encode ``src_tokens`` ``(batch, src_len)``, each sentence ended by end-of-sentence, padded left or right.

        Args:
            trees: the fields of a :class:`~rnnsearch_fairseq.modules.tree_lstm.Forest` as a plain tuple.

        Returns:
            The fields of :class:`~rnnsearch_fairseq.modules.tree_encoder.Constituents`, batch first, and ``src_len``
            ``(batch,)``: the number of columns of the states that are words.
        """
        source = self.network(src_tokens, src_tokens.eq(PAD), None if trees is None else Forest(*trees))
        columns = torch.full((len(src_tokens),), src_tokens.size(1), device=src_tokens.device)
        encoded = {"states": [source.states], "padding_mask": [source.padding_mask], "end": list(source.end)}
        return {**encoded, "root": list(source.root or ()), "src_len": [columns]}


class Tree2SeqDecoder(NetworkDecoder):
    """:class:`~rnnsearch_fairseq.modules.tree_decoder.TreeDecoder` behind fairseq's decoder interface."""

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, list[Tensor]],
        incremental_state: dict[str, dict[str, Tensor | None]] | None = None,
        features_only: bool = False,
        **_: Any,
    ) -> tuple[Tensor, dict[str, list[Tensor]]]:
        """Score every next word.

        Args:
            prev_output_tokens: y_{j-1}, ``(batch, tgt_len)``; the first column is ignored. In a search
                (``incremental_state`` given) only the last column is read.
            features_only: return s~_j instead of scores.

        Returns:
            Unnormalised log-probabilities ``(batch, tgt_len, K_y)``, or s~_j ``(batch, tgt_len, d)``; and a dictionary:
            ``attn``, the alpha of the words ``(batch, tgt_len, src_len)``; ``constituents``, the alpha of words and
            phrases; and with ``features_only``, the output layer.
        """
        source = Constituents(
            encoder_out["states"][0],
            encoder_out["padding_mask"][0],
            tuple(encoder_out["end"]),
            tuple(encoder_out["root"]) or None,
        )
        if incremental_state is None:
            features, alpha = self.network.scan(prev_output_tokens, source)
        else:
            saved = self.get_incremental_state(incremental_state, "search")
            state = DecoderState(**saved) if saved else self.network.initial_state(source)
            features, alpha, state = self.network.step(prev_output_tokens[:, -1], state, source)
            features, alpha = features.unsqueeze(1), alpha.unsqueeze(1)
            self.set_incremental_state(incremental_state, "search", state._asdict())
        words = int(encoder_out["src_len"][0][0])
        return self.result(features, {"attn": [alpha[..., :words]], "constituents": [alpha]}, features_only)


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
