"""Index tensors of a batch of trees, by which a Tree-LSTM computes all phrases of one height together."""

from collections.abc import Sequence

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from rnnsearch_fairseq.modules.tree_lstm import Forest
from rnnsearch_fairseq.text.trees import Tree


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
