"""Training goes on from the newest complete checkpoint, as if it had never been stopped."""

import json
import os
import random
import re
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fairseq.data import FairseqDataset
from fairseq.optim.lr_scheduler.reduce_lr_on_plateau import ReduceLROnPlateauLRSchedule
from fairseq.tasks import FairseqTask
from fairseq.trainer import Trainer

from recipes.fault_injection.run import cut_off, flip_a_bit, is_equal
from rnnsearch_fairseq.files.integrity import find_damage
from rnnsearch_fairseq.patches import ORIGINALS
from tests.patches.recovery.training import (
    TREES,
    Trained,
    assert_same,
    copy_checkpoints,
    train,
)

pytestmark = [pytest.mark.slow, pytest.mark.train, pytest.mark.patched]


def damage(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:3000] + bytes([content[3000] ^ 1]) + content[3001:])


def part(whole: Trained, updates: int, tmp_path: Path) -> Trained:
    """The log of the first updates of a training."""
    log = tmp_path / "part.txt"
    lines = whole.printed.splitlines(keepends=True)
    end = next(place for place, line in enumerate(lines) if f'"num_updates": "{updates}"' in line)
    log.write_text("".join(lines[: end + 1]))
    return Trained(whole.folder, log, 0)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (lambda path: os.truncate(path, 3000), "is cut off, or was never a checkpoint"),
        (damage, "is damaged: its SHA-256 is not the one it was written with"),
        (Path.unlink, "is missing"),
    ],
    ids=["cut off", "flipped", "missing"],
)
def test_a_broken_last_checkpoint_is_passed_over(
    data: Path, undisturbed: Trained, tmp_path: Path, how: Any, said: str
) -> None:
    saved = copy_checkpoints(undisturbed, tmp_path, "checkpoint_1_5.pt", "checkpoint1.pt", "checkpoint_last.pt")
    how(saved / "checkpoint_last.pt")
    resumed = train(data, tmp_path)
    # checkpoint1.pt has 12 updates.
    assert f"{saved}/checkpoint_last.pt {said}; training goes on from {saved}/checkpoint1.pt, the" in resumed.printed
    assert_same(undisturbed, part(undisturbed, 12, tmp_path), resumed)


SPECIAL = {
    "a pipe": (os.mkfifo, "cannot be read (not a regular file)"),
    "/dev/zero": (lambda path: path.symlink_to("/dev/zero"), "cannot be read (not a regular file)"),
    "a link to itself": (lambda path: path.symlink_to(path), "cannot be read (Too many levels of symbolic links)"),
    "a link to nothing": (lambda path: path.symlink_to("nothing"), "is missing"),
}


@pytest.mark.parametrize("special", SPECIAL)
def test_what_is_no_file_is_passed_over(data: Path, undisturbed: Trained, tmp_path: Path, special: str) -> None:
    make, said = SPECIAL[special]
    saved = copy_checkpoints(undisturbed, tmp_path, "checkpoint1.pt")
    for name in ("checkpoint_last.pt", "checkpoint_best.pt", "checkpoint_2_20.pt"):
        make(saved / name)
    resumed = train(data, tmp_path)
    assert f"{saved}/checkpoint_last.pt {said}; " in resumed.printed
    assert f"training goes on from {saved}/checkpoint1.pt, the newest complete checkpoint" in resumed.printed
    assert_same(undisturbed, part(undisturbed, 12, tmp_path), resumed)


def test_where_there_is_no_file_training_does_not_begin_anew(data: Path, tmp_path: Path) -> None:
    (tmp_path / "saved").mkdir()
    os.mkfifo(tmp_path / "saved/checkpoint_last.pt")
    sentence = train(data, tmp_path).sentence()
    assert "checkpoint_last.pt cannot be read (not a regular file), and no other checkpoint in" in sentence
    sentence = train(data, tmp_path, "--restore-file", str(tmp_path / "saved/checkpoint_last.pt")).sentence()
    assert "checkpoint_last.pt cannot be read (not a regular file)" in sentence


def test_a_newer_one_that_is_broken_too_is_named(data: Path, undisturbed: Trained, tmp_path: Path) -> None:
    saved = copy_checkpoints(undisturbed, tmp_path, "checkpoint_1_10.pt", "checkpoint_2_20.pt", "checkpoint_last.pt")
    for name in ("checkpoint_2_20.pt", "checkpoint_last.pt"):
        damage(saved / name)
    resumed = train(data, tmp_path)
    wrong = "is damaged: its SHA-256 is not the one it was written with"
    assert (
        f"checkpoint_last.pt {wrong}; checkpoint_2_20.pt {wrong}; training goes on from {saved}/checkpoint_1_10.pt"
        in (resumed.printed)
    )
    assert_same(undisturbed, part(undisturbed, 10, tmp_path), resumed)


