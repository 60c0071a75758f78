"""The batched Tree-LSTM against the recursive equations, one tree and one node at a time, in float64."""

import random

import pytest
import torch
from torch import Tensor

from rnnsearch_fairseq.modules import forest
from rnnsearch_fairseq.modules.config import Tree2SeqConfig
from rnnsearch_fairseq.modules.fused.tree import FusedTreeEncoder
from rnnsearch_fairseq.modules.tree_encoder import TreeEncoder
from rnnsearch_fairseq.modules.tree_lstm import Forest, TreeLSTM
from rnnsearch_fairseq.text.trees import parse_transitions
from tests.plugin.builders import Tree, transitions_of

EXACT = {"rtol": 0, "atol": 1e-12}
SIZE = 3


def draw_tree(generator: random.Random, begin: int, end: int) -> Tree:
    if end - begin == 1:
        return begin
    middle = generator.randint(begin + 1, end - 1)
    return [draw_tree(generator, begin, middle), draw_tree(generator, middle, end)]


def build(trees: list[Tree], first_columns: list[int], src_len: int) -> Forest:
    return forest.build_forest([parse_transitions(transitions_of(tree)) for tree in trees], first_columns, src_len)


def recursive(
    cell: TreeLSTM, tree: Tree, words: list[tuple[Tensor, Tensor]]
) -> tuple[tuple[Tensor, Tensor], list[tuple[Tensor, Tensor]]]:
    """(h, c) of the root by the equations of Section 3.1, and of all phrases in pre-order."""
    if isinstance(tree, int):
        return words[tree], []
    ((h_l, c_l), below_left), ((h_r, c_r), below_right) = (recursive(cell, child, words) for child in tree)
    weight, bias = cell.from_children.weight, cell.from_children.bias
    sums = []
    for gate in range(5):
        rows = slice(gate * SIZE, (gate + 1) * SIZE)
        sums.append(weight[rows, :SIZE] @ h_l + weight[rows, SIZE:] @ h_r + bias[rows])
    i, f_l, f_r, o = (1 / (1 + torch.exp(-x)) for x in sums[:4])
    c = i * torch.tanh(sums[4]) + f_l * c_l + f_r * c_r
    h = o * torch.tanh(c)
    return (h, c), [(h, c), *below_left, *below_right]


@pytest.fixture(params=[TreeEncoder, FusedTreeEncoder])
def encoder(request: pytest.FixtureRequest) -> TreeEncoder:
    torch.manual_seed(1)
    encoder = request.param(Tree2SeqConfig(embedding_size=SIZE, hidden_size=SIZE), 4).double()
    torch.nn.init.normal_(encoder.tree_lstm.from_children.weight)
    torch.nn.init.normal_(encoder.tree_lstm.from_children.bias)
    return encoder


def draw_batch(seed: int, left: bool) -> tuple[list[Tree], list[int], int]:
    """Trees of 1 to 9 leaves, one sentence without a tree; the sentences' first columns, and ``src_len``.

    Words come after the last leaf, and padding left or right.
    """
    generator = random.Random(seed)
    leaves = [generator.randint(1, 9) for _ in range(6)]
    trees = [draw_tree(generator, 0, number) for number in leaves]
    trees[generator.randrange(6)] = None
    lengths = [number + generator.randint(1, 2) for number in leaves]
    src_len = max(lengths)
    return trees, [src_len - length if left else 0 for length in lengths], src_len


@pytest.mark.parametrize("left", [False, True], ids=["right-padded", "left-padded"])
@pytest.mark.parametrize("seed", range(8))
def test_a_batch_equals_one_node_at_a_time(encoder: TreeEncoder, seed: int, left: bool) -> None:
    trees, first, src_len = draw_batch(seed, left)
    batch = build(trees, first, src_len)
    hidden, cells = (torch.randn(6 * src_len, SIZE, dtype=torch.float64, requires_grad=True) for _ in range(2))
    states = encoder.join(hidden, cells, batch)
    assert [len(state) for state in states] == [6 * src_len + len(batch.left)] * 2

    cost, expected_cost = torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    mixing = torch.randn(2, SIZE, dtype=torch.float64)  # so that no part of the gradient is symmetrical
    for sentence, tree in enumerate(trees):
        assert batch.unparsed[sentence].item() == (tree is None)
        rows = batch.phrases[sentence][~batch.phrase_padding[sentence]]
        if tree is None:
            assert len(rows) == 0
            continue
        begin = sentence * src_len + first[sentence]
        words = [(hidden[begin + j], cells[begin + j]) for j in range(src_len - first[sentence])]
        root, phrases = recursive(encoder.tree_lstm, tree, words)
        assert len(rows) == len(phrases)
        for which in (0, 1):
            torch.testing.assert_close(states[which][batch.roots[sentence]], root[which], **EXACT)
            for row, phrase in zip(rows, phrases):
                torch.testing.assert_close(states[which][row], phrase[which], **EXACT)
                cost = cost + (mixing[which] * states[which][row] ** 2).sum()
                expected_cost = expected_cost + (mixing[which] * phrase[which] ** 2).sum()
    inputs = [*encoder.tree_lstm.parameters(), hidden, cells]
    for found, expected in zip(torch.autograd.grad(cost, inputs), torch.autograd.grad(expected_cost, inputs)):
        torch.testing.assert_close(found, expected, **EXACT)


def test_words_pass_unchanged_and_a_batch_without_trees_is_words_alone(encoder: TreeEncoder) -> None:
    hidden, cells = torch.randn(2, 6, SIZE, dtype=torch.float64)
    batch = build([None, 0], [0, 0], 3)
    assert batch.phrases.shape == (2, 0)
    assert batch.roots[1] == 3
    states = encoder.join(hidden, cells, batch)
    assert torch.equal(states[0], hidden) and torch.equal(states[1], cells)
