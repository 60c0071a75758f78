"""Pooled batches: what is kept, in which order, and through fairseq's task and iterator."""

import logging
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fairseq.data import LanguagePairDataset, ListDataset
from fairseq.data.indexed_dataset import make_builder
from fairseq.data.iterators import EpochBatchIterator, GroupedIterator
from hypothesis import given, settings
from hypothesis import strategies as st

from rnnsearch_fairseq.data.pooled import PooledPairs
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.tasks.pooled_translation import PooledTranslationConfig, PooledTranslationTask
from tests.builders import EOS, make_dictionary

Lengths = list[tuple[int, int]]  # words of the source and of the target, end-of-sentence not counted

LENGTHS: Lengths = [(1 + 7 * k % 29, 1 + 11 * k % 31) for k in range(53)]

some_lengths = st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=60)
seeds = st.integers(0, 2**32 - 1)
counts = st.integers(1, 7)


def sentence(words: int) -> torch.Tensor:
    return torch.tensor([4] * words + [EOS])


def make_pairs(lengths: Lengths) -> LanguagePairDataset:
    dictionary = make_dictionary(3)
    source, target = ([sentence(pair[side]) for pair in lengths] for side in (0, 1))
    sizes = np.array(lengths) + 1
    return LanguagePairDataset(
        ListDataset(source, sizes[:, 0]),
        sizes[:, 0],
        dictionary,
        ListDataset(target, sizes[:, 1]),
        sizes[:, 1],
        dictionary,
    )


def pooled(
    lengths: Lengths = LENGTHS, max_words: int | None = None, pool_batches: int = 3, seed: int = 1
) -> PooledPairs:
    return PooledPairs(make_pairs(lengths), max_words, pool_batches, seed)


def batches_of(pairs: PooledPairs, size: int) -> list[list[int]]:
    return [batch.tolist() for batch in pairs.batch_by_size(pairs.ordered_indices(), max_sentences=size)]


# -- properties --


@settings(deadline=None, max_examples=60)
@given(lengths=some_lengths, max_words=st.none() | st.integers(1, 12), pool_batches=counts, size=counts, seed=seeds)
def test_every_pair_within_the_limit_is_read_exactly_once(
    lengths: Lengths, max_words: int | None, pool_batches: int, size: int, seed: int
) -> None:
    expected = [k for k, pair in enumerate(lengths) if max_words is None or max(pair) <= max_words]
    if not expected:
        with pytest.raises(InputError, match=f"none of {len(lengths)} training pairs is left; see --max-words"):
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
        assert Counter(pool) == Counter(read)


@settings(deadline=None, max_examples=30)
@given(seed=seeds, other=seeds)
def test_order_is_that_of_the_seed(seed: int, other: int) -> None:
    order = pooled(seed=seed).ordered_indices()
    np.random.seed(other % 1000)  # nothing but the given seed may matter
    assert np.array_equal(order, pooled(seed=seed).ordered_indices())
    if seed != other:
        assert not np.array_equal(order, pooled(seed=other).ordered_indices())


@pytest.mark.parametrize(
    ("pair", "kept"),
    [((30, 30), True), ((31, 30), False), ((30, 31), False), ((31, 31), False), ((1, 30), True), ((1, 31), False)],
)
def test_limit_of_thirty_words_keeps_thirty_and_drops_thirty_one(pair: tuple[int, int], kept: bool) -> None:
    order = pooled([(2, 2), pair], max_words=30).ordered_indices().tolist()
    assert sorted(order) == ([0, 1] if kept else [0])


# -- errors --


def test_empty_pools_are_refused() -> None:
    with pytest.raises(InputError, match="--pool-batches is 0"):
        pooled(pool_batches=0)


@pytest.mark.parametrize("limits", [{"max_tokens": 100}, {"max_tokens": 100, "max_sentences": 5}, {}])
def test_batches_counted_in_tokens_are_refused(limits: dict[str, int]) -> None:
    pairs = pooled()
    with pytest.raises(InputError, match=r"--batch-size .*not --max-tokens"):
        pairs.batch_by_size(pairs.ordered_indices(), **limits)