def test_where_none_is_complete_training_does_not_begin_anew(data: Path, undisturbed: Trained, tmp_path: Path) -> None:
    saved = copy_checkpoints(undisturbed, tmp_path, "checkpoint_1_5.pt", "checkpoint_last.pt")
    for path in saved.iterdir():
        os.truncate(path, 3000)
    before = {path.name: path.read_bytes() for path in saved.iterdir()}
    sentence = train(data, tmp_path).sentence()
    assert f"{saved}/checkpoint_last.pt is cut off, or was never a checkpoint, and no other checkpoint in" in sentence
    assert {path.name: path.read_bytes() for path in saved.glob("*.pt")} == before
    (saved / "checkpoint_last.pt").unlink()
    assert "checkpoint_last.pt is missing, and no other checkpoint in" in train(data, tmp_path).sentence()


@pytest.mark.parametrize("option", ["--restore-file", "--finetune-from-model"])
def test_a_checkpoint_that_was_asked_for_is_not_replaced(
    data: Path, undisturbed: Trained, tmp_path: Path, option: str
) -> None:
    saved = copy_checkpoints(undisturbed, tmp_path, "checkpoint_1_5.pt", "checkpoint_1_10.pt")
    asked = tmp_path / "other.pt"
    if option == "--finetune-from-model":  # only looked at where there is nothing to go on from
        saved.rename(tmp_path / "elsewhere")
    for said in ("is missing", "is cut off, or was never a checkpoint"):
        sentence = train(data, tmp_path, option, str(asked)).sentence()
        assert f"error: {option} {asked} {said}; name another: " in sentence
        if option == "--restore-file":
            assert sentence.endswith(f"the last complete checkpoint is {saved}/checkpoint_1_10.pt")
        asked.write_bytes(b"nothing")


def test_a_complete_checkpoint_that_was_asked_for_is_used(data: Path, undisturbed: Trained, tmp_path: Path) -> None:
    copy_checkpoints(undisturbed, tmp_path, "checkpoint_1_5.pt", "checkpoint_last.pt")
    asked = str(undisturbed.folder / "checkpoint_1_10.pt")
    assert_same(undisturbed, part(undisturbed, 10, tmp_path), train(data, tmp_path, "--restore-file", asked))


class Numbers(FairseqDataset):
    """Twenty sentences of one length, in any order."""

    can_reuse_epoch_itr_across_epochs = True
    epoch = 0

    def __len__(self) -> int:
        return 20

    def num_tokens(self, index: int) -> int:
        return 1

    def ordered_indices(self) -> np.ndarray:
        return np.random.permutation(20)

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def collater(self, samples: list[Any]) -> list[Any]:
        return samples


def test_batches_are_those_of_the_first_epoch() -> None:
    task, numbers = FairseqTask(Namespace()), Numbers()
    whole = task.get_batch_iterator(numbers, max_sentences=8, epoch=1)
    assert task.get_batch_iterator(numbers, max_sentences=8, epoch=3) is whole
    resumed_task, again = FairseqTask(Namespace()), Numbers()
    resumed = resumed_task.get_batch_iterator(again, max_sentences=8, epoch=3)
    assert is_equal(list(map(list, resumed.frozen_batches)), list(map(list, whole.frozen_batches)))
    assert (resumed.next_epoch_idx, again.epoch) == (3, 3)
    # Data that are cut anew in every epoch still are.
    renewed = FairseqTask(Namespace()).get_batch_iterator(
        Numbers(), max_sentences=8, epoch=3, disable_iterator_cache=True
    )
    assert not is_equal(list(map(list, renewed.frozen_batches)), list(map(list, whole.frozen_batches)))


def test_checkpoints_with_a_suffix(data: Path, tmp_path: Path) -> None:
    begun = train(data, tmp_path, "--checkpoint-suffix", "_x", "--max-update", "10")
    damage(begun.folder / "checkpoint_last_x.pt")
    resumed = train(data, tmp_path, "--checkpoint-suffix", "_x", "--max-update", "11")
    assert re.search(r"Loaded checkpoint \S+/checkpoint_(1_10|best)_x\.pt \(epoch 1 @ 10 updates\)", resumed.printed)


