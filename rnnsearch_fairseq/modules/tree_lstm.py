"""The binary Tree-LSTM of Eriguchi, Hashimoto and Tsuruoka (2016), Section 3.1."""

from typing import NamedTuple

import torch
from torch import Tensor, nn


class Forest(NamedTuple):
    """The trees of a batch as indices into one table of states.

    The rows of the table are first all words, padding included, then all phrases, sorted by height. Word j of sentence
    b is row ``b · src_len + j``. The children of a phrase come before all phrases of its height.

    ``left`` and ``right`` ``(phrases,)`` are the rows of each phrase's children; ``height_sizes`` are the numbers of
    phrases of each height, from height 1 up. ``phrases`` ``(batch, most_phrases)`` are the rows of each sentence's
    phrases in pre-order (root, left subtree, right subtree). Sentences with fewer phrases are padded with row 0, and
    ``phrase_padding`` is true there. ``roots`` ``(batch,)`` are the rows of the roots; the root of a one-leaf tree is
    its word. ``unparsed`` ``(batch,)`` is true for sentences without a tree, whose entry in ``roots`` has no meaning.
    """

    left: Tensor
    right: Tensor
    height_sizes: tuple[int, ...]
    phrases: Tensor
    phrase_padding: Tensor
    roots: Tensor
    unparsed: Tensor


class TreeLSTM(nn.Module):
    """A phrase from its two children (Section 3.1)::

        i, f_l, f_r, o = σ(U_l h_l + U_r h_r + b)       each with its own U_l, U_r and b
        c~             = tanh(U_l h_l + U_r h_r + b)
        c = i ∘ c~ + f_l ∘ c_l + f_r ∘ c_r
        h = o ∘ tanh(c)

    Both forget gates see both children. Parameters: ``from_children.weight`` ``(5d, 2d)`` has the rows i, f_l, f_r, o,
    c~ and the columns U_l, U_r; ``from_children.bias`` is ``(5d,)``.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.from_children = nn.Linear(2 * size, 5 * size)

    def forward(self, left: tuple[Tensor, Tensor], right: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """(h, c) of phrases, ``(..., d)`` each, from (h, c) of their left and right children."""
        sums = self.from_children(torch.cat([left[0], right[0]], dim=-1))
        gates, candidate = sums.split([4 * self.size, self.size], dim=-1)
        in_gate, left_gate, right_gate, out_gate = torch.sigmoid(gates).chunk(4, dim=-1)
        cell = in_gate * torch.tanh(candidate) + left_gate * left[1] + right_gate * right[1]
        return out_gate * torch.tanh(cell), cell
