"""Training goes on from the newest complete checkpoint, as if it had never been stopped."""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.patches.recovery.training import TREES, Trained, assert_same, copy_checkpoints, train

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


NO_ARCHIVE = "is cut off, damaged, or was never a checkpoint (File is not a zip file)"
BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "cut off": (lambda path: os.truncate(path, 3000), NO_ARCHIVE),
    "flipped": (damage, "is cut off, damaged, or was never a checkpoint (it is damaged)"),
    "missing": (Path.unlink, "is missing, or no file"),
    "a pipe": (lambda path: (path.unlink(), os.mkfifo(path)), "is missing, or no file"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_last_checkpoint_is_passed_over(data: Path, undisturbed: Trained, tmp_path: Path, how: str) -> None:
    saved = copy_checkpoints(undisturbed, tmp_path, "checkpoint_1_5.pt", "checkpoint1.pt", "checkpoint_last.pt")
    break_it, said = BROKEN[how]
    break_it(saved / "checkpoint_last.pt")
    resumed = train(data, tmp_path)
    # checkpoint1.pt has 12 updates.
    assert f"{saved}/checkpoint_last.pt {said}; training goes on from {saved}/checkpoint1.pt, the" in resumed.printed
    assert_same(undisturbed, part(undisturbed, 12, tmp_path), resumed)


def test_where_none_is_complete_training_does_not_begin_anew(data: Path, undisturbed: Trained, tmp_path: Path) -> None:
    saved = copy_checkpoints(undisturbed, tmp_path, "checkpoint_1_5.pt", "checkpoint_last.pt")
    for path in saved.iterdir():
        os.truncate(path, 3000)
    before = {path.name: path.read_bytes() for path in saved.iterdir()}
    sentence = train(data, tmp_path).sentence()
    assert f"{saved}/checkpoint_last.pt {NO_ARCHIVE}, and no other checkpoint in" in sentence
    assert {path.name: path.read_bytes() for path in saved.glob("*.pt")} == before


@pytest.mark.parametrize("option", ["--restore-file", "--finetune-from-model"])
def test_a_checkpoint_that_was_asked_for_is_not_replaced(
    data: Path, undisturbed: Trained, tmp_path: Path, option: str
) -> None:
    saved = copy_checkpoints(undisturbed, tmp_path, "checkpoint_1_5.pt", "checkpoint_1_10.pt")
    asked = tmp_path / "other.pt"
    if option == "--finetune-from-model":  # only looked at where there is nothing to go on from
        saved.rename(tmp_path / "elsewhere")
    sentence = train(data, tmp_path, option, str(asked)).sentence()
    assert f"error: {option} {asked} is missing, or no file; name another: " in sentence
    if option == "--restore-file":
        assert sentence.endswith(f"the last complete checkpoint is {saved}/checkpoint_1_10.pt")
        asked.write_bytes((saved / "checkpoint_1_10.pt").read_bytes())
        resumed = train(data, tmp_path, option, str(asked))
        assert_same(undisturbed, part(undisturbed, 10, tmp_path), resumed)


REFUSED = {
    "another optimizer": (["--optimizer", "adam"], r"of other options: --optimizer adam \(before: adadelta\); give"),
    "shared": (["--share-decoder-input-output-embed"], r"--share-decoder-input-output-embed True \(before: False\)"),
    "rounded": (["--bf16"], r"--bf16 True \(before: False\); give those of before, or --reset-optimizer"),
    "batches": (["--batch-size", "4"], r"saved within epoch 1, with other batches, .* --reset-dataloader"),
    "pairs": (["--train-subset", "valid"], r"saved within epoch 1, with other pairs and batches, .* same data"),
    "rate": (["--lr", "-1"], r"--lr is -1\.0; give at least 0"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_options_that_do_not_fit_the_checkpoint_are_refused(
    data: Path, undisturbed: Trained, tmp_path: Path, what: str
) -> None:
    copy_checkpoints(undisturbed, tmp_path, "checkpoint_1_5.pt")
    options, said = REFUSED[what]
    assert re.search(said, train(data, tmp_path, *options).sentence())


def test_other_words_are_refused_and_other_pairs_and_options_are_named(
    data: Path, undisturbed: Trained, tmp_path: Path
) -> None:
    copy_checkpoints(undisturbed, tmp_path, "checkpoint1.pt")
    other = Path(shutil.copytree(data, tmp_path / "bin"))
    for path in data.glob("valid.*"):
        (other / path.name.replace("valid", "train")).write_bytes(path.read_bytes())
    resumed = train(other, tmp_path, "--dropout", "0.2", "--batch-size", "4")
    assert resumed.status == 0
    assert re.search(r"options differ .*--batch-size 4 \(before: 8\).*--dropout 0.2 \(before: 0.1\)", resumed.printed)
    assert "from epoch 2 on, the training pairs are others than those of the checkpoint" in resumed.printed
    words = (other / "dict.en.txt").read_text().splitlines()
    (other / "dict.en.txt").write_text("\n".join([*words[1:], words[0], ""]))
    assert "another source dictionary" in train(other, tmp_path).sentence()


def test_rounded_parameters_go_on_from_those_in_float32(data: Path, tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    whole = train(data, tmp_path / "whole", "--bf16")
    assert_same(whole, train(data, tmp_path, "--bf16", "--max-update", "10"), train(data, tmp_path, "--bf16"))


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
    copy_checkpoints(undisturbed_trees, tmp_path, name)
    resumed = train(data, tmp_path, words=TREES)
    first = 10 if name == "checkpoint_2_10.pt" else 12
    assert_same(undisturbed_trees, part(undisturbed_trees, first, tmp_path), resumed)


def test_the_log_goes_on_within_its_interval(data: Path, undisturbed: Trained, tmp_path: Path) -> None:
    """A line for each nine updates, of which the second is of both epochs."""
    whole = train(data, tmp_path, "--log-interval", "9")
    (tmp_path / "again").mkdir()
    copy_checkpoints(whole, tmp_path / "again", "checkpoint1.pt")
    resumed = train(data, tmp_path / "again", "--log-interval", "9")
    assert [record["num_updates"] for record in whole.updates()] == ["9", "18"]
    assert resumed.updates() == whole.updates()[1:]


def test_a_training_that_has_ended_does_nothing_more(data: Path, tmp_path: Path) -> None:
    first = train(data, tmp_path, "--max-update", "7")
    before = {path.name: path.read_bytes() for path in first.folder.iterdir()}
    again = train(data, tmp_path, "--max-update", "7")
    assert (again.status, again.updates()) == (0, [])
    assert "nothing to do: 7 updates are done" in again.printed
    assert {path.name: path.read_bytes() for path in again.folder.iterdir()} == before


def test_patience_goes_on_counting(data: Path, tmp_path: Path) -> None:
    """No update changes anything: the fourth validation is the third without a better loss."""
    options = ["--lr", "0", "--patience", "3", "--validate-interval-updates", "1"]
    numbers = []
    for more in (["--max-update", "3"], [], [], ["--patience", "4"]):
        trained = train(data, tmp_path, *options, *more)
        assert trained.status == 0, trained.printed
        numbers.append([record["num_updates"] for record in trained.updates()])
    assert numbers == [["1", "2", "3"], ["4"], [], ["5"]]
