"""RNNsearch and RNNencdec (Bahdanau, Cho and Bengio, ICLR 2015) as the fairseq model ``rnnsearch``."""

from dataclasses import dataclass
from typing import Any

from fairseq.dataclass import FairseqDataclass
from fairseq.models import register_model
from torch import Tensor

from rnnsearch_fairseq.models.common import (
    Lists,
    NetworkDecoder,
    NetworkEncoder,
    NetworkModel,
    State,
    register_architectures,
)
from rnnsearch_fairseq.modules.encoder import Annotations
from rnnsearch_fairseq.modules.init import initialize
from rnnsearch_fairseq.modules.rnnsearch import ARCHITECTURES, RNNsearch, RNNsearchConfig


class RNNsearchEncoder(NetworkEncoder):
    """:class:`~rnnsearch_fairseq.modules.Encoder` behind fairseq's encoder interface."""

    def forward(self, src_tokens: Tensor, src_lengths: Tensor | None = None, **_: Any) -> Lists:
        """Annotate ``src_tokens`` ``(batch, src_len)``, each sentence ended by end-of-sentence, padded left or right.

        Returns:
            The fields of :class:`~rnnsearch_fairseq.modules.encoder.Annotations`; without padding, no mask.
        """
        fields = self.network.annotate(src_tokens)._asdict()
        return {name: [] if tensor is None else [tensor] for name, tensor in fields.items()}


class RNNsearchDecoder(NetworkDecoder):
    """:class:`~rnnsearch_fairseq.modules.Decoder` behind fairseq's decoder interface."""

    def decode(self, previous_words: Tensor, encoder_out: Lists, saved: State | None) -> tuple[Tensor, Lists, State]:
        source = Annotations(*(next(iter(encoder_out[name]), None) for name in Annotations._fields))
        state, memory = self.network.start(source)
        output = self.network(previous_words, memory=memory, **(saved or {"state": state}))
        return output.features, {"attn": [output.weights]}, {"state": output.state, "context": output.context}


@dataclass
class RNNsearchOptions(RNNsearchConfig, FairseqDataclass):
    """The network's options, for fairseq's command line and Hydra."""


@register_model("rnnsearch", dataclass=RNNsearchOptions)
class RNNsearchModel(NetworkModel):
    """:class:`~rnnsearch_fairseq.modules.rnnsearch.RNNsearch` as a fairseq model."""

    Config, Network, Encoder, Decoder = RNNsearchConfig, RNNsearch, RNNsearchEncoder, RNNsearchDecoder
    initialize = staticmethod(initialize)


register_architectures("rnnsearch", ARCHITECTURES)