@pytest.mark.parametrize("name", ["checkpoint_2_10.pt", "checkpoint2.pt"])
def test_tree_models_go_on_from_within_and_after_an_epoch(
    data: Path, undisturbed_trees: Trained, tmp_path: Path, name: str
) -> None:
    """At the end of the epoch, the learning rate falls: fairseq's checkpoint of it does not know that."""
    rates = {record["num_updates"]: record["lr"] for record in undisturbed_trees.updates()}
    assert (rates["12"], rates["13"]) == ("1", "0.5")
    saved = copy_checkpoints(undisturbed_trees, tmp_path, name)
    resumed = train(data, tmp_path, words=TREES)
    assert f"checkpoint_last.pt is missing; training goes on from {saved}/{name}" in resumed.printed
    first = 10 if name == "checkpoint_2_10.pt" else 12
    assert_same(undisturbed_trees, part(undisturbed_trees, first, tmp_path), resumed)


def test_a_plateau_counts_on(tmp_path: Path) -> None:
    class Optimizer:
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)

    def schedule() -> Any:
        made = object.__new__(ReduceLROnPlateauLRSchedule)
        made.optimizer = Optimizer()
        made.lr_scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(Optimizer.optimizer, patience=5)
        return made

    first, second = schedule(), schedule()
    for loss in (1.0, 2.0, 2.0):
        first.lr_scheduler.step(loss)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert second.lr_scheduler.num_bad_epochs == 2
    second.load_state_dict({"best": 1.0, "last_epoch": 3})  # what fairseq alone has saved
    assert second.lr_scheduler.num_bad_epochs == 2


def test_the_log_goes_on_within_its_interval(data: Path, undisturbed: Trained, tmp_path: Path) -> None:
    """A line for each nine updates, of which the second is of both epochs."""
    whole = train(data, tmp_path, "--log-interval", "9")
    (tmp_path / "again").mkdir()
    copy_checkpoints(whole, tmp_path / "again", "checkpoint1.pt")
    resumed = train(data, tmp_path / "again", "--log-interval", "9")
    assert [record["num_updates"] for record in whole.updates()] == ["9", "18"]
    assert resumed.updates() == whole.updates()[1:]


@pytest.mark.parametrize("more", [["--max-update", "7"], ["--lr", "0", "--patience", "2", "--max-epoch", "9"]])
def test_a_training_that_has_ended_does_nothing_more(data: Path, tmp_path: Path, more: list[str]) -> None:
    first = train(data, tmp_path, *more)
    before = {path.name: path.read_bytes() for path in first.folder.iterdir()}
    again = train(data, tmp_path, *more)
    assert (again.status, again.updates()) == (0, [])
    assert "nothing to do: " in again.printed
    assert {path.name: path.read_bytes() for path in again.folder.iterdir()} == before


def forget() -> None:
    """For ``prepare``: load a checkpoint as fairseq alone does."""
    Trainer.load_checkpoint = ORIGINALS[Trainer, "load_checkpoint"]


@pytest.mark.parametrize(
    ("first", "again", "prepare", "last"),
    [
        (["--patience", "3"], [], forget, 6),  # the trap: epoch 3 counts as the best
        (["--patience", "3"], [], None, 4),
        ([], [], None, 5),  # nothing was counted, but epoch 1 remains the best
        (["--patience", "3"], ["--reset-meters", "--reset-dataloader"], None, 4),  # begins anew
    ],
)
def test_patience_counts_on(
    data: Path, tmp_path: Path, first: list[str], again: list[str], prepare: Any, last: int
) -> None:
    # Nothing is learnt, so that no epoch is better than the first.
    still = ["--lr", "0", "--save-interval-updates", "1000"]
    train(data, tmp_path, *still, *first, "--max-epoch", "2")
    resumed = train(data, tmp_path, *still, "--patience", "3", "--max-epoch", "9", *again, prepare=prepare)
    epochs = re.findall(r"\| valid \| \{\"epoch\": (\d+)", resumed.printed)
    assert epochs[-1] == str(last), resumed.printed[-3000:]


def test_damage_of_every_kind_is_seen(undisturbed: Trained, tmp_path: Path) -> None:
    """What the fault run does to checkpoints."""
    for seed in range(20):
        for how in (cut_off, flip_a_bit):
            (tmp_path / "x.pt").write_bytes(undisturbed.last.read_bytes())
            how(tmp_path / "x.pt", random.Random(seed))
            assert find_damage(tmp_path / "x.pt") is not None
