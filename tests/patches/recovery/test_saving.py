"""A checkpoint is the old one or the new one, whatever the disk does."""

import errno
import os
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fairseq.checkpoint_utils
import pytest
import torch
from fairseq.file_io import PathManager

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.files.integrity import SealedFile, count_updates, find_damage
from rnnsearch_fairseq.patches.recovery import saving
from tests.patches.recovery.training import Trained, assert_same, train, uncured

STATE = {"model": {"w": torch.arange(30000.0)}, "optimizer_history": [{"num_updates": 3}, {"num_updates": 7}]}


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """A disk on which the given calls of os.fsync, or writes to a file, fail; returns what happened on it."""
    happened: list[str] = []

    def fail(number: int, times: int = 1) -> list[str]:
        fsync = os.fsync

        def run_out(descriptor: int) -> None:
            happened.append("full" if number <= len(happened) < number + times else "synchronized")
            if happened[-1] == "full":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            fsync(descriptor)

        monkeypatch.setattr(os, "fsync", run_out)
        return happened

    monkeypatch.setattr(saving, "WAITS", (0.0, 0.0))
    return fail


def save(path: Path, state: Any = STATE) -> None:
    fairseq.checkpoint_utils.torch_persistent_save(state, str(path))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_is_saved_is_sealed_with_its_updates(tmp_path: Path) -> None:
    save(tmp_path / "x.pt")
    assert (find_damage(tmp_path / "x.pt"), count_updates(tmp_path / "x.pt")) == (None, 7)
    save(tmp_path / "x.pt", {"averaged": 1})
    assert (find_damage(tmp_path / "x.pt"), count_updates(tmp_path / "x.pt")) == (None, 0)
    assert torch.load(tmp_path / "x.pt", weights_only=True) == {"averaged": 1}
    assert names(tmp_path) == ["x.pt"]


@pytest.mark.parametrize(
    "history",
    [None, [], "abc", 5, [None], [5], ["x"], {}, torch.ones(()), torch.ones(2), [{}], [[3]]]
    + [[{"num_updates": updates}] for updates in (None, "7", 7.5, -1, True, 10**12, 10**400)],
)
def test_what_has_no_number_of_updates_is_sealed_all_the_same(tmp_path: Path, history: Any) -> None:
    save(tmp_path / "x.pt", {"optimizer_history": history})
    assert (find_damage(tmp_path / "x.pt"), count_updates(tmp_path / "x.pt")) == (None, 0)


