"""The Tree-LSTM over all phrases of a batch against the NumPy transcription, one tree and one node at a time."""

import random

import numpy as np
import pytest
import torch

from rnnsearch_fairseq.modules.config import Tree2SeqConfig
from rnnsearch_fairseq.modules.fused.tree import FusedTreeEncoder
from rnnsearch_fairseq.modules.tree_encoder import TreeEncoder
from rnnsearch_fairseq.modules.tree_lstm import Forest
from tests.builders import randomize
from tests.plugin.builders import Tree, make_forest
from tests.reference import tree2seq as reference

SIZE = 3


def draw_tree(generator: random.Random, begin: int, end: int) -> Tree:
    if end - begin == 1:
        return begin
    middle = generator.randint(begin + 1, end - 1)
    return [draw_tree(generator, begin, middle), draw_tree(generator, middle, end)]


@pytest.fixture(params=[TreeEncoder, FusedTreeEncoder])
def encoder(request: pytest.FixtureRequest) -> TreeEncoder:
    encoder = request.param(Tree2SeqConfig(embedding_size=SIZE, hidden_size=SIZE), 4).double()
    randomize(encoder)
    return encoder


def join(encoder: TreeEncoder, words: torch.Tensor, forest: Forest) -> np.ndarray:
    """(h, c) of all words and phrases, ``(words + phrases, 2, d)``, from those of the words."""
    return torch.stack(encoder.join(*words.unbind(dim=1), forest), dim=1).detach().numpy()


@pytest.mark.parametrize("left", [False, True], ids=["right-padded", "left-padded"])
@pytest.mark.parametrize("seed", range(8))
def test_a_batch_equals_one_node_at_a_time(encoder: TreeEncoder, seed: int, left: bool) -> None:
    """Trees of 1 to 9 leaves, and a sentence without a tree; words come after the last leaf, and padding."""
    generator = random.Random(seed)
    leaves = [generator.randint(1, 9) for _ in range(6)]
    trees = [draw_tree(generator, 0, number) for number in leaves]
    trees[generator.randrange(6)] = None
    lengths = [number + generator.randint(1, 2) for number in leaves]
    src_len = max(lengths)
    first_columns = [src_len - length if left else 0 for length in lengths]
    forest = make_forest(trees, first_columns, src_len)
    words = torch.randn(6 * src_len, 2, SIZE, dtype=torch.float64)
    states = join(encoder, words, forest)
    weights, biases = (p.detach().numpy().reshape(5, SIZE, -1) for p in encoder.tree_lstm.from_children.parameters())
    params = {}
    for gate, weight, bias in zip(reference.TREE_GATES, weights, biases):
        params |= {f"encTree.Wh{gate}L": weight[:, :SIZE], f"encTree.Wh{gate}R": weight[:, SIZE:]}
        params[f"encTree.b{gate}"] = bias[:, 0]
    for sentence, tree in enumerate(trees):
        assert forest.unparsed[sentence].item() == (tree is None)
        rows = forest.phrases[sentence][~forest.phrase_padding[sentence]].tolist()
        if tree is None:
            assert rows == []
            continue
        begin = sentence * src_len + first_columns[sentence]
        root, phrases = reference.encode_tree(params, tree, [reference.State(*pair.numpy()) for pair in words[begin:]])
        for row, state in zip([forest.roots[sentence], *rows], [root, *phrases], strict=True):
            np.testing.assert_allclose(states[row], [state.h, state.c], rtol=0, atol=1e-12)


def test_words_pass_unchanged_and_a_batch_without_trees_is_words_alone(encoder: TreeEncoder) -> None:
    forest = make_forest([None, 0], [0, 0], 3)
    assert forest.phrases.shape == (2, 0) and forest.roots[1] == 3
    words = torch.randn(6, 2, SIZE, dtype=torch.float64)
    np.testing.assert_array_equal(join(encoder, words, forest), words)
