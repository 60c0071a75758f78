"""The encoder of Section 3.2 and Appendix A.2.1: a bidirectional recurrent network for annotating sequences."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from rnnsearch_fairseq.modules.embedding import BiasedEmbedding
from rnnsearch_fairseq.modules.gru import GatedHiddenUnit


class EncoderOutput(NamedTuple):
    """``annotations`` h_j ``(batch, src_len, 2n)`` (RNNencdec: n instead of 2n); ``summary`` ``(batch, n)``."""

    annotations: Tensor
    summary: Tensor


class Encoder(nn.Module):
    """h_j = [→h_j; ←h_j] (Eq. 7): a forward and a backward gated unit over the same embeddings.

    The summary, from which the decoder starts, is ←h_1: the backward state that has read the whole sentence. With
    ``bidirectional`` false (RNNencdec) there is only the forward unit, and the summary is →h_Tx.

    :class:`~rnnsearch_fairseq.modules.fused.rnn.FusedEncoder` computes the same, faster.
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_size: int,
        hidden_size: int,
        bidirectional: bool = True,
        dropout: float = 0.0,
        word_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.annotation_size = 2 * hidden_size if bidirectional else hidden_size
        self.embedding = BiasedEmbedding(vocabulary_size, embedding_size, word_dropout)
        self.dropout = nn.Dropout(dropout)
        self.forward_unit = GatedHiddenUnit(embedding_size, hidden_size)
        self.backward_unit = GatedHiddenUnit(embedding_size, hidden_size) if bidirectional else None

    def forward(self, words: Tensor, padding_mask: Tensor | None = None) -> EncoderOutput:
        """Annotate ``words`` ``(batch, src_len)``; padding, left or right, does not change the words' annotations."""
        embedded = self.dropout(self.embedding(words))
        forward_states = self.read(self.forward_unit, embedded, padding_mask)
        if self.backward_unit is None:
            return EncoderOutput(forward_states, forward_states[:, -1])
        backward_states = self.read(self.backward_unit, embedded, padding_mask, backward=True)
        return EncoderOutput(torch.cat([forward_states, backward_states], dim=-1), backward_states[:, 0])

    @staticmethod
    def read(unit: GatedHiddenUnit, inputs: Tensor, padding_mask: Tensor | None, backward: bool = False) -> Tensor:
        """The states of one direction, starting from zero, in word order: ``(batch, src_len, n)``.

        Args:
            inputs: embedded words, ``(batch, src_len, m)``.
            padding_mask: ``(batch, src_len)``, true at padding, where the state is copied unchanged. With padding on
                either side, →h at the last position is therefore →h_Tx, and ←h at the first position is ←h_1.
            backward: read from the last word to the first.
        """
        projected = unit.project_input(inputs).unbind(dim=1)
        padded = None if padding_mask is None else padding_mask.unsqueeze(-1).unbind(dim=1)
        state = projected[0].new_zeros(inputs.size(0), unit.hidden_size)
        states = []
        for j in reversed(range(len(projected))) if backward else range(len(projected)):
            updated = unit(projected[j], state)
            state = updated if padded is None else torch.where(padded[j], state, updated)
            states.append(state)
        return torch.stack(states[::-1] if backward else states, dim=1)
