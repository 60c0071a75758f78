"""The task ``rnnsearch``, through fairseq's iterator, as the trainer calls it."""

import gc
import logging
import multiprocessing
import threading
from argparse import Namespace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.data import Dictionary, LanguagePairDataset
from fairseq.data.indexed_dataset import make_builder
from fairseq.data.iterators import BackgroundConsumer, EpochBatchIterator
from fairseq.dataclass.configs import CheckpointConfig
from fairseq_cli.train import should_stop_early

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.plugin.tasks import RNNsearchTask, RNNsearchTaskConfig
from tests.builders import EOS, make_dictionary
from tests.plugin.test_data import TREES

PAIRS = [(1 + 7 * k % 29, 1 + 11 * k % 31) for k in range(91)]  # words of the source and of the target
VALID = [(60, 2), (3, 70), (80, 80), (1, 1), (4, 30)]
WAYS: dict[str, dict[str, Any]] = {"fairseq's": {}, "pools": {"pool_batches": 2}, "trees": {"tree_lang": "tree"}}


def binarize(folder: Path, split: str, language: str, dictionary: Dictionary, lines: list[list[int]]) -> None:
    prefix = folder / f"{split}.{'tree-None' if language == 'tree' else 'en-ja'}.{language}"
    builder = make_builder(f"{prefix}.bin", impl="mmap", vocab_size=len(dictionary))
    for line in lines:
        builder.add_item(torch.tensor(line))
    builder.finalize(f"{prefix}.idx")


def make_data(folders: list[Path]) -> str:
    """Shards of training pairs and a development set; every third sentence has a tree, of one leaf."""
    words = make_dictionary(3)
    for folder, train in zip(folders, (PAIRS, PAIRS[:50])):
        for language, dictionary in (("en", words), ("ja", words), ("tree", TREES)):
            dictionary.save(str(folder / f"dict.{language}.txt"))
        for split, pairs in (("train", train), ("valid", VALID)):
            for side, language in enumerate(("en", "ja")):
                binarize(folder, split, language, words, [[4] * pair[side] + [EOS] for pair in pairs])
            lines = [[TREES.index("-" if k % 3 else "S"), EOS] for k in range(len(pairs))]
            binarize(folder, split, "tree", TREES, lines)
    return ":".join(map(str, folders))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_data([tmp_path_factory.mktemp("shard") for _ in range(2)])


def make_task(data: str, shards: int = 1, **options: Any) -> RNNsearchTask:
    fixed = {"source_lang": "en", "target_lang": "ja", "train_subset": "train", "dataset_impl": None, "seed": 1}
    fixed |= {"data": ":".join(data.split(":")[:shards]), "required_seq_len_multiple": 1, "update_freq": [1]}
    return RNNsearchTask.setup_task(RNNsearchTaskConfig(**(fixed | options)))


