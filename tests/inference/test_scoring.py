"""Scores of given translations, against the NumPy reference and against each other."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import nn

from rnnsearch_fairseq.inference.scoring import MAX_BATCH_SENTENCES, MAX_BATCH_WORDS, Pair, Score, batches, score_pairs
from rnnsearch_fairseq.modules.forest import Tree
from rnnsearch_fairseq.modules.rnnsearch import RNNsearch, RNNsearchConfig
from rnnsearch_fairseq.modules.symbols import EOS, UNK
from rnnsearch_fairseq.modules.tree2seq import Tree2Seq, Tree2SeqConfig
from tests.builders import SMALL, modules_from, randomize
from tests.reference import rnnsearch as reference

K_X, K_Y = 24, 21
TREES = {2: Tree((1,)), 3: Tree((2, 1)), 5: Tree((2, 1, 3, 4)), 6: Tree((1, 3, 2))}


def make_pairs(number: int = 23) -> list[Pair]:
    """Sentences of 0 to 11 words, some of them unknown, and some with a tree."""
    generator = np.random.default_rng(5)
    pairs = []
    for _ in range(number):
        source, target = (
            torch.tensor([*generator.integers(UNK, size, generator.integers(0, 12)).tolist(), EOS])
            for size in (K_X, K_Y)
        )
        pairs.append(Pair(source, target, TREES.get(len(source) - 1)))
    return pairs


PAIRS = make_pairs()


def make(kind: str, std: float = 0.5) -> nn.Module:
    """A network with large random parameters."""
    if kind == "tree2seq":
        network: nn.Module = Tree2Seq(Tree2SeqConfig(embedding_size=5, hidden_size=6), K_X, K_Y)
    else:
        network = RNNsearch(RNNsearchConfig.of({**SMALL, "context": kind}), K_X, K_Y)
    randomize(network, std)
    return network.eval()


def assert_same(ours: Sequence[Score], theirs: Sequence[Score], atol: float = 1e-5) -> None:
    for one, other in zip(ours, theirs, strict=True):
        for found, expected in zip(one, other):
            torch.testing.assert_close(found, expected, rtol=0, atol=atol)


def test_scores_are_those_of_the_papers_equations() -> None:
    sizes = {"n": 6, "m": 5, "l": 4, "n_prime": 7, "pool": 2, "K_x": K_X, "K_y": K_Y}
    params = reference.random_parameters(np.random.default_rng(2), **sizes, encdec=False)
    network = make("attention").double()
    network.encoder, network.decoder = modules_from(params, pool=2)
    for pair, score in zip(PAIRS, score_pairs([network], PAIRS), strict=True):
        x, y = pair.source, pair.target
        assert score.logprobs.sum().item() == pytest.approx(reference.sentence_log_prob(params, x, y, EOS), abs=2e-5)
        weights = reference.decode(params, x, [EOS, *y[:-1]])["alignments"]
        np.testing.assert_allclose(score.weights, weights, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", ["attention", "last", "tree2seq"])
def test_neither_padding_nor_order_changes_a_score(kind: str) -> None:
    network = make(kind)
    together = score_pairs([network], PAIRS)
    assert_same([score_pairs([network], [pair])[0] for pair in PAIRS], together)
    assert_same(score_pairs([network], PAIRS[::-1]), together[::-1])
    for pair, score in zip(PAIRS, together):
        if kind == "last":
            assert score.weights is score.phrase_weights is None
        else:
            assert score.weights.shape == (len(pair.target), len(pair.source))
            total = score.weights.sum(1) + score.phrase_weights.sum(1)
            torch.testing.assert_close(total, torch.ones(len(pair.target)))


def test_an_ensemble_has_the_mean_of_the_probabilities_and_of_the_attention_there_is() -> None:
    networks = [make("attention"), make("tree2seq", 0.9), make("last", 0.7)]
    alone = [score_pairs([network], PAIRS) for network in networks]
    for one, tree, last, both in zip(*alone, score_pairs(networks, PAIRS), strict=True):
        mean = torch.stack([one.logprobs, tree.logprobs, last.logprobs]).exp().mean(dim=0).log()
        torch.testing.assert_close(both.logprobs, mean, rtol=0, atol=1e-5)
        torch.testing.assert_close(both.weights, (one.weights + tree.weights) / 2)
        torch.testing.assert_close(both.phrase_weights, tree.phrase_weights / 2)


def test_an_ensemble_keeps_probabilities_below_the_smallest_float() -> None:
    network = make("attention")
    network.decoder.to_vocabulary.weight.data *= 300
    alone = score_pairs([network], PAIRS)
    assert min(score.logprobs.min() for score in alone) < math.log(1e-45)
    assert_same(score_pairs([network, network], PAIRS), alone, 1e-4)


def test_batches_are_of_similar_lengths_and_bounded() -> None:
    sizes = np.random.default_rng(2).choice([0, 1, 5, 30, 900, 5000], 150).tolist()
    grouped = batches(sizes)
    assert sorted(number for batch in grouped for number in batch) == list(range(150))
    for batch in grouped:
        assert len(batch) == 1 or (
            len(batch) <= MAX_BATCH_SENTENCES and len(batch) * sizes[batch[0]] <= MAX_BATCH_WORDS
        )
    assert [sizes[number] for batch in grouped for number in batch] == sorted(sizes, reverse=True)
