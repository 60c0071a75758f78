"""The order of the training pairs of ``tree_translation``, through fairseq's iterator, as the trainer calls it."""

from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import make_builder
from fairseq.data.iterators import EpochBatchIterator

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.tasks.tree_translation import TreeTranslationConfig, TreeTranslationTask
from tests.builders import EOS, make_dictionary

PAIRS = [(1 + 7 * k % 29, 1 + 11 * k % 31) for k in range(90)]  # words of the source and of the target
VALID = [(9, 2), (3, 12), (8, 8), (1, 1), (4, 30)]


def binarize(folder: Path, split: str, language: str, dictionary: Dictionary, lines: list[list[int]]) -> None:
    prefix = folder / f"{split}.{'tree-None' if language == 'tree' else 'en-ja'}.{language}"
    builder = make_builder(f"{prefix}.bin", impl="mmap", vocab_size=len(dictionary))
    for line in lines:
        builder.add_item(torch.tensor(line))
    builder.finalize(f"{prefix}.idx")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two shards of training pairs and, in the first, a development set; no sentence has a parse."""
    words, trees = make_dictionary(3), Dictionary()
    for symbol in ("S", "R", "-"):
        trees.add_symbol(symbol)
    folders = [tmp_path_factory.mktemp("shard") for _ in range(2)]
    for folder, train in zip(folders, (PAIRS, PAIRS[:50])):
        for language, dictionary in (("en", words), ("ja", words), ("tree", trees)):
            dictionary.save(str(folder / f"dict.{language}.txt"))
        for split, pairs in (("train", train), ("valid", VALID)):
            for side, language in enumerate(("en", "ja")):
                binarize(folder, split, language, words, [[4] * pair[side] + [EOS] for pair in pairs])
            binarize(folder, split, "tree", trees, [[trees.index("-"), EOS]] * len(pairs))
    return ":".join(map(str, folders))


def make_task(data: str, **options: Any) -> TreeTranslationTask:
    fixed = {"source_lang": "en", "target_lang": "ja", "train_subset": "train", "dataset_impl": None, "seed": 1}
    cfg = TreeTranslationConfig(data=data, required_seq_len_multiple=1, **{**fixed, **options})
    return TreeTranslationTask.setup_task(cfg)


def make_iterator(task: TreeTranslationTask, epoch: int = 1, **options: Any) -> EpochBatchIterator:
    """The iterator of an epoch of training; with two shards of data, of the shard that fairseq-train loads for it."""
    sharded = task.has_sharded_data("train")
    if sharded or "train" not in task.datasets:
        task.load_dataset("train", epoch=epoch)
    given_by_trainer = {
        "max_sentences": None if "max_tokens" in options else 8,
        "max_positions": (1024, 1024),
        "ignore_invalid_inputs": True,
        "required_batch_size_multiple": 8,
        "seed": 1,
        "epoch": epoch,
        "disable_iterator_cache": sharded,
    }
    return task.get_batch_iterator(task.dataset("train"), **{**given_by_trainer, **options})


def ids(iterator: EpochBatchIterator) -> list[list[int]]:
    """The pairs of each batch of the next epoch; fairseq sorts within a batch, so the order there says nothing."""
    return [sorted(batch["id"].tolist()) if batch else [] for batch in iterator.next_epoch_itr(shuffle=True)]


def one_shard(data: str) -> str:
    return data.partition(":")[0]


@pytest.mark.patched  # fairseq drops the last batch unless the number of sentences is a multiple of 8
@pytest.mark.parametrize("limits", [{}, {"max_tokens": 120}])
def test_each_epoch_reads_all_pairs_in_other_batches(data: str, limits: dict[str, int]) -> None:
    task = make_task(one_shard(data))
    epochs = [ids(make_iterator(task, epoch, **limits)) for epoch in (1, 2, 3)]
    for batches in epochs:
        assert sorted(chain(*batches)) == list(range(len(PAIRS)))
        if limits:
            assert all(len(batch) * (1 + max(max(PAIRS[k]) for k in batch)) <= 120 for batch in batches)
    together = [{frozenset(batch) for batch in batches} for batches in epochs]
    assert not together[0] & together[1]
    assert not together[1] & together[2]


def test_the_seed_decides_all_epochs(data: str) -> None:
    def read(seed: int, epoch: int) -> list[list[int]]:
        return ids(make_iterator(make_task(one_shard(data), seed=seed), epoch))

    assert [read(1, epoch) for epoch in (1, 2)] == [read(1, epoch) for epoch in (1, 2)]
    together = [{frozenset(batch) for batch in read(seed, epoch)} for seed, epoch in ((1, 1), (2, 1), (1, 2), (2, 2))]
    assert len(set.union(*together)) == sum(map(len, together)), "no batch in common"


def test_a_batch_mixes_lengths(data: str) -> None:
    batches = ids(make_iterator(make_task(one_shard(data))))
    full = [batch for batch in batches if len(batch) == 8]
    assert len(full) == len(PAIRS) // 8
    assert all(max(PAIRS[k][0] for k in batch) - min(PAIRS[k][0] for k in batch) > 8 for batch in full)


@pytest.mark.patched  # fairseq drops the last batch unless the number of sentences is a multiple of 8
def test_only_the_kept_pairs_are_shuffled(data: str) -> None:
    task = make_task(one_shard(data), max_words=20)
    kept = [k for k, pair in enumerate(PAIRS) if max(pair) <= 20]
    assert 0 < len(kept) < len(PAIRS)
    assert all(sorted(chain(*ids(make_iterator(task, epoch)))) == kept for epoch in (1, 2))


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("consumed", [1, 3])
def test_an_epoch_goes_on_at_the_right_batch(data: str, shards: int, consumed: int) -> None:
    folders = ":".join(data.split(":")[:shards])
    task = make_task(folders)
    whole = [ids(make_iterator(task, epoch)) for epoch in (1, 2, 3)]
    iterator = make_iterator(task, 2)
    epoch = iterator.next_epoch_itr(shuffle=True)
    for _ in range(consumed):
        next(epoch)
    resumed_task = make_task(folders)
    resumed = make_iterator(resumed_task, 2)
    resumed.load_state_dict(iterator.state_dict())
    assert ids(resumed) == whole[1][consumed:]
    assert ids(make_iterator(resumed_task, resumed.next_epoch_idx)) == whole[2]


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"max_tokens": 0}, "--max-tokens is 0; give at least 1"),
        ({"max_sentences": 0}, "--batch-size is 0; give at least 1"),
        ({"max_tokens": 5}, "should not exceed max_tokens=5: give a higher --max-tokens"),
        ({"max_tokens": 5, "max_positions": (1, 1)}, "no sentence is left .*: give a higher --max-tokens"),
    ],
)
def test_limits_that_leave_no_batch_are_refused(data: str, limits: dict[str, Any], said: str) -> None:
    task = make_task(one_shard(data))
    with pytest.raises(InputError, match=said):
        assert make_iterator(task, **{"max_sentences": None, **limits}).first_batch


def test_the_folder_of_prepared_text_is_told_from_that_of_the_data(tmp_path: Path, data: str) -> None:
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "bin").symlink_to(one_shard(data))
    for languages in ({}, {"source_lang": None, "target_lang": None}):
        with pytest.raises(InputError, match=rf"{tmp_path}/text: no such folder of data, .*; give {tmp_path}/text/bin"):
            make_task(str(tmp_path / "text"), **languages)


def test_development_sentences_stay_sorted_by_length(data: str) -> None:
    task = make_task(one_shard(data), max_words=1)
    task.load_dataset("valid")
    for epoch in (1, 2):
        iterator = task.get_batch_iterator(task.dataset("valid"), max_sentences=2, epoch=epoch)
        assert list(chain(*iterator.frozen_batches)) == sorted(range(len(VALID)), key=VALID.__getitem__)
