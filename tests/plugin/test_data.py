"""The training pairs: limits, pools, every pair in a batch, and their trees."""

from itertools import chain

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary, LanguagePairDataset, ListDataset
from hypothesis import given, settings
from hypothesis import strategies as st

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.modules.forest import build_forest
from rnnsearch_fairseq.modules.tree_lstm import Forest
from rnnsearch_fairseq.plugin.data import LimitedPairs, PooledPairs, TreePairs, longer_side
from rnnsearch_fairseq.text.trees import parse_transitions
from tests.builders import EOS, PAD, make_dictionary

Lengths = list[tuple[int, int]]  # words of the source and of the target, end-of-sentence not counted

some_lengths = st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=60)
counts = st.integers(1, 7)


def make_pairs(lengths: Lengths) -> LanguagePairDataset:
    dictionary, sizes = make_dictionary(3), np.array(lengths) + 1
    sides = [[torch.tensor([4] * pair[side] + [EOS]) for pair in lengths] for side in (0, 1)]
    source, target = (ListDataset(side, sizes[:, number]) for number, side in enumerate(sides))
    return LanguagePairDataset(source, sizes[:, 0], dictionary, target, sizes[:, 1], dictionary)


def make_pools(lengths: Lengths, max_words: int, pool_batches: int, seed: int) -> PooledPairs:
    pairs = make_pairs(lengths)
    return PooledPairs(pairs, longer_side(pairs) <= max_words, pool_batches, seed)


@settings(deadline=None, max_examples=50)
@given(
    lengths=some_lengths, max_words=st.integers(1, 13), pool_batches=counts, size=counts, seed=st.integers(0, 2**32 - 1)
)
def test_a_pool_is_the_next_slice_of_the_shuffle_sorted_by_the_longer_side(
    lengths: Lengths, max_words: int, pool_batches: int, size: int, seed: int
) -> None:
    expected = [k for k, pair in enumerate(lengths) if max(pair) <= max_words]
    if not expected:
        with pytest.raises(InputError, match="--max-words"):
            make_pools(lengths, max_words, pool_batches, seed)
        return
    pairs = make_pools(lengths, max_words, pool_batches, seed)
    shuffled = pairs.ordered_indices().tolist()
    batches = [batch.tolist() for batch in pairs.batch_by_size(pairs.ordered_indices(), max_sentences=size)]
    assert sorted(chain(*batches)) == expected
    assert [len(batch) for batch in batches[:-1]] == [size] * (len(batches) - 1)
    for start in range(0, len(batches), pool_batches):
        pool = list(chain(*batches[start : start + pool_batches]))
        read = shuffled[start * size : (start + pool_batches) * size]
        assert pool == sorted(read, key=lambda k: max(lengths[k]))  # Python's sort is stable, as ours must be


@pytest.mark.parametrize("limits", [{"max_tokens": 20, "max_sentences": 6}, {"max_sentences": 16}])
@pytest.mark.parametrize("count", [1, 5, 8, 13, 53])
def test_fairseqs_batches_are_kept_with_the_last_one(count: int, limits: dict[str, int]) -> None:
    lengths = [(k % 5 + 1, k % 3 + 1) for k in range(count)]
    pairs, multiple = make_pairs(lengths), {"required_batch_size_multiple": 8}
    limited = LimitedPairs(pairs, np.ones(count, dtype=bool), seed=1)
    theirs = pairs.batch_by_size(np.arange(count), **limits, **multiple)
    ours = limited.batch_by_size(np.arange(count), **limits, **multiple)
    assert [list(batch) for batch in ours[: len(theirs)]] == [list(batch) for batch in theirs]
    assert list(chain(*ours)) == list(range(count))


def test_pools_counted_in_tokens_are_refused() -> None:
    pairs = make_pools([(1, 2), (2, 1)], max_words=2, pool_batches=3, seed=1)
    for limits in ({"max_tokens": 100}, {}):
        with pytest.raises(InputError, match="--max-tokens"):
            pairs.batch_by_size(pairs.ordered_indices(), **limits)


# -- trees --

TREES = Dictionary()
for _symbol in ("S", "R", "-"):
    TREES.add_symbol(_symbol)
SOURCES = [[PAD, 6, 7, EOS], [8, EOS], [9, 4, 4, 5, EOS], [EOS]]  # a text may hold the word <pad>
TRANSITIONS = ["S S S R R", "S", "S S R S R", "-"]


def make_trees(transitions: list[str], left: bool = False) -> TreePairs:
    sources, sizes, words = [torch.tensor(s) for s in SOURCES], np.array(list(map(len, SOURCES))), make_dictionary(8)
    pairs = LanguagePairDataset(sources, sizes, words, sources, sizes, words, left_pad_source=left, shuffle=False)
    ids = [TREES.encode_line(line, add_if_not_exist=False).long() for line in transitions]
    return TreePairs(pairs, ids, TREES, "train.trees")


@pytest.mark.parametrize(("left", "no_parse"), [(False, "-"), (True, "x")])
def test_a_batch_has_the_trees_of_its_sentences_in_its_order(left: bool, no_parse: str) -> None:
    dataset = make_trees([*TRANSITIONS[:3], no_parse], left)
    assert dataset.parsed.tolist() == [True, True, True, False]
    batch = dataset.collater([dataset[number] for number in (3, 0, 1, 2)])
    order = batch["id"].tolist()
    assert order == [2, 0, 1, 3], "fairseq sorts by length"
    trees = [None if number == 3 else parse_transitions(TRANSITIONS[number]) for number in order]
    expected = build_forest(trees, [5 - len(SOURCES[number]) if left else 0 for number in order], 5)
    for tensor, other in zip(Forest(*batch["net_input"]["trees"]), expected, strict=True):
        assert torch.equal(torch.as_tensor(tensor), torch.as_tensor(other))


@pytest.mark.parametrize(
    ("transitions", "where"),
    [
        (TRANSITIONS[:3], "train.trees: 3 trees for 4 sources"),
        (["S S S R R", "S S R", "S", "-"], "train.trees: line 2: "),  # more leaves than words
        (["S S S R R", "S", "S R S", "-"], "train.trees: line 3: "),  # nothing to join
        ([*TRANSITIONS[:3], "S"], "train.trees: line 4: "),  # a tree of no words
    ],
)
def test_trees_that_do_not_fit_are_refused(transitions: list[str], where: str) -> None:
    with pytest.raises(InputError, match=where):
        make_trees(transitions)
