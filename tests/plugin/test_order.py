"""The order of the training pairs: limits, pools, shuffling, and every pair in a batch."""

from itertools import chain

import numpy as np
import pytest
import torch
from fairseq.data import LanguagePairDataset, ListDataset
from hypothesis import given, settings
from hypothesis import strategies as st

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.plugin.data import LimitedPairs, PooledPairs, longer_side
from tests.builders import EOS, make_dictionary

Lengths = list[tuple[int, int]]  # words of the source and of the target, end-of-sentence not counted

some_lengths = st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=60)
seeds = st.integers(0, 2**32 - 1)
counts = st.integers(1, 7)


def make_pairs(lengths: Lengths) -> LanguagePairDataset:
    dictionary, sizes = make_dictionary(3), np.array(lengths) + 1
    sides = [[torch.tensor([4] * pair[side] + [EOS]) for pair in lengths] for side in (0, 1)]
    source, target = (ListDataset(side, sizes[:, number]) for number, side in enumerate(sides))
    return LanguagePairDataset(source, sizes[:, 0], dictionary, target, sizes[:, 1], dictionary)


def make_pools(lengths: Lengths, max_words: int, pool_batches: int, seed: int) -> PooledPairs:
    pairs = make_pairs(lengths)
    return PooledPairs(pairs, longer_side(pairs) <= max_words, pool_batches, seed)


@settings(deadline=None, max_examples=100)
@given(lengths=some_lengths, max_words=st.integers(1, 13), pool_batches=counts, size=counts, seed=seeds)
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
