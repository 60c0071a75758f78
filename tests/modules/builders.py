"""Encoder and decoder of RNNsearch alone, readable or fused."""

from typing import Any

import torch

from rnnsearch_fairseq.modules import Decoder, Encoder
from rnnsearch_fairseq.modules.config import RNNsearchConfig
from rnnsearch_fairseq.modules.fused.rnn import FusedDecoder, FusedEncoder

ORDERS = [{}, {"readout_state": "current"}, {"update_word": "current", "output_rank": 2}]


class Whole(torch.nn.Module):
    """RNNsearch or, with an ``alignment_size`` of 0, RNNencdec."""

    def __init__(self, alignment_size: int, fused: bool, **order: Any) -> None:
        super().__init__()
        encoder, decoder = (FusedEncoder, FusedDecoder) if fused else (Encoder, Decoder)
        sizes = {"embedding_size": 2, "hidden_size": 3, "alignment_size": alignment_size or 1, "maxout_size": 2}
        context = "attention" if alignment_size else "last"
        config = RNNsearchConfig(**sizes, context=context, **order)
        self.encoder, self.decoder = encoder(config, 7), decoder(config, 7)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> list[torch.Tensor]:
        output = self.decoder(target, *self.decoder.start(self.encoder(source)))
        return [tensor for tensor in output if tensor is not None]