def make_iterator(task: RNNsearchTask, epoch: int = 1, **options: Any) -> EpochBatchIterator:
    """The iterator of an epoch of training; with two shards of data, of the shard that fairseq-train loads for it."""
    sharded = task.has_sharded_data("train")
    if sharded or "train" not in task.datasets:
        task.load_dataset("train", epoch=epoch)
    given_by_trainer = {
        "max_sentences": 8,
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


@pytest.mark.parametrize("way", WAYS)
def test_each_epoch_reads_all_pairs_within_the_limits(data: str, way: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    for limits in ({}, {"max_words": 20}, {"tree_lang": "tree", "require_parse": True}):
        task = make_task(data, **{**WAYS[way], **limits})
        kept = [k for k, pair in enumerate(PAIRS) if max(pair) <= limits.get("max_words", 99)]
        kept = [k for k in kept if not (k % 3 and "require_parse" in limits)]
        for epoch in (1, 2):
            assert sorted(chain(*ids(make_iterator(task, epoch)))) == kept
        assert f"kept {len(kept)} of 91 pairs, dropped {91 - len(kept)}" in caplog.text


@pytest.mark.parametrize("way", WAYS)
def test_only_pools_are_the_same_in_all_epochs(data: str, way: str) -> None:
    task = make_task(data, **WAYS[way])
    first, second = (ids(make_iterator(task, epoch)) for epoch in (1, 2))
    assert (first == second) == (way == "pools")
    assert first == ids(make_iterator(make_task(data, **WAYS[way])))
    # With trees, other pairs are together, too.
    together = [{frozenset(batch) for batch in epoch} for epoch in (first, second)]
    assert bool(together[0] & together[1]) == (way != "trees")
    if way != "fairseq's":
        assert first != ids(make_iterator(make_task(data, seed=2, **WAYS[way])))


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("way", WAYS)
def test_an_epoch_goes_on_at_the_right_batch(data: str, way: str, shards: int) -> None:
    task = make_task(data, shards, **WAYS[way])
    whole = [ids(make_iterator(task, epoch)) for epoch in (1, 2, 3)]
    iterator = make_iterator(make_task(data, shards, **WAYS[way]), 2)
    epoch = iterator.next_epoch_itr(shuffle=True)
    for _ in range(3):
        next(epoch)
    resumed_task = make_task(data, shards, **WAYS[way])
    resumed = make_iterator(resumed_task, 2)
    resumed.load_state_dict(iterator.state_dict())
    assert ids(resumed) == whole[1][3:]
    assert ids(make_iterator(resumed_task, resumed.next_epoch_idx)) == whole[2]


@pytest.mark.parametrize("way", ["fairseq's", "pools"])
def test_the_workers_of_an_epoch_end_with_it(data: str, way: str) -> None:
    earlier = {*multiprocessing.active_children()}
    gc.disable()  # it would end them at some time
    task = make_task(data, **WAYS[way])
    for epoch in (1, 2):
        assert ids(make_iterator(task, epoch, num_workers=1, data_buffer_size=10))
        for thread in threading.enumerate():
            if isinstance(thread, BackgroundConsumer):
                thread.join()
    gc.enable()
    assert {*multiprocessing.active_children()} == earlier


@pytest.mark.parametrize(("cpu", "rounded"), [(False, True), (True, False)])
def test_lengths_are_rounded_up_on_a_gpu(data: str, cpu: bool, rounded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    task = make_task(data, cpu=cpu, tree_lang="tree")
    batches = list(make_iterator(task).next_epoch_itr())
    columns = {words.size(1) for batch in batches for words in (batch["target"], batch["net_input"]["src_tokens"])}
    assert (columns <= {8, 16, 24, 32}) == rounded


def test_limits_and_order_are_of_training_pairs_only(data: str) -> None:
    task = make_task(data, max_words=20, pool_batches=2)
    task.load_dataset("valid")
    assert type(task.dataset("valid")) is LanguagePairDataset
    iterator = task.get_batch_iterator(task.dataset("valid"), max_sentences=4, required_batch_size_multiple=8)
    assert [len(batch) for batch in iterator.frozen_batches] == [4, 1]
    assert list(chain(*iterator.frozen_batches)) == sorted(range(len(VALID)), key=VALID.__getitem__)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_pool_has_the_batches_of_all_processes_and_steps(data: str, processes: int) -> None:
    """In epochs of one and of two steps an update."""
    task = make_task(data, update_freq=[1, 2], pool_batches=2)
    for epoch in (1, 2):
        shards = [ids(make_iterator(task, epoch, num_shards=processes, shard_id=i)) for i in range(processes)]
        updates = [sorted(chain(*batches)) for batches in zip(*shards, strict=True)]
        (other := make_task(data, pool_batches=2 * epoch)).load_dataset("train")
        pairs, size = other.dataset("train"), 8 * processes
        expected = pairs.batch_by_size(pairs.ordered_indices(), max_sentences=size)
        assert updates == [sorted(batch) for batch in expected] and len(expected) > 2 * epoch, "more than one pool"


@pytest.mark.parametrize(
    ("missing", "named"),
    [
        ("dict.*", "no dictionaries are there"),
        ("train.en-ja.*", "train"),
        ("train.en-ja.ja.*", "train"),  # the sides differ in size
        ("train.tree*", "train.tree-None.* --only-source"),
        ("dict.tree.txt", "dict.tree.txt.* --only-source"),
    ],
)
def test_missing_data_is_named(tmp_path: Path, missing: str, named: str) -> None:
    make_data([tmp_path])
    for path in [*tmp_path.glob(missing)]:
        if ".ja." in missing:
            path.write_bytes(path.with_name(path.name.replace("train", "valid")).read_bytes())
        else:
            path.unlink()
    with pytest.raises((InputError, FileNotFoundError), match=named):
        make_task(str(tmp_path), tree_lang="tree").load_dataset("train")


def test_a_checkpoint_has_the_count_of_patience_and_is_of_the_same_pairs(data: str) -> None:
    task, other = make_task(data), make_task(data, max_words=20)
    task.load_dataset("train")
    other.load_dataset("train")
    checkpoint = CheckpointConfig(patience=2)
    should_stop_early(Namespace(checkpoint=checkpoint), 5.0)
    assert not should_stop_early(Namespace(checkpoint=checkpoint), 6.0)
    (state,) = task.get_checkpoint_dict().values()
    vars(should_stop_early).clear()  # as in a new process
    task.set_checkpoint_dict(state)
    assert should_stop_early(Namespace(checkpoint=checkpoint), 5.5), "the second loss in a row that is no better"
    with pytest.raises(InputError, match="--max-words"):
        other.set_checkpoint_dict(state)


@pytest.mark.parametrize(
    ("options", "named"),
    [({"require_parse": True}, "--tree-lang"), ({**WAYS["trees"], "truncate_source": True}, "trees")],
)
def test_options_that_do_not_fit_trees_are_refused(data: str, options: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=named):
        make_task(data, **options).load_dataset("train")


def test_the_suffix_of_the_trees_is_no_language(data: str) -> None:
    task = make_task(data, source_lang=None, target_lang=None, tree_lang="tree")
    assert (task.cfg.source_lang, task.cfg.target_lang) == ("en", "ja")
