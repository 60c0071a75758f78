"""The decoder of Eriguchi, Hashimoto and Tsuruoka (2016), Sections 2.2 and 3.2: attention to words and phrases."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from rnnsearch_fairseq.modules.attention import Memory, average_annotations
from rnnsearch_fairseq.modules.config import Tree2SeqConfig
from rnnsearch_fairseq.modules.embedding import WordEmbedding
from rnnsearch_fairseq.modules.lstm import LSTM
from rnnsearch_fairseq.modules.tree_encoder import Constituents
from rnnsearch_fairseq.modules.tree_lstm import TreeLSTM


class DecoderState(NamedTuple):
    """(s_j, c_j) and s~_j after target position j, ``(batch, d)`` each; before the first, (s_1, c_1) and None."""

    hidden: Tensor
    cell: Tensor
    fed: Tensor | None


class TreeDecoder(nn.Module):
    """For each target position j::

        s_1, c_1 = Tree-LSTM(end-of-sentence, root), with its own parameters    (Section 3.2; (h_n, c_n) without trees)
        s_j, c_j = LSTM([y_{j-1}; s~_{j-1}]) from s_{j-1}, c_{j-1}, for j > 1   (input feeding)
        alpha_ji = exp(s_j · h_i) / sum_k exp(s_j · h_k), over words and phrases
        d_j      = sum_i alpha_ji h_i
        s~_j     = tanh(W_d [s_j; d_j] + b_d)
        p(y_j)   = softmax(W_s s~_j + b_s)

    The first word is predicted from s_1: no begin-of-sentence word is read.
    """

    def __init__(self, config: Tree2SeqConfig, vocabulary_size: int) -> None:
        super().__init__()
        size = config.hidden_size
        self.embedding = WordEmbedding(vocabulary_size, config.embedding_size, config.word_dropout)
        self.start = TreeLSTM(size) if config.constituents != "words" else None
        self.lstm = LSTM(config.embedding_size, size)
        self.from_fed = nn.Linear(size, 4 * size, bias=False)
        self.from_state = nn.Linear(size, size)
        self.from_context = nn.Linear(size, size, bias=False)
        self.to_vocabulary = nn.Linear(size, vocabulary_size)

    def begin(self, source: Constituents) -> tuple[DecoderState, Constituents]:
        """(s_1, c_1) (Section 3.2), computed from the states at end-of-sentence and at the root; and the states to
        which the decoder attends."""
        start = source.end if source.root is None else self.start(source.end, source.root)
        return DecoderState(*start, None), source._replace(end=None, root=None)

    def attend(self, hidden: Tensor, states: Tensor, padding_mask: Tensor) -> tuple[Tensor, Tensor]:
        """s~_j (Section 3.3) ``(batch, d)`` and alpha_j ``(batch, src_len + most_phrases)`` for s_j ``(batch, d)``."""
        # A row times the transposed states takes half the time of the states times a column.
        scores = torch.bmm(hidden.unsqueeze(1), states.mT)
        context, weights = average_annotations(scores, Memory(states, None, padding_mask))
        return torch.tanh(self.from_state(hidden) + self.from_context(context)), weights

    def step(
        self, previous_words: Tensor, state: DecoderState, source: Constituents
    ) -> tuple[Tensor, Tensor, DecoderState]:
        """One target position j: the LSTM, except at the first position, then the attention.

        ``previous_words`` are y_{j-1}, ``(batch,)``, ignored at the first position.

        Returns:
            s~_j ``(batch, d)``, the input of ``to_vocabulary``; alpha_j ``(batch, src_len + most_phrases)``; and the
            state after position j.
        """
        hidden, cell, fed = state
        if fed is not None:
            projected = self.lstm.from_input(self.embedding(previous_words))
            hidden, cell = self.lstm(projected + self.from_fed(fed), hidden, cell)
        fed, alpha = self.attend(hidden, source.states, source.padding_mask)
        return fed, alpha, DecoderState(hidden, cell, fed)

    def scan(self, previous_words: Tensor, state: DecoderState, source: Constituents) -> tuple[Tensor, Tensor]:
        """s~ ``(batch, tgt_len, d)`` and alpha ``(batch, tgt_len, src_len + most_phrases)`` of all positions, in turn.

        ``previous_words`` are the y_{j-1}, ``(batch, tgt_len)``; the first column is ignored.
        """
        attended, weights = [], []
        for words in previous_words.unbind(dim=1):
            fed, alpha, state = self.step(words, state, source)
            attended.append(fed)
            weights.append(alpha)
        return torch.stack(attended, dim=1), torch.stack(weights, dim=1)

    def forward(
        self, previous_words: Tensor, state: DecoderState, source: Constituents
    ) -> tuple[Tensor, Tensor, DecoderState | None]:
        """:meth:`scan` of all words in training, or :meth:`step` of one word in a search, ``(batch, tgt_len)``.

        Returns:
            s~ ``(batch, tgt_len, d)``; alpha ``(batch, tgt_len, src_len + most_phrases)``; and the state after one
            word, None after several.
        """
        if previous_words.size(1) > 1:
            return *self.scan(previous_words, state, source), None
        fed, alpha, state = self.step(previous_words[:, 0], state, source)
        return fed.unsqueeze(1), alpha.unsqueeze(1), state