# -- through fairseq's task --


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A binarized corpus: LENGTHS for training, and a development set with long sentences."""
    for side, language in enumerate(("en", "fr")):
        dictionary = make_dictionary(3)
        dictionary.save(str(tmp_path / f"dict.{language}.txt"))
        for split, lengths in (("train", LENGTHS), ("valid", [(60, 2), (3, 70), (80, 80), (1, 1)])):
            prefix = tmp_path / f"{split}.en-fr.{language}"
            builder = make_builder(f"{prefix}.bin", impl="mmap", vocab_size=len(dictionary))
            for pair in lengths:
                builder.add_item(sentence(pair[side]))
            builder.finalize(f"{prefix}.idx")
    return tmp_path


def make_task(data: Path, **options: Any) -> PooledTranslationTask:
    settings_of_fairseq = {
        "source_lang": "en",
        "target_lang": "fr",
        "train_subset": "train",
        "dataset_impl": None,
        "required_seq_len_multiple": 1,
        "seed": 1,
        "update_freq": [1],
    }
    cfg = PooledTranslationConfig(data=str(data), **{**settings_of_fairseq, **options})
    task = PooledTranslationTask.setup_task(cfg)
    task.load_dataset("train")
    return task


def make_iterator(task: PooledTranslationTask, epoch: int = 1, **options: Any) -> EpochBatchIterator:
    # As fairseq's trainer calls it, its defaults included.
    given_by_trainer = {
        "max_positions": (1024, 1024),
        "ignore_invalid_inputs": True,
        "required_batch_size_multiple": 8,
        "seed": 1,
        "num_workers": 0,
    }
    return task.get_batch_iterator(
        task.dataset("train"), max_sentences=4, epoch=epoch, **{**given_by_trainer, **options}
    )


def ids(iterator: EpochBatchIterator) -> list[list[int]]:
    """The pairs of every batch of the next epoch; fairseq sorts within a batch, so the order there says nothing."""
    return [sorted(batch["id"].tolist()) if batch else [] for batch in iterator.next_epoch_itr(shuffle=True)]


def expected_ids(task: PooledTranslationTask) -> list[list[int]]:
    pairs = task.dataset("train")
    assert isinstance(pairs, PooledPairs)
    return [sorted(batch) for batch in batches_of(pairs, 4)]


def test_batches_keep_their_order_in_every_epoch(data: Path) -> None:
    task = make_task(data, pool_batches=3)
    iterator = make_iterator(task)
    expected = expected_ids(task)
    assert len(expected) == 14
    for _ in range(3):
        assert ids(iterator) == expected
    assert ids(make_iterator(make_task(data, pool_batches=3), epoch=5, seed=99)) == expected


@pytest.mark.parametrize("consumed", [1, 5, 13])
def test_resumed_epoch_goes_on_at_the_right_batch(data: Path, consumed: int) -> None:
    iterator = make_iterator(make_task(data))
    ids(iterator)  # the first epoch
    epoch = iterator.next_epoch_itr(shuffle=True)
    for _ in range(consumed):
        next(epoch)
    state = iterator.state_dict()
    task = make_task(data)
    resumed = make_iterator(task, epoch=state["epoch"])
    resumed.load_state_dict(state)
    expected = expected_ids(task)
    assert resumed.epoch == 2
    assert ids(resumed) == expected[consumed:]
    assert ids(resumed) == expected, "the epoch after it is whole again"
    assert resumed.epoch == 3


def updates_of(data: Path, processes: int, freq: list[int], epochs: int = 1, **options: Any) -> list[list[list[int]]]:
    """The pairs of every update, by epoch, as fairseq's training groups the batches of several processes."""
    found: list[list[list[int]]] = [[] for _ in range(epochs)]
    tasks = [make_task(data, update_freq=freq, **options) for _ in range(processes)]
    for epoch, updates in enumerate(found, start=1):
        steps = freq[min(epoch, len(freq)) - 1]
        groups = [
            list(GroupedIterator(make_iterator(task, epoch, num_shards=processes, shard_id=i).next_epoch_itr(), steps))
            for i, task in enumerate(tasks)
        ]
        for parts in zip(*groups, strict=True):
            updates.append(sorted(k for part in parts for batch in part if batch for k in batch["id"].tolist()))
    return found


