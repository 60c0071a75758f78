"""RNNsearch and RNNencdec (Bahdanau, Cho and Bengio, ICLR 2015) as the fairseq model ``rnnsearch``."""

from dataclasses import dataclass
from typing import Any

from fairseq.dataclass import FairseqDataclass
from fairseq.models import register_model
from omegaconf import DictConfig
from torch import Tensor

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.models.common import NetworkDecoder, NetworkEncoder, NetworkModel, register_architectures
from rnnsearch_fairseq.modules.fused import dispatch
from rnnsearch_fairseq.modules.init import initialize
from rnnsearch_fairseq.modules.rnnsearch import ARCHITECTURES, RNNsearch, RNNsearchConfig
from rnnsearch_fairseq.modules.symbols import PAD


class RNNsearchEncoder(NetworkEncoder):
    """:class:`~rnnsearch_fairseq.modules.Encoder` behind fairseq's encoder interface."""

    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None, **_: Any) -> dict[str, list[Tensor]]:
        """Annotate ``src_tokens`` ``(batch, src_len)``, each sentence ended by end-of-sentence, padded left or right.

        Returns:
            ``annotations`` ``(batch, src_len, 2n)``; ``summary`` ``(batch, n)``; ``padding_mask`` ``(batch, src_len)``.
        """
        padding_mask = src_tokens.eq(PAD)
        # On a GPU the test for padding would wait for the device; the mask costs less.
        masked = dispatch.on_gpu(padding_mask) or padding_mask.any()
        annotations, summary = self.network(src_tokens, padding_mask if masked else None)
        return {"annotations": [annotations], "summary": [summary], "padding_mask": [padding_mask]}


class RNNsearchDecoder(NetworkDecoder):
    """:class:`~rnnsearch_fairseq.modules.Decoder` behind fairseq's decoder interface."""

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: dict[str, list[Tensor]],
        incremental_state: dict[str, dict[str, Tensor | None]] | None = None,
        features_only: bool = False,
        **_: Any,
    ) -> tuple[Tensor, dict[str, list[Tensor | None]]]:
        """Score every next word.

        Args:
            prev_output_tokens: y_{i-1}, ``(batch, tgt_len)``, beginning with end-of-sentence as y_0. In a search
                (``incremental_state`` given) only the last column is read.
            features_only: return the input of the output layer instead of the scores.

        Returns:
            Unnormalised log-probabilities ``(batch, tgt_len, K_y)``, or features ``(batch, tgt_len, l)``; ``attn``:
            alpha ``(batch, tgt_len, src_len)``; and with features, the output layer.
        """
        (annotations,), (summary,), (padding_mask,) = (
            encoder_out[name] for name in ("annotations", "summary", "padding_mask")
        )
        saved = None
        if incremental_state is not None:
            prev_output_tokens = prev_output_tokens[:, -1:]
            saved = self.get_incremental_state(incremental_state, "search")
        memory = self.network.attention.encode_keys(annotations, padding_mask, encoder_out.get("keys", [None])[0])
        state, context = (saved["state"], saved["context"]) if saved else (self.network.initial_state(summary), None)
        output = self.network(prev_output_tokens, state, memory, context)
        if incremental_state is not None:
            self.set_incremental_state(incremental_state, "search", {"state": output.state, "context": output.context})
            if memory.keys is not None:
                encoder_out["keys"] = [memory.keys]  # computed once a sentence
        return self.result(output.features, {"attn": [output.weights]}, features_only)


@dataclass
class RNNsearchOptions(RNNsearchConfig, FairseqDataclass):
    """The network's options, for fairseq's command line and Hydra."""


@register_model("rnnsearch", dataclass=RNNsearchOptions)
class RNNsearchModel(NetworkModel):
    """:class:`~rnnsearch_fairseq.modules.rnnsearch.RNNsearch` as a fairseq model."""

    Config, Network, Encoder, Decoder = RNNsearchConfig, RNNsearch, RNNsearchEncoder, RNNsearchDecoder
    initialize = staticmethod(initialize)

    def prepare_for_inference_(self, cfg: DictConfig) -> None:
        """As in fairseq, but refuse --print-alignment for a model without alignments.

        Raises:
            InputError: it is given for a model with ``--context last``.
        """
        has_attention = self.encoder.network.backward_unit is not None
        if not has_attention and getattr(cfg.generation, "print_alignment", None) is not None:
            raise InputError(
                "--print-alignment needs an alignment, and RNNencdec (--context last) has none: leave the option out, "
                "or use a checkpoint of RNNsearch"
            )
        super().prepare_for_inference_(cfg)


register_architectures("rnnsearch", ARCHITECTURES)
