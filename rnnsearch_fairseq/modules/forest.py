"""Binary trees, and the index tensors with which a Tree-LSTM computes all phrases of one height together."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from rnnsearch_fairseq.modules.tree_lstm import Forest


@dataclass(frozen=True)
class Tree:
    """A binary tree over words 0, 1, ...

    ``splits[k]`` is the first word of the right child of phrase k. Phrases are in pre-order: a phrase, then its left
    subtree, then its right subtree.
    """

    splits: tuple[int, ...]

    @property
    def leaves(self) -> int:
        return len(self.splits) + 1

    def spans(self) -> list[tuple[int, int]]:
        """The position of the first word of each phrase, and the position after its last word, in pre-order."""
        spans = []
        pending = [(0, self.leaves)]
        for split in self.splits:
            start, end = pending.pop()
            spans.append((start, end))
            if end - split != 1:
                pending.append((split, end))
            if split - start != 1:
                pending.append((start, split))
        return spans

    def children(self) -> list[tuple[int, int]]:
        """The left and right child of each phrase, in pre-order; i stands for word i, ``leaves + k`` for phrase k."""
        phrases = enumerate(zip(self.spans(), self.splits), self.leaves)
        # A subtree of m words has m - 1 phrases, so the right child comes split - start phrases after its parent.
        return [
            (start if split - start == 1 else phrase + 1, split if end - split == 1 else phrase + split - start)
            for phrase, ((start, end), split) in phrases
        ]


def build_forest(trees: Sequence[Tree | None], first_columns: Sequence[int], src_len: int) -> Forest:
    """The index tensors of a batch of ``src_len`` columns, from its trees: None for a sentence without a parse.

    The sentences begin in the ``first_columns``.
    """
    words = len(trees) * src_len
    children: list[tuple[int, int]] = []
    heights: list[int] = []
    counts = []  # of the phrases of each sentence
    roots = []
    for sentence, (tree, first_column) in enumerate(zip(trees, first_columns, strict=True)):
        first_word, first_phrase = sentence * src_len + first_column, words + len(children)
        counts.append(0 if tree is None else tree.leaves - 1)
        if tree is None:
            roots.append(0)
            continue
        roots.append(first_phrase if tree.leaves > 1 else first_word)
        rows = [*range(first_word, first_word + tree.leaves), *range(first_phrase, first_phrase + tree.leaves - 1)]
        children += [(rows[left], rows[right]) for left, right in tree.children()]
        heights += _heights(tree)

    # Above, phrases are numbered sentence by sentence in pre-order. Their final rows are sorted by height.
    by_height = np.argsort(np.array(heights, dtype=np.int64), kind="stable")
    row = np.arange(words + len(heights))
    row[words + by_height] = np.arange(words, words + len(heights))
    phrases = pad_sequence(torch.from_numpy(row[words:]).split(counts), batch_first=True)
    pairs = torch.from_numpy(row[np.array(children, dtype=np.int64).reshape(-1, 2)[by_height]])
    return Forest(
        pairs[:, 0],
        pairs[:, 1],
        tuple(np.bincount(heights)[1:].tolist()) if heights else (),
        phrases,
        torch.arange(phrases.size(1)) >= torch.tensor(counts).unsqueeze(1),
        torch.from_numpy(row[roots]),
        torch.tensor([tree is None for tree in trees]),
    )


def _heights(tree: Tree) -> list[int]:
    """The height of each phrase in pre-order: 1 + the largest height of its children; words have height 0."""
    heights = [0] * (2 * tree.leaves - 1)
    for phrase, (left, right) in reversed(list(enumerate(tree.children(), tree.leaves))):
        heights[phrase] = 1 + max(heights[left], heights[right])
    return heights[tree.leaves :]
