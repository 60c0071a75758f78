"""From transitions to the index tensors by which a batch of trees is computed height by height."""

from collections.abc import Sequence

import numpy as np
import torch

from rnnsearch_fairseq.modules.tree_lstm import Forest


def plant(transitions: Sequence[Sequence[bool] | None], first_columns: Sequence[int], src_len: int) -> Forest:
    """The trees of a batch as a :class:`~rnnsearch_fairseq.modules.tree_lstm.Forest`.

    Args:
        transitions: of each sentence, in post-order: true joins the last two constituents, false takes the next word.
            They leave one constituent. None where there is no tree.
        first_columns: where the words of each sentence begin among its ``src_len`` columns: after the padding, if that
            is on the left.
    """
    words = len(transitions) * src_len
    lefts: list[int] = []
    rights: list[int] = []
    heights: list[int] = []
    roots: list[int] = []
    orders: list[list[int]] = []
    for sentence, (steps, first) in enumerate(zip(transitions, first_columns, strict=True)):
        root, order = _grow(steps or (), sentence * src_len + first, words, lefts, rights, heights)
        roots.append(root)
        orders.append(order)

    # Phrases were numbered as they were met; their rows follow their heights.
    by_height = np.argsort(np.array(heights, dtype=np.int64), kind="stable")
    row = np.empty(words + len(heights), dtype=np.int64)
    row[:words] = np.arange(words)
    row[words + by_height] = words + np.arange(len(heights))
    phrases = np.zeros((len(orders), max(map(len, orders), default=0)), dtype=np.int64)
    for sentence, order in enumerate(orders):
        phrases[sentence, : len(order)] = row[order]
    lengths = np.array([len(order) for order in orders])
    return Forest(
        torch.from_numpy(row[np.array(lefts, dtype=np.int64)[by_height]]),
        torch.from_numpy(row[np.array(rights, dtype=np.int64)[by_height]]),
        tuple(np.bincount(heights)[1:].tolist()) if heights else (),
        torch.from_numpy(phrases),
        torch.from_numpy(np.arange(phrases.shape[1]) >= lengths[:, None]),
        torch.from_numpy(row[roots]),
        torch.tensor([steps is None for steps in transitions]),
    )


def _grow(
    steps: Sequence[bool], next_word: int, words: int, lefts: list[int], rights: list[int], heights: list[int]
) -> tuple[int, list[int]]:
    """Add the phrases of one tree; returns its root (0 of no tree) and its phrases in pre-order, by their numbers."""
    stack: list[tuple[int, int]] = []  # node and height
    for joins in steps:
        if joins:
            (right, right_height), (left, left_height) = stack.pop(), stack.pop()
            lefts.append(left)
            rights.append(right)
            heights.append(1 + max(left_height, right_height))
            stack.append((words + len(lefts) - 1, heights[-1]))
        else:
            stack.append((next_word, 0))
            next_word += 1
    if not stack:
        return 0, []
    ((root, _),) = stack
    order, waiting = [], [root]
    while waiting:
        node = waiting.pop()
        if node >= words:
            order.append(node)
            waiting += [rights[node - words], lefts[node - words]]
    return root, order
