"""The encoder of Eriguchi, Hashimoto and Tsuruoka (2016), Section 3.1: words from left to right, then phrases."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from rnnsearch_fairseq.modules.config import Tree2SeqConfig
from rnnsearch_fairseq.modules.embedding import WordEmbedding
from rnnsearch_fairseq.modules.lstm import LSTM
from rnnsearch_fairseq.modules.symbols import PAD
from rnnsearch_fairseq.modules.tree_lstm import Forest, TreeLSTM


class Constituents(NamedTuple):
    """The encoded source of a batch.

    The decoder attends to ``states`` ``(batch, src_len + most_phrases, d)``: h of the words, end-of-sentence included,
    then h of the phrases in pre-order. ``padding_mask`` is true where a sentence has no word and no phrase. The decoder
    starts from ``end``, (h, c) at end-of-sentence, and ``root``, (h, c) of the root, ``(batch, d)`` each. ``root`` is
    zero for a sentence without a parse, and None in a model without trees.
    """

    states: Tensor
    padding_mask: Tensor
    end: tuple[Tensor, Tensor]
    root: tuple[Tensor, Tensor] | None


class TreeEncoder(nn.Module):
    """An LSTM over the words, whose states are the leaves of a Tree-LSTM over the phrases (Section 3.1).

    The sequential baseline (ANMT) encodes words only. In the ablation of Section 5.2 (Table 5), the leaves are word
    embeddings: h = x, c = 0. A reversed sentence is read from its last word to its first; the states keep the order of
    the words.
    """

    def __init__(self, config: Tree2SeqConfig, vocabulary_size: int) -> None:
        super().__init__()
        self.embedding = WordEmbedding(vocabulary_size, config.embedding_size, config.word_dropout)
        sequential = config.constituents != "phrases-only"
        self.lstm = LSTM(config.embedding_size, config.hidden_size) if sequential else None
        self.tree_lstm = TreeLSTM(config.hidden_size) if config.constituents != "words" else None
        self.reverse = config.reverse_source

    def forward(self, words: Tensor, forest: Forest | None = None) -> Constituents:
        """Encode ``words`` ``(batch, src_len)``, each sentence ended by end-of-sentence, padded left or right.

        ``forest`` has the trees of the batch; None in the sequential baseline, or if no sentence has a parse.
        """
        padding_mask = words.eq(PAD)
        embedded = self.embedding(reverse_words(words, padding_mask) if self.reverse else words)
        if self.lstm is None:
            hidden, cell = embedded, torch.zeros_like(embedded)
        else:
            hidden, cell = self.scan(embedded, padding_mask)
        last = words.size(1) - 1 - padding_mask.flip(1).long().argmin(dim=1)
        end = tuple(states[torch.arange(len(words), device=words.device), last] for states in (hidden, cell))
        if self.reverse:
            hidden = reverse_words(hidden, padding_mask)
        if self.tree_lstm is None or forest is None:
            root = None if self.tree_lstm is None else tuple(map(torch.zeros_like, end))
            return Constituents(hidden, padding_mask, end, root)
        hiddens, cells = self.join(hidden.flatten(0, 1), cell.flatten(0, 1), forest)
        root = tuple(states[forest.roots].masked_fill(forest.unparsed.unsqueeze(1), 0.0) for states in (hiddens, cells))
        states = torch.cat([hidden, hiddens[forest.phrases]], dim=1)
        return Constituents(states, torch.cat([padding_mask, forest.phrase_padding], dim=1), end, root)

    def scan(self, inputs: Tensor, padding_mask: Tensor) -> tuple[Tensor, Tensor]:
        """h and c of every word, ``(batch, src_len, d)`` each, starting from zero; zero at padding, left or right.

        The embedded words are ``(batch, src_len, m)``; ``padding_mask`` ``(batch, src_len)`` is true at padding.
        """
        hidden = cell = inputs.new_zeros(inputs.size(0), self.lstm.size)
        hiddens, cells = [], []
        for j, projected in enumerate(self.lstm.from_input(inputs).unbind(dim=1)):
            hidden, cell = self.lstm(projected, hidden, cell)
            padded = padding_mask[:, j : j + 1]
            hidden, cell = hidden.masked_fill(padded, 0), cell.masked_fill(padded, 0)
            hiddens.append(hidden)
            cells.append(cell)
        return torch.stack(hiddens, dim=1), torch.stack(cells, dim=1)

    def join(self, hidden: Tensor, cell: Tensor, forest: Forest) -> tuple[Tensor, Tensor]:
        """(h, c) of words and phrases, ``(words + phrases, d)`` each, from (h, c) of the words, ``(words, d)`` each.

        All phrases of one height are computed at once.
        """
        end = 0
        for size in forest.height_sizes:
            begin, end = end, end + size
            left, right = ((hidden[rows[begin:end]], cell[rows[begin:end]]) for rows in (forest.left, forest.right))
            phrase_hidden, phrase_cell = self.tree_lstm(left, right)
            hidden, cell = torch.cat([hidden, phrase_hidden]), torch.cat([cell, phrase_cell])
        return hidden, cell


def reverse_words(words: Tensor, padding_mask: Tensor) -> Tensor:
    """``words`` ``(batch, src_len, ...)`` from the last to the first; padding and end-of-sentence stay in place."""
    columns = torch.arange(words.size(1), device=words.device).expand_as(padding_mask)
    is_word = ~padding_mask
    first = is_word.long().argmax(dim=1, keepdim=True)
    last = first + is_word.sum(dim=1, keepdim=True) - 2  # before end-of-sentence
    order = torch.where((columns >= first) & (columns <= last), first + last - columns, columns)
    return words.gather(1, order.reshape(*order.shape, *[1] * (words.dim() - 2)).expand_as(words))
