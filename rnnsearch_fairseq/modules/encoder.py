"""The encoder of Section 3.2 and Appendix A.2.1: a bidirectional recurrent network for annotating sequences."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from rnnsearch_fairseq.modules.config import RNNsearchConfig
from rnnsearch_fairseq.modules.embedding import BiasedEmbedding
from rnnsearch_fairseq.modules.gru import GatedHiddenUnit
from rnnsearch_fairseq.modules.symbols import PAD
from rnnsearch_fairseq.modules.tree_lstm import Forest


class Annotations(NamedTuple):
    """The annotated source of a batch, from which the decoder starts.

    ``annotations`` are the h_j, ``(batch, src_len, 2n)`` (RNNencdec: n), and ``summary`` is ←h_1 ``(batch, n)``.
    ``padding_mask`` ``(batch, src_len)`` is true at padding; None if no sentence is padded.
    """

    annotations: Tensor
    summary: Tensor
    padding_mask: Tensor | None


class Encoder(nn.Module):
    """h_j = [→h_j; ←h_j] (Eq. 7): a forward and a backward gated unit over the same embeddings.

    The decoder starts from the summary ←h_1, the backward state after the whole sentence. RNNencdec has only the
    forward unit, and its summary is →h_Tx.
    """

    def __init__(self, config: RNNsearchConfig, vocabulary_size: int) -> None:
        super().__init__()
        sizes = (config.embedding_size, config.hidden_size)
        self.embedding = BiasedEmbedding(vocabulary_size, config.embedding_size, config.word_dropout)
        self.dropout = nn.Dropout(config.dropout)
        self.forward_unit = GatedHiddenUnit(*sizes)
        self.backward_unit = GatedHiddenUnit(*sizes) if config.context == "attention" else None

    def forward(self, words: Tensor, forest: Forest | None = None) -> Annotations:
        """Annotate ``words`` ``(batch, src_len)``, each sentence ended by end-of-sentence, padded left or right.

        Padding does not change the annotations of the words. A ``forest`` is not read.
        """
        padding_mask = words.eq(PAD)
        # On a GPU the test for padding would wait for the device; the mask costs less.
        mask = padding_mask if words.is_cuda or padding_mask.any() else None
        embedded = self.dropout(self.embedding(words))
        states = self.scan(self.forward_unit, embedded, mask)
        if self.backward_unit is None:
            return Annotations(states, states[:, -1], mask)
        backward_states = self.scan(self.backward_unit, embedded, mask, backward=True)
        return Annotations(torch.cat([states, backward_states], dim=-1), backward_states[:, 0], mask)

    def scan(self, unit: GatedHiddenUnit, inputs: Tensor, mask: Tensor | None, backward: bool = False) -> Tensor:
        """The states ``(batch, src_len, n)`` of one direction, starting from zero, in word order.

        The embedded words are ``(batch, src_len, m)``. Where ``mask`` ``(batch, src_len)`` is true, at padding, the
        state is copied unchanged. With padding on either side, →h at the last position is therefore →h_Tx, and ←h at
        the first position is ←h_1.
        """
        projected = unit.project_input(inputs).unbind(dim=1)
        padded = None if mask is None else mask.unsqueeze(-1).unbind(dim=1)
        state = projected[0].new_zeros(inputs.size(0), unit.hidden_size)
        states = []
        for j in reversed(range(len(projected))) if backward else range(len(projected)):
            updated = unit(projected[j], state)
            state = updated if padded is None else torch.where(padded[j], state, updated)
            states.append(state)
        return torch.stack(states[::-1] if backward else states, dim=1)
