"""RNNsearch and RNNencdec (Bahdanau, Cho and Bengio, ICLR 2015) as the fairseq model ``rnnsearch``."""

from dataclasses import dataclass
from typing import Any

from fairseq.dataclass import FairseqDataclass
from fairseq.models import register_model
from torch import Tensor

from rnnsearch_fairseq.models.common import NetworkDecoder, NetworkEncoder, NetworkModel, register_architectures
from rnnsearch_fairseq.modules.encoder import Annotations
from rnnsearch_fairseq.modules.init import initialize
from rnnsearch_fairseq.modules.rnnsearch import ARCHITECTURES, RNNsearch, RNNsearchConfig


class RNNsearchEncoder(NetworkEncoder):
    """:class:`~rnnsearch_fairseq.modules.Encoder` behind fairseq's encoder interface."""

    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None, **_: Any) -> dict[str, list[Tensor]]:
        """Annotate ``src_tokens`` ``(batch, src_len)``, each sentence ended by end-of-sentence, padded left or right.

        Returns:
            The fields of :class:`~rnnsearch_fairseq.modules.encoder.Annotations`; without padding, no mask.
        """
        fields = self.network.annotate(src_tokens)._asdict()
        return {name: [] if tensor is None else [tensor] for name, tensor in fields.items()}


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
        source = Annotations(*(next(iter(encoder_out[name]), None) for name in Annotations._fields))
        state, memory = self.network.start(source)
        context = None
        if incremental_state is not None:
            prev_output_tokens = prev_output_tokens[:, -1:]
            if saved := self.get_incremental_state(incremental_state, "search"):
                state, context = saved["state"], saved["context"]
        output = self.network(prev_output_tokens, state, memory, context)
        if incremental_state is not None:
            self.set_incremental_state(incremental_state, "search", {"state": output.state, "context": output.context})
        return self.result(output.features, {"attn": [output.weights]}, features_only)


@dataclass
class RNNsearchOptions(RNNsearchConfig, FairseqDataclass):
    """The network's options, for fairseq's command line and Hydra."""


@register_model("rnnsearch", dataclass=RNNsearchOptions)
class RNNsearchModel(NetworkModel):
    """:class:`~rnnsearch_fairseq.modules.rnnsearch.RNNsearch` as a fairseq model."""

    Config, Network, Encoder, Decoder = RNNsearchConfig, RNNsearch, RNNsearchEncoder, RNNsearchDecoder
    initialize = staticmethod(initialize)


register_architectures("rnnsearch", ARCHITECTURES)
