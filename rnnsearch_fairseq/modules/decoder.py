"""The decoder of Section 3.1 and Appendix A.2.2: it searches through the source as it translates."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rnnsearch_fairseq.modules.attention import AlignmentModel, FixedContext, Memory
from rnnsearch_fairseq.modules.config import RNNsearchConfig
from rnnsearch_fairseq.modules.embedding import BiasedEmbedding
from rnnsearch_fairseq.modules.encoder import Annotations
from rnnsearch_fairseq.modules.gru import GatedHiddenUnit
from rnnsearch_fairseq.modules.readout import DeepOutput


class DecoderStep(NamedTuple):
    """What the decoder computes at a target position i, or at all of them: then with a first dimension ``tgt_len``.

    ``read_state`` ``(batch, n)`` is s_{i-1} or s_i, which the readout takes; ``context`` is c_i ``(batch, 2n)``;
    ``weights`` are the alpha_i ``(batch, src_len)``, None without an alignment model. ``state`` ``(batch, n)`` is the
    recurrent state for the next position.
    """

    read_state: Tensor
    context: Tensor
    weights: Tensor | None
    state: Tensor


class RecurrentState(NamedTuple):
    """The recurrent state of a decoder between two positions, a row for each sentence or hypothesis.

    ``state`` is ``(rows, n)``, and ``context`` the last c ``(rows, 2n)``, None before the first position. Only the
    original code's order reads the context. In that order, :mod:`~rnnsearch_fairseq.modules.fused.search_step` keeps
    [C; C_z; C_r] c ``(rows, 3n)`` as ``context``, and [U_z; U_r] s ``(rows, 2n)`` as ``gates``.
    """

    state: Tensor
    context: Tensor | None = None
    gates: Tensor | None = None


class Decoder(nn.Module):
    """For each target position i, in the order of Appendix A.2.2::

        c_i = sum_j alpha_ij h_j, aligned with s_{i-1}       (Eq. 5 and 6)
        s_i = f(s_{i-1}, y_{i-1}, c_i)
        p(y_i) = g(y_{i-1}, s_{i-1} or s_i, c_i)             (A.2.2 or Eq. 4)

    starting from s_0 = tanh(W_s ←h_1 + b_s); or in the order of the original code, ``updates_with_current_word``::

        c_i = sum_j alpha_ij h_j, aligned with s_{i-1}
        p(y_i) = g(y_{i-1}, s_{i-1}, c_i)                    no y_0: the first readout sees no word
        s_i = f(s_{i-1}, y_i, c_i)

    There s_{i-1} has already consumed y_{i-1} when it is aligned and read out.
    """

    def __init__(self, config: RNNsearchConfig, vocabulary_size: int) -> None:
        super().__init__()
        m, n, annotation_size = config.embedding_size, config.hidden_size, config.annotation_size
        self.reads_current_state = config.readout_state == "current"
        self.updates_with_current_word = config.update_word == "current"
        self.embedding = BiasedEmbedding(vocabulary_size, m, config.word_dropout)
        self.dropout = nn.Dropout(config.dropout)
        self.from_summary = nn.Linear(n, n)
        attends = config.context == "attention"
        self.attention = AlignmentModel(n, annotation_size, config.alignment_size) if attends else FixedContext()
        self.unit = GatedHiddenUnit(m, n, annotation_size)
        self.readout = DeepOutput(config, vocabulary_size)

    @property
    def to_vocabulary(self) -> nn.Linear:
        """W_o with the softmax's bias."""
        return self.readout.to_vocabulary

    def initial_state(self, summary: Tensor) -> Tensor:
        """s_0 = tanh(W_s ←h_1 + b_s) (A.2.2), ``(batch, n)``, from the encoder's summary ←h_1 ``(batch, n)``."""
        return torch.tanh(self.from_summary(summary))

    def begin(self, source: Annotations) -> tuple[RecurrentState, Memory]:
        """The state s_0 and the memory of the annotated source."""
        memory = self.attention.encode_keys(source.annotations, source.padding_mask)
        return RecurrentState(self.initial_state(source.summary)), memory

    def step(self, projected: Tensor, state: Tensor, context: Tensor | None, memory: Memory) -> DecoderStep:
        """One target position i: its context, alignment and state, in the order that the class describes.

        Args:
            projected: ``unit.project_input`` of E y_{i-1}, ``(batch, 3n)``.
            state: s_{i-1}, ``(batch, n)``; in the original code's order s_{i-2}, or s_0 at the first position.
            context: c_{i-1}, ``(batch, 2n)``; None at the first position. Only the original code's order reads it.
        """
        if self.updates_with_current_word:
            # The original code updates the state at the end of position i - 1, when it knows y_{i-1}. Here the update
            # comes at the beginning of position i.
            if context is not None:
                state = self.unit(projected + self.unit.from_context(context), state)
            context, alpha = self.attention(state, memory)
            return DecoderStep(state, context, alpha, state)
        context, alpha = self.attention(state, memory)
        updated = self.unit(projected + self.unit.from_context(context), state)
        return DecoderStep(updated if self.reads_current_state else state, context, alpha, updated)

    def scan(self, embedded: Tensor, state: Tensor, context: Tensor | None, memory: Memory) -> DecoderStep:
        """All positions in turn, by one :meth:`step` after the other.

        Args:
            embedded: E y_{i-1} for i = 1 ... T_y, or for one i, ``(tgt_len, batch, m)``.
            state, context: the recurrent state and the context of the position before; at the first position, the
                context is None.

        Returns:
            The values of all positions ``(tgt_len, ...)``; ``state`` is that of the last position only, ``(batch, n)``.
        """
        steps = []
        for projected in self.unit.project_input(embedded):
            steps.append(self.step(projected, state, context, memory))
            state, context = steps[-1].state, steps[-1].context
        read_states, contexts, weights, _ = zip(*steps)
        weights = None if weights[0] is None else torch.stack(weights)
        return DecoderStep(torch.stack(read_states), torch.stack(contexts), weights, state)

    def forward(
        self, previous_words: Tensor, recurrent: RecurrentState, memory: Memory
    ) -> tuple[Tensor, Tensor | None, RecurrentState]:
        """The features of every next word, given the previous words y_{i-1}, ``(batch, tgt_len)``.

        Training passes all of y_0 ... y_{T-1} in one call, with what :meth:`begin` returned. A search passes one word
        in each call, with the state that the call before returned. The results are the same.

        Returns:
            The input of ``to_vocabulary`` ``(batch, tgt_len, l)``; alpha ``(batch, tgt_len, src_len)``, None without an
            alignment model; and the state after these words.
        """
        # Time is the first dimension from here on, so that each position is contiguous in memory.
        embedded = self.dropout(self.embedding(previous_words.T))
        if self.updates_with_current_word and recurrent.context is None:
            embedded = F.pad(embedded[1:], (0, 0, 0, 0, 1, 0))  # zeros replace E y_0
        steps = self.scan(embedded, recurrent.state, recurrent.context, memory)
        features = self.readout(steps.read_state, embedded, steps.context).transpose(0, 1)
        weights = None if steps.weights is None else steps.weights.transpose(0, 1)
        return features, weights, RecurrentState(steps.state, steps.context[-1])
