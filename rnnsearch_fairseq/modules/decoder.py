"""The decoder of Section 3.1 and Appendix A.2.2: it searches through the source as it translates."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from rnnsearch_fairseq.modules.alignment import AlignmentModel, FixedContext, Memory
from rnnsearch_fairseq.modules.embedding import BiasedEmbedding
from rnnsearch_fairseq.modules.gated_unit import GatedHiddenUnit
from rnnsearch_fairseq.modules.readout import DeepOutput
from rnnsearch_fairseq.modules.scan import decoder_scan


class DecoderOutput(NamedTuple):
    """What the decoder gives for a batch.

    ``logits`` are W_o t_i, ``(batch, tgt_len, K_y)``; ``weights`` the alpha_ij, ``(batch, tgt_len, src_len)``, None
    without an alignment model; ``state`` is the last s_i, ``(batch, n)``.
    """

    logits: Tensor
    weights: Tensor | None
    state: Tensor


class Decoder(nn.Module):
    """For each target position i, in the order of Appendix A.2.2::

        c_i = sum_j alpha_ij h_j, aligned with s_{i-1}       (Eq. 5 and 6)
        s_i = f(s_{i-1}, y_{i-1}, c_i)
        p(y_i) = g(y_{i-1}, s_{i-1} or s_i, c_i)             (A.2.2 or Eq. 4)

    starting from s_0 = tanh(W_s ←h_1 + b_s).

    Args:
        alignment_size: n', or 0 for RNNencdec, whose context is fixed to →h_Tx.
        reads_current_state: the readout sees s_i (Eq. 4) instead of s_{i-1} (A.2.2).
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_size: int,
        hidden_size: int,
        annotation_size: int,
        alignment_size: int,
        maxout_size: int,
        pool_size: int,
        padding_idx: int,
        reads_current_state: bool = False,
        dropout: float = 0.0,
        readout_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.reads_current_state = reads_current_state
        self.embedding = BiasedEmbedding(vocabulary_size, embedding_size, padding_idx)
        self.dropout = nn.Dropout(dropout)
        self.from_summary = nn.Linear(hidden_size, hidden_size)
        self.attention = (
            AlignmentModel(hidden_size, annotation_size, alignment_size) if alignment_size else FixedContext()
        )
        self.unit = GatedHiddenUnit(embedding_size, hidden_size, annotation_size)
        self.readout = DeepOutput(
            hidden_size, embedding_size, annotation_size, maxout_size, pool_size, vocabulary_size, readout_dropout
        )

    def initial_state(self, summary: Tensor) -> Tensor:
        """s_0 = tanh(W_s ←h_1 + b_s), ``(batch, n)``."""
        return torch.tanh(self.from_summary(summary))

    def step(self, projected: Tensor, state: Tensor, memory: Memory) -> tuple[Tensor, Tensor, Tensor | None]:
        """One step of the recurrence: s_i ``(batch, n)``, c_i ``(batch, 2n)``, alpha_i ``(batch, src_len)``.

        Args:
            projected: ``unit.project_input`` of E y_{i-1}, ``(batch, 3n)``.
            state: s_{i-1}, ``(batch, n)``.
        """
        context, alpha = self.attention(state, memory)
        return self.unit(projected + self.unit.from_context(context), state), context, alpha

    def forward(self, previous_words: Tensor, state: Tensor, memory: Memory) -> DecoderOutput:
        """Scores of every next word, given the words before it.

        One call with all of y_0 ... y_{T-1} (training), and T calls with one word each that pass ``state`` on
        (search), give the same.

        Args:
            previous_words: y_{i-1}, ``(batch, tgt_len)``.
            state: s of the step before the first, ``(batch, n)``.
        """
        embedded = self.dropout(self.embedding(previous_words))
        scan = decoder_scan(self, embedded, state, memory)
        seen = scan.states if self.reads_current_state else scan.previous_states
        return DecoderOutput(self.readout(seen, embedded, scan.contexts), scan.weights, scan.states[:, -1])
