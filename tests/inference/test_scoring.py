"""Scores of given translations, against each other; tests/modules/test_readme.py compares them with a search's."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch

from rnnsearch_fairseq.inference.aligned_pairs import AlignedPair
from rnnsearch_fairseq.inference.loading import Member
from rnnsearch_fairseq.inference.reading import Source
from rnnsearch_fairseq.inference.scoring import MAX_BATCH_SENTENCES, MAX_BATCH_WORDS, batches
from rnnsearch_fairseq.inference.translator import Translator
from rnnsearch_fairseq.modules.forest import Tree
from rnnsearch_fairseq.modules.rnnsearch import RNNsearch, RNNsearchConfig
from rnnsearch_fairseq.modules.symbols import UNK
from rnnsearch_fairseq.modules.tree2seq import Tree2Seq, Tree2SeqConfig
from rnnsearch_fairseq.text.settings import TextSettings
from rnnsearch_fairseq.text.vocabulary import SPECIAL, Vocabulary
from tests.builders import SMALL, randomize

K_X, K_Y = 24, 21
TREES = {2: Tree((1,)), 3: Tree((2, 1)), 5: Tree((2, 1, 3, 4)), 6: Tree((1, 3, 2))}


SYMBOLS = [*SPECIAL, *(f"w{number}" for number in range(len(SPECIAL), K_X))]
TEXT = TextSettings(("en", "fr"), (Vocabulary(SYMBOLS), Vocabulary(SYMBOLS[:K_Y])), None)
Pair = tuple[Source, list[str]]


def make_pairs(number: int = 23) -> list[Pair]:
    """Sentences of 0 to 11 words, some of them unknown, and some with a tree."""
    generator = np.random.default_rng(5)
    pairs = []
    for _ in range(number):
        source, target = (generator.integers(UNK, size, generator.integers(0, 12)).tolist() for size in (K_X, K_Y))
        source, target = ([SYMBOLS[number] for number in ids] for ids in (source, target))
        pairs.append((Source(source, TEXT.vocabularies[0].encode(source), TREES.get(len(source))), target))
    return pairs


PAIRS = make_pairs()


def make(kind: str, std: float = 0.5) -> Member:
    """A network with large random parameters."""
    if kind == "tree2seq":
        config = Tree2SeqConfig(embedding_size=5, hidden_size=6)
        network = Tree2Seq(config, K_X, K_Y)
    else:
        config = RNNsearchConfig.from_values({**SMALL, "context": kind})
        network = RNNsearch(config, K_X, K_Y)
    randomize(network, std)
    return Member(kind, config, network.eval(), TEXT)


def score(members: Sequence[Member], pairs: Sequence[Pair] = PAIRS) -> list[AlignedPair]:
    translator = Translator(members)
    if not translator.reads_trees:
        pairs = [(source._replace(tree=None), target) for source, target in pairs]
    return translator.align_words(pairs)


def assert_same(ours: Sequence[AlignedPair], theirs: Sequence[AlignedPair], atol: float = 1e-5) -> None:
    for pair, other in zip(ours, theirs, strict=True):
        for name in ("logprobs", "weights", "phrase_weights"):
            torch.testing.assert_close(getattr(pair, name), getattr(other, name), rtol=0, atol=atol)


@pytest.mark.parametrize("kind", ["attention", "last", "tree2seq"])
def test_neither_padding_nor_order_changes_a_score(kind: str) -> None:
    members = [make(kind)]
    together = score(members)
    assert_same([score(members, [pair])[0] for pair in PAIRS], together)
    assert_same(score(members, PAIRS[::-1]), together[::-1])
    for pair in together:
        if kind == "last":
            assert pair.weights is pair.phrase_weights is None
        else:
            assert pair.weights.shape == (len(pair.target), len(pair.source))
            phrases = 0.0 if pair.phrase_weights is None else pair.phrase_weights.sum(1)
            torch.testing.assert_close(pair.weights.sum(1) + phrases, torch.ones(len(pair.target)))


def test_an_ensemble_has_the_mean_of_the_probabilities_and_of_the_attention_there_is() -> None:
    members = [make("attention"), make("tree2seq", 0.9), make("last", 0.7)]
    alone = [score([member]) for member in members]
    for search, tree, last, both in zip(*alone, score(members), strict=True):
        mean = torch.stack([search.logprobs, tree.logprobs, last.logprobs]).exp().mean(dim=0).log()
        torch.testing.assert_close(both.logprobs, mean, rtol=0, atol=1e-5)
        torch.testing.assert_close(both.weights, (search.weights + tree.weights) / 2)
        torch.testing.assert_close(both.phrase_weights, tree.phrase_weights / 2)


def test_an_ensemble_keeps_probabilities_below_the_smallest_float() -> None:
    member = make("attention")
    member.network.decoder.to_vocabulary.weight.data *= 300
    alone = score([member])
    assert min(pair.logprobs.min() for pair in alone) < math.log(1e-45)
    assert_same(score([member, member]), alone, 1e-4)


def test_batches_are_of_similar_lengths_and_bounded() -> None:
    sizes = np.random.default_rng(2).choice([0, 1, 5, 30, 900, 5000], 150).tolist()
    grouped = batches(sizes)
    assert sorted(number for batch in grouped for number in batch) == list(range(150))
    for batch in grouped:
        assert len(batch) == 1 or (
            len(batch) <= MAX_BATCH_SENTENCES and len(batch) * sizes[batch[0]] <= MAX_BATCH_WORDS
        )
    assert [sizes[number] for batch in grouped for number in batch] == sorted(sizes, reverse=True)
