"""The decoder of Section 3.1 and Appendix A.2.2: it searches through the source as it translates."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rnnsearch_fairseq.modules.attention import AlignmentModel, FixedContext, Memory
from rnnsearch_fairseq.modules.embedding import BiasedEmbedding
from rnnsearch_fairseq.modules.gru import GatedHiddenUnit
from rnnsearch_fairseq.modules.readout import DeepOutput


class DecoderOutput(NamedTuple):
    """What the decoder gives for a batch.

    ``features`` are what ``readout.to_vocabulary`` makes W_o t_i of, ``(batch, tgt_len, l)``; ``weights`` the alpha_ij,
    ``(batch, tgt_len, src_len)``, None without an alignment model. To go on from there: ``state`` ``(batch, n)`` and,
    in the original code's order only, ``context`` ``(batch, 2n)``.
    """

    features: Tensor
    weights: Tensor | None
    state: Tensor
    context: Tensor | None


class Step(NamedTuple):
    """One target position: what the readout sees, ``read_state`` ``(batch, n)`` and ``context`` c_i ``(batch, 2n)``.

    ``state`` ``(batch, n)`` passes on to the next position; ``weights`` are alpha_i ``(batch, src_len)``, or None.
    """

    read_state: Tensor
    state: Tensor
    context: Tensor
    weights: Tensor | None


class States(NamedTuple):
    """What the readout needs of all positions: ``read`` ``(tgt_len, batch, n)``, s_{i-1} or s_i, and the c_i.

    ``contexts`` are ``(tgt_len, batch, 2n)``; ``weights`` the alpha_ij, ``(tgt_len, batch, src_len)``, None without an
    alignment model; ``last`` is the state after the last position, ``(batch, n)``.
    """

    read: Tensor
    contexts: Tensor
    weights: Tensor | None
    last: Tensor


class Decoder(nn.Module):
    """For each target position i, in the order of Appendix A.2.2::

        c_i = sum_j alpha_ij h_j, aligned with s_{i-1}       (Eq. 5 and 6)
        s_i = f(s_{i-1}, y_{i-1}, c_i)
        p(y_i) = g(y_{i-1}, s_{i-1} or s_i, c_i)             (A.2.2 or Eq. 4)

    starting from s_0 = tanh(W_s ←h_1 + b_s); or in the order of the original code, ``updates_with_current_word``::

        c_i = sum_j alpha_ij h_j, aligned with s_{i-1}
        p(y_i) = g(y_{i-1}, s_{i-1}, c_i)                    no y_0: the first readout sees no word
        s_i = f(s_{i-1}, y_i, c_i)

    where the state that is aligned and read has already consumed the word before.

    Args:
        alignment_size: n', or 0 for RNNencdec, whose context is fixed to →h_Tx.
        reads_current_state: the readout sees s_i (Eq. 4) instead of s_{i-1} (A.2.2). Not in the original code's order,
            where s_i knows y_i.
        output_rank: width of the layer that factorises W_o; 0 for none.

    :class:`~rnnsearch_fairseq.modules.fused.rnn.FusedDecoder` computes the same, faster.
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
        updates_with_current_word: bool = False,
        output_rank: int = 0,
        dropout: float = 0.0,
        readout_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.reads_current_state = reads_current_state
        self.updates_with_current_word = updates_with_current_word
        self.embedding = BiasedEmbedding(vocabulary_size, embedding_size, padding_idx)
        self.dropout = nn.Dropout(dropout)
        self.from_summary = nn.Linear(hidden_size, hidden_size)
        self.attention = (
            AlignmentModel(hidden_size, annotation_size, alignment_size) if alignment_size else FixedContext()
        )
        self.unit = GatedHiddenUnit(embedding_size, hidden_size, annotation_size)
        self.readout = DeepOutput(
            hidden_size,
            embedding_size,
            annotation_size,
            maxout_size,
            pool_size,
            vocabulary_size,
            output_rank,
            readout_dropout,
        )

    def initial_state(self, summary: Tensor) -> Tensor:
        """s_0 = tanh(W_s ←h_1 + b_s), ``(batch, n)``."""
        return torch.tanh(self.from_summary(summary))

    def step(self, projected: Tensor, state: Tensor, context: Tensor | None, memory: Memory) -> Step:
        """One target position i.

        Args:
            projected: ``unit.project_input`` of E y_{i-1}, ``(batch, 3n)``.
            state: s_{i-1}; in the original code's order s_{i-2}, or s_0 at the first position. ``(batch, n)``.
            context: c_{i-1}, ``(batch, 2n)``; None at the first position. Only the original code's order reads it.
        """
        if self.updates_with_current_word:
            # The update that ended position i-1 in the original code begins position i here: its word is known now.
            if context is not None:
                state = self.unit(projected + self.unit.from_context(context), state)
            context, alpha = self.attention(state, memory)
            return Step(state, state, context, alpha)
        context, alpha = self.attention(state, memory)
        updated = self.unit(projected + self.unit.from_context(context), state)
        return Step(updated if self.reads_current_state else state, updated, context, alpha)

    def scan(self, embedded: Tensor, state: Tensor, context: Tensor | None, memory: Memory) -> States:
        """All positions in turn, with the words before them given.

        Args:
            embedded: E y_{i-1} for i = 1 ... T_y, or for one i, ``(tgt_len, batch, m)``.
            state: the state before the first of these positions, ``(batch, n)``.
            context: the context before that position, ``(batch, 2n)``; None at the beginning.
            memory: the encoded source.
        """
        steps = []
        for projected in self.unit.project_input(embedded):
            steps.append(self.step(projected, state, context, memory))
            state, context = steps[-1].state, steps[-1].context
        read, _, contexts, weights = zip(*steps)
        return States(
            torch.stack(read), torch.stack(contexts), None if weights[0] is None else torch.stack(weights), state
        )

    def forward(
        self, previous_words: Tensor, state: Tensor, memory: Memory, context: Tensor | None = None
    ) -> DecoderOutput:
        """What every next word is scored by, given the words before it.

        One call with all of y_0 ... y_{T-1} (training), and T calls with one word each that pass ``state`` and
        ``context`` on (search), give the same.

        Args:
            previous_words: y_{i-1}, ``(batch, tgt_len)``: from y_0 on, or one word more than the last call read.
            state: :meth:`initial_state`, or where the last call ended, ``(batch, n)``.
            context: where the last call ended, ``(batch, 2n)``; None at the beginning.
        """
        # In here time comes first, so that what belongs to one position stands together.
        embedded = self.dropout(self.embedding(previous_words.T))
        if self.updates_with_current_word and context is None:
            embedded = F.pad(embedded[1:], (0, 0, 0, 0, 1, 0))  # in place of y_0, zeros
        states = self.scan(embedded, state, context, memory)
        features = self.readout(states.read, embedded, states.contexts).transpose(0, 1)
        weights = None if states.weights is None else states.weights.transpose(0, 1)
        return DecoderOutput(
            features, weights, states.last, states.contexts[-1] if self.updates_with_current_word else None
        )