def test_file_and_folder_are_synchronized_around_the_renaming(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    sync, replace = saving._sync, os.replace
    monkeypatch.setattr(saving, "_sync", lambda path: (events.append(path), sync(path)))
    monkeypatch.setattr(os, "replace", lambda *paths: (events.append("rename"), replace(*paths)))
    save(tmp_path / "x.pt")
    assert events == [f"{tmp_path}/x.pt.tmp", "rename", str(tmp_path)]


def test_a_passing_shortage_is_waited_for(
    tmp_path: Path, disk: Callable[..., list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    happened = disk(0, times=2)
    save(tmp_path / "x.pt")
    assert happened == ["full", "full", "synchronized", "synchronized"]
    assert find_damage(tmp_path / "x.pt") is None
    assert names(tmp_path) == ["x.pt"]
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == 2
    assert all("x.pt: cannot be saved (No space left on device); free some space: next try in 0" in w for w in warnings)


def test_a_lasting_shortage_leaves_the_old_file_and_names_the_newest(
    tmp_path: Path, disk: Callable[..., list[str]]
) -> None:
    save(tmp_path / "checkpoint_1_7.pt")
    before = (tmp_path / "checkpoint_1_7.pt").read_bytes()
    disk(0, times=99)
    with pytest.raises(InputError) as error:
        save(tmp_path / "checkpoint_1_7.pt", {"other": 1})
    sentence = f"{tmp_path}/checkpoint_1_7.pt: cannot be saved (No space left on device), after 2 more tries; free some"
    assert str(error.value).startswith(sentence)
    assert str(error.value).endswith(f"the last complete checkpoint is {tmp_path}/checkpoint_1_7.pt")
    assert (tmp_path / "checkpoint_1_7.pt").read_bytes() == before
    assert names(tmp_path) == ["checkpoint_1_7.pt"]


@pytest.fixture
def full_once() -> type[SealedFile]:
    """A file whose third write fails, whoever tries again."""
    writes = 0

    class FullOnce(SealedFile):
        def write(self, data: Any) -> int:
            nonlocal writes
            writes += 1
            if writes == 3:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().write(data)

    return FullOnce


def test_fairseq_writes_its_second_try_behind_the_first(
    tmp_path: Path, full_once: type[SealedFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fairseq.checkpoint_utils.time, "sleep", lambda seconds: None)
    with (tmp_path / "twice.pt").open("wb") as file:
        fairseq.checkpoint_utils._torch_persistent_save(STATE, full_once(file))
    with (tmp_path / "once.pt").open("wb") as file:
        fairseq.checkpoint_utils._torch_persistent_save(STATE, file)
    assert (tmp_path / "twice.pt").read_bytes() != (tmp_path / "once.pt").read_bytes()
    assert (tmp_path / "twice.pt").read_bytes().endswith((tmp_path / "once.pt").read_bytes())


def test_a_disk_that_is_full_in_the_middle_of_a_file(
    tmp_path: Path, full_once: type[SealedFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path / "once.pt")
    monkeypatch.setattr(saving, "SealedFile", full_once)
    monkeypatch.setattr(saving, "WAITS", (0.0,))
    save(tmp_path / "twice.pt")
    assert find_damage(tmp_path / "twice.pt") is None
    loaded = [torch.load(tmp_path / name, weights_only=True)["model"]["w"] for name in ("once.pt", "twice.pt")]
    assert torch.equal(*loaded)


def test_what_is_no_fault_of_the_disk_is_not_tried_again(tmp_path: Path) -> None:
    save(tmp_path / "x.pt")
    with pytest.raises(Exception, match="pickle"):
        save(tmp_path / "x.pt", {"model": lambda: None})
    with pytest.raises(KeyboardInterrupt):
        saving.write_whole(f"{tmp_path}/x.pt", stopped)
    assert names(tmp_path) == ["x.pt"]
    assert find_damage(tmp_path / "x.pt") is None


def stopped(partial: str) -> None:
    Path(partial).write_bytes(b"half")
    raise KeyboardInterrupt


def test_a_copy_that_is_stopped_leaves_the_checkpoint_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed_halfway(source: str, target: str) -> None:
        Path(target).write_bytes(Path(source).read_bytes()[:2])
        raise KeyboardInterrupt

    source, target = tmp_path / "checkpoint_1_5.pt", tmp_path / "checkpoint_last.pt"
    source.write_bytes(b"after")
    monkeypatch.setattr(shutil, "copyfile", killed_halfway)
    for copy, left in ((uncured(PathManager.copy), b"af"), (PathManager.copy, b"before")):
        target.write_bytes(b"before")
        with pytest.raises(KeyboardInterrupt):
            copy(str(source), str(target), overwrite=True)
        assert target.read_bytes() == left


def test_checkpoints_are_copied(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"new")
    (tmp_path / "two").write_bytes(b"old")
    assert PathManager.copy(str(tmp_path / "one"), str(tmp_path / "two"), overwrite=True)
    assert (tmp_path / "two").read_bytes() == b"new"
    assert names(tmp_path) == ["one", "two"]


def test_what_a_killed_training_was_writing_is_removed(tmp_path: Path) -> None:
    for name in ("checkpoint_1_5.pt", "checkpoint_1_10.pt.tmp", "other.tmp"):
        (tmp_path / name).touch()
    fairseq.checkpoint_utils.verify_checkpoint_directory(str(tmp_path))
    assert names(tmp_path) == ["checkpoint_1_5.pt", "other.tmp"]
    with pytest.raises(InputError, match=r"--save-dir .*other\.tmp: cannot be written \(Not a directory\)"):
        fairseq.checkpoint_utils.verify_checkpoint_directory(str(tmp_path / "other.tmp"))


def limit_files() -> None:
    saving.WAITS = (0.1,)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))


def test_training_ends_where_it_cannot_be_saved_and_goes_on(data: Path, undisturbed: Trained, tmp_path: Path) -> None:
    begun = train(data, tmp_path, "--max-update", "5")
    full = train(data, tmp_path, prepare=limit_files)
    assert "checkpoint_1_10.pt: cannot be saved (File too large), after 1 more tries" in full.sentence()
    assert full.sentence().endswith("checkpoint_last.pt")
    assert names(full.folder) == ["checkpoint_1_5.pt", "checkpoint_best.pt", "checkpoint_last.pt"]
    assert_same(undisturbed, begun, full, train(data, tmp_path))
