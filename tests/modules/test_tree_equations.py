"""Tree2Seq over a batch against the NumPy transcription, one tree and one node at a time."""

import random

import numpy as np
import pytest

from rnnsearch_fairseq.modules.tree2seq import Tree2Seq, Tree2SeqConfig
from rnnsearch_fairseq.modules.tree_lstm import Forest
from tests.builders import EOS, PAD, randomize
from tests.plugin.builders import EXACT, Tree, make_batch
from tests.reference import tree2seq as reference

WORDS = 12


def draw_tree(generator: random.Random, begin: int, end: int) -> Tree:
    if end - begin == 1:
        return begin
    middle = generator.randint(begin + 1, end - 1)
    return [draw_tree(generator, begin, middle), draw_tree(generator, middle, end)]


@pytest.mark.parametrize("left", [False, True], ids=["right-padded", "left-padded"])
@pytest.mark.parametrize("scan", ["fused", "reference"])
@pytest.mark.parametrize(("seed", "most_leaves"), [(0, 1), *((seed, 9) for seed in range(1, 6))])
def test_a_batch_equals_one_node_at_a_time(seed: int, most_leaves: int, scan: str, left: bool) -> None:
    """Trees of 1 to 9 leaves, and a sentence without a tree; words may come after the last leaf, and padding."""
    generator = random.Random(seed)
    leaves = [generator.randint(1, most_leaves) for _ in range(6)]
    trees = [draw_tree(generator, 0, number) for number in leaves]
    trees[generator.randrange(6)] = None
    lengths = [(number + generator.randint(0, 1), generator.randint(0, 5)) for number in leaves]
    sources, targets = ([[*generator.choices(range(4, WORDS), k=n), EOS] for n in side] for side in zip(*lengths))
    network = Tree2Seq(Tree2SeqConfig(embedding_size=3, hidden_size=4, scan=scan), WORDS, WORDS).double()
    randomize(network)
    batch = make_batch(sources, targets, trees, left)["net_input"]
    scores, weights = network(batch["src_tokens"], batch["prev_output_tokens"], Forest(*batch["trees"]))
    params = {name: parameter.detach().numpy() for name, parameter in network.named_parameters()}
    is_word = batch["src_tokens"].ne(PAD).numpy()
    for row, (source, tree, target) in enumerate(zip(sources, trees, targets)):
        log_probs, alpha = reference.decode(params, source, tree, target)
        found = scores[row, : len(target)].log_softmax(dim=1).detach()
        np.testing.assert_allclose(found, log_probs, **EXACT)
        phrases = alpha.shape[1] - len(source)
        attended = np.append(is_word[row], np.arange(weights.size(2) - is_word.shape[1]) < phrases)
        found = weights[row, : len(target)].detach().numpy()
        np.testing.assert_allclose(found[:, attended], alpha, **EXACT)
        assert (found[:, ~attended] == 0).all()
