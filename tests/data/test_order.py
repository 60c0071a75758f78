"""The order of the training pairs: limits, pools, shuffling, and every pair in a batch."""

from itertools import chain

import numpy as np
import pytest
import torch
from fairseq.data import LanguagePairDataset, ListDataset
from hypothesis import given, settings
from hypothesis import strategies as st

from rnnsearch_fairseq.data.order import LimitedPairs, PooledPairs, within_limit
from rnnsearch_fairseq.errors import InputError
from tests.builders import EOS, make_dictionary

Lengths = list[tuple[int, int]]  # words of the source and of the target, end-of-sentence not counted

LENGTHS: Lengths = [(1 + 7 * k % 29, 1 + 11 * k % 31) for k in range(53)]

some_lengths = st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=60)
seeds = st.integers(0, 2**32 - 1)
counts = st.integers(1, 7)


def make_pairs(lengths: Lengths = LENGTHS) -> LanguagePairDataset:
    dictionary, sizes = make_dictionary(3), np.array(lengths) + 1
    sides = [[torch.tensor([4] * pair[side] + [EOS]) for pair in lengths] for side in (0, 1)]
    source, target = (ListDataset(side, sizes[:, number]) for number, side in enumerate(sides))
    return LanguagePairDataset(source, sizes[:, 0], dictionary, target, sizes[:, 1], dictionary)


def pooled(lengths: Lengths, max_words: int | None = None, pool_batches: int = 3, seed: int = 1) -> PooledPairs:
    pairs = make_pairs(lengths)
    return PooledPairs(pairs, within_limit(pairs, max_words), pool_batches, seed)


def batches_of(pairs: PooledPairs, size: int) -> list[list[int]]:
    return [batch.tolist() for batch in pairs.batch_by_size(pairs.ordered_indices(), max_sentences=size)]


@settings(deadline=None, max_examples=60)
@given(lengths=some_lengths, max_words=st.none() | st.integers(1, 12), pool_batches=counts, size=counts, seed=seeds)
def test_every_pair_within_the_limit_is_read_exactly_once(
    lengths: Lengths, max_words: int | None, pool_batches: int, size: int, seed: int
) -> None:
    expected = [k for k, pair in enumerate(lengths) if max_words is None or max(pair) <= max_words]
    if not expected:
        with pytest.raises(InputError, match="--max-words"):
            pooled(lengths, max_words, pool_batches, seed)
        return
    batches = batches_of(pooled(lengths, max_words, pool_batches, seed), size)
    assert sorted(chain(*batches)) == expected
    assert [len(batch) for batch in batches[:-1]] == [size] * (len(batches) - 1)
    assert 1 <= len(batches[-1]) <= size


@settings(deadline=None, max_examples=60)
@given(lengths=some_lengths, pool_batches=counts, size=counts, seed=seeds)
def test_a_pool_is_the_next_slice_of_the_shuffle_sorted_by_the_longer_side(
    lengths: Lengths, pool_batches: int, size: int, seed: int
) -> None:
    pairs = pooled(lengths, None, pool_batches, seed)
    shuffled = pairs.ordered_indices().tolist()
    batches = batches_of(pairs, size)
    for start in range(0, len(batches), pool_batches):
        pool = list(chain(*batches[start : start + pool_batches]))
        read = shuffled[start * size : (start + pool_batches) * size]
        assert pool == sorted(read, key=lambda k: max(lengths[k]))  # Python's sort is stable, as ours must be


@settings(deadline=None, max_examples=30)
@given(seed=seeds, other=seeds)
def test_order_is_that_of_the_seed(seed: int, other: int) -> None:
    order = pooled(LENGTHS, seed=seed).ordered_indices()
    np.random.seed(other % 1000)  # nothing but the given seed may matter
    assert np.array_equal(order, pooled(LENGTHS, seed=seed).ordered_indices())
    if seed != other:
        assert not np.array_equal(order, pooled(LENGTHS, seed=other).ordered_indices())


def test_a_limit_of_thirty_words_keeps_thirty_and_drops_thirty_one() -> None:
    pairs = make_pairs([(30, 30), (31, 30), (30, 31), (1, 30), (1, 31)])
    assert within_limit(pairs, 30).tolist() == [True, False, False, True, False]


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


@pytest.mark.parametrize("limits", [{"max_tokens": 100}, {}])
def test_pools_counted_in_tokens_are_refused(limits: dict[str, int]) -> None:
    pairs = pooled(LENGTHS)
    with pytest.raises(InputError, match="--max-tokens"):
        pairs.batch_by_size(pairs.ordered_indices(), **limits)


def test_empty_pools_are_refused() -> None:
    with pytest.raises(InputError, match="--pool-batches"):
        pooled(LENGTHS, pool_batches=0)
