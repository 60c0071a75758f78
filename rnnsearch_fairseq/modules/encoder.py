"""The encoder of Section 3.2 and Appendix A.2.1: a bidirectional recurrent network for annotating sequences."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from rnnsearch_fairseq.modules import fused_scan, scan
from rnnsearch_fairseq.modules.embedding import BiasedEmbedding
from rnnsearch_fairseq.modules.gated_unit import GatedHiddenUnit


class EncoderOutput(NamedTuple):
    """``annotations`` h_j ``(batch, src_len, 2n)``, with n forward only; ``summary`` ``(batch, n)``."""

    annotations: Tensor
    summary: Tensor


class Encoder(nn.Module):
    """h_j = [→h_j; ←h_j] (Eq. 7): a forward and a backward gated unit over the same embeddings.

    The summary, from which the decoder starts, is ←h_1: the backward state that has read the whole sentence. With
    ``bidirectional`` false (RNNencdec) there is only the forward unit, and the summary is →h_Tx. ``fused`` chooses
    between the two modules of loops, which give the same.
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_size: int,
        hidden_size: int,
        padding_idx: int,
        bidirectional: bool = True,
        dropout: float = 0.0,
        fused: bool = True,
    ) -> None:
        super().__init__()
        self.annotation_size = 2 * hidden_size if bidirectional else hidden_size
        self.embedding = BiasedEmbedding(vocabulary_size, embedding_size, padding_idx)
        self.dropout = nn.Dropout(dropout)
        self.forward_unit = GatedHiddenUnit(embedding_size, hidden_size)
        self.backward_unit = GatedHiddenUnit(embedding_size, hidden_size) if bidirectional else None
        self.scan = fused_scan.encoder_scan if fused else scan.encoder_scan

    def forward(self, words: Tensor, padding_mask: Tensor | None = None) -> EncoderOutput:
        """Annotate ``words`` ``(batch, src_len)``; padding, left or right, changes nothing."""
        embedded = self.dropout(self.embedding(words))
        if self.backward_unit is None:
            (states,) = self.scan([self.forward_unit], embedded, padding_mask)
            return EncoderOutput(states, states[:, -1])
        forward_states, backward_states = self.scan([self.forward_unit, self.backward_unit], embedded, padding_mask)
        return EncoderOutput(torch.cat([forward_states, backward_states], dim=-1), backward_states[:, 0])