@pytest.mark.parametrize("max_words", [None, 27])
@pytest.mark.parametrize(("processes", "steps"), [(2, 1), (1, 2), (3, 1), (2, 2)])
def test_the_updates_of_several_processes_and_steps_are_those_of_one_large_batch(
    data: Path, processes: int, steps: int, max_words: int | None
) -> None:
    options = {"max_words": max_words, "pool_batches": 2}
    pairs = make_task(data, **options).dataset("train")
    assert isinstance(pairs, PooledPairs)
    expected = [sorted(batch) for batch in batches_of(pairs, 4 * processes * steps)]
    assert len(expected) > 2, "more than one pool"
    assert updates_of(data, processes, [steps], **options) == [expected]


def test_pools_follow_an_update_freq_that_depends_on_the_epoch(data: Path) -> None:
    pairs = make_task(data, pool_batches=2).dataset("train")
    assert isinstance(pairs, PooledPairs)
    expected = [[sorted(batch) for batch in batches_of(pairs, 8 * steps)] for steps in (1, 2, 3, 3)]
    assert updates_of(data, 2, [1, 2, 3], epochs=4, pool_batches=2) == expected


def test_the_effective_batch_is_logged_once_for_each_update_freq(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    task = make_task(data, update_freq=[1, 3])
    with caplog.at_level(logging.INFO):
        for epoch in (1, 2):
            make_iterator(task, epoch, num_shards=2)
    assert [record.message for record in caplog.records if "in an update" in record.message] == [
        f"sentences in an update: {n} (--batch-size 4 x 2 processes x --update-freq {n // 8})" for n in (8, 24)
    ]


def test_length_limit_is_for_training_only(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        task = make_task(data, max_words=20)
    kept = sum(max(pair) <= 20 for pair in LENGTHS)
    assert 0 < kept < 53
    assert f"train: at most 20 words a side: kept {kept} of 53 pairs, dropped {53 - kept}" in caplog.text
    assert sorted(chain(*ids(make_iterator(task)))) == [k for k, pair in enumerate(LENGTHS) if max(pair) <= 20]
    task.load_dataset("valid")
    valid = task.dataset("valid")
    assert type(valid) is LanguagePairDataset
    iterator = task.get_batch_iterator(valid, max_tokens=4096)
    assert sorted(chain(*ids(iterator))) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("*", r"no dict\.en\.txt in it; give the --destdir of a finished fairseq-preprocess"),
        ("train*", r"no train data for en-fr; .* --train-subset"),
    ],
)
def test_missing_data_is_named(data: Path, missing: str, said: str) -> None:
    for path in data.glob(missing):
        path.unlink()
    with pytest.raises(InputError, match=said):
        make_task(data)


def test_no_data_and_sides_of_different_size_are_named(data: Path) -> None:
    with pytest.raises(InputError, match=r"no data is named; .* under Hydra as task\.data=FOLDER"):
        PooledTranslationTask.setup_task(PooledTranslationConfig(source_lang="en", target_lang="fr"))
    for suffix in ("bin", "idx"):
        (data / f"train.en-fr.fr.{suffix}").write_bytes((data / f"valid.en-fr.fr.{suffix}").read_bytes())
    with pytest.raises(
        InputError, match=r"the sides of the train data for en-fr do not fit each other \(.*same number"
    ):
        make_task(data)
