"""A checkpoint is the old one or the new one, whatever the disk does."""

import errno
import functools
import json
import multiprocessing
import os
import resource
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import fairseq.checkpoint_utils
import fairseq.distributed.utils
import pytest
import torch
from fairseq.file_io import PathManager
from fairseq.trainer import Trainer

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.patches import ORIGINALS
from rnnsearch_fairseq.patches.recovery import saving
from rnnsearch_fairseq.patches.recovery.integrity import count_updates, find_damage
from tests.patches.recovery.training import (
    COMMON,
    PAIRED,
    WAIT,
    Trained,
    assert_same,
    copy_checkpoints,
    start_training,
    train,
)

pytestmark = [pytest.mark.slow, pytest.mark.train, pytest.mark.patched]

STATE = {"model": {"w": torch.arange(30000.0)}, "optimizer_history": [{"num_updates": 3}, {"num_updates": 7}]}


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[str]]:
    """A disk on which the first calls of os.fsync fail; returns what happened on it."""
    happened: list[str] = []

    def fail(times: int) -> list[str]:
        fsync = os.fsync

        def run_out(descriptor: int) -> None:
            happened.append("full" if len(happened) < times else "synchronized")
            if happened[-1] == "full":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            fsync(descriptor)

        monkeypatch.setattr(os, "fsync", run_out)
        return happened

    monkeypatch.setattr(saving, "WAITS", (0.0, 0.0))
    return fail


def save(path: Path, state: Any = STATE) -> None:
    fairseq.checkpoint_utils.torch_persistent_save(state, str(path))


def begin(folder: Path) -> None:
    fairseq.checkpoint_utils.verify_checkpoint_directory(str(folder))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != saving.LOCK)


def test_what_is_saved_is_complete(tmp_path: Path) -> None:
    save(tmp_path / "x.pt")
    assert (find_damage(tmp_path / "x.pt"), count_updates(tmp_path / "x.pt")) == (None, 7)
    assert torch.load(tmp_path / "x.pt", weights_only=True)["optimizer_history"] == STATE["optimizer_history"]
    assert names(tmp_path) == ["x.pt"]


def test_a_passing_shortage_is_waited_for(
    tmp_path: Path, disk: Callable[[int], list[str]], warned: pytest.LogCaptureFixture
) -> None:
    happened = disk(2)
    save(tmp_path / "x.pt")
    assert happened == ["full", "full", "synchronized", "synchronized"]
    assert find_damage(tmp_path / "x.pt") is None
    assert names(tmp_path) == ["x.pt"]
    said = "x.pt: cannot be saved (No space left on device); free some space: next try in 0"
    assert len(warned.messages) == 2
    assert all(said in warning for warning in warned.messages)


def test_a_lasting_shortage_leaves_the_old_file_and_names_the_newest(
    tmp_path: Path, disk: Callable[[int], list[str]]
) -> None:
    save(tmp_path / "checkpoint_1_7.pt")
    before = (tmp_path / "checkpoint_1_7.pt").read_bytes()
    disk(99)
    with pytest.raises(InputError) as error:
        save(tmp_path / "checkpoint_1_7.pt", {"other": 1})
    sentence = f"{tmp_path}/checkpoint_1_7.pt: cannot be saved (No space left on device), after 2 more tries; free some"
    assert str(error.value).startswith(sentence)
    assert str(error.value).endswith(f"the last complete checkpoint is {tmp_path}/checkpoint_1_7.pt")
    assert (tmp_path / "checkpoint_1_7.pt").read_bytes() == before
    assert names(tmp_path) == ["checkpoint_1_7.pt"]


def test_a_copy_that_is_stopped_leaves_the_checkpoint_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed_halfway(source: str, target: str) -> None:
        Path(target).write_bytes(Path(source).read_bytes()[:2])
        raise KeyboardInterrupt

    def stopped_halfway(source: BinaryIO, target: BinaryIO) -> None:
        target.write(source.read(2))
        raise KeyboardInterrupt

    source, target = tmp_path / "checkpoint_1_5.pt", tmp_path / "checkpoint_last.pt"
    source.write_bytes(b"after")
    with monkeypatch.context() as disk:
        disk.setattr(shutil, "copyfile", killed_halfway)
        disk.setattr(shutil, "copyfileobj", stopped_halfway)
        for copy, left in ((ORIGINALS[PathManager, "copy"], b"af"), (PathManager.copy, b"before")):
            target.write_bytes(b"before")
            with pytest.raises(KeyboardInterrupt):
                copy(str(source), str(target), overwrite=True)
            assert target.read_bytes() == left
    assert PathManager.copy(str(source), str(target), overwrite=True)
    assert target.read_bytes() == b"after"


def test_what_a_killed_training_was_writing_is_removed(tmp_path: Path) -> None:
    others = ["checkpoint_1_5.pt", "other.tmp", ".other.0123abcd.tmp"]
    for name in (".checkpoint_1_15.pt.0123abcd.tmp", *others):
        (tmp_path / name).touch()
    begin(tmp_path)
    assert names(tmp_path) == sorted(others)


def test_where_no_training_can_begin(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name, why in (("file", "File exists"), ("file/saved", "Not a directory")):
        with pytest.raises(InputError, match=rf"--save-dir {tmp_path}/{name}: cannot be written \({why}\)"):
            begin(tmp_path / name)


def stay(updates: int, there: Any) -> None:
    """For ``prepare``: stop, and go no further, after an update."""
    train_step = Trainer.train_step

    def step(self: Trainer, *args: Any, **kwargs: Any) -> Any:
        output = train_step(self, *args, **kwargs)
        if self.get_num_updates() == updates:
            there.set()
            signal.pause()
        return output

    Trainer.train_step = step


def test_a_second_training_in_a_folder_is_refused(data: Path, undisturbed: Trained, tmp_path: Path) -> None:
    there = multiprocessing.get_context("fork").Event()
    words = [*COMMON, *PAIRED, "--num-workers", "1"]
    log = tmp_path / "first.txt"
    first = start_training(data, tmp_path / "saved", log, words, functools.partial(stay, 6, there))
    try:
        assert there.wait(WAIT), log.read_text()
        refused = train(data, tmp_path)
        assert refused.sentence() == (
            f"error: --save-dir {refused.folder}: another training saves its checkpoints there; "
            "wait for its end, or give another"
        )
        # The workers that read the data live on, and hold nothing.
        workers = Path(f"/proc/{first.pid}/task/{first.pid}/children").read_text().split()
        assert workers
        for worker in workers:
            os.kill(int(worker), signal.SIGSTOP)
    finally:
        first.kill()
        first.join()
    try:
        assert_same(undisturbed, Trained(refused.folder, log, None), train(data, tmp_path))
    finally:
        for worker in workers:
            os.kill(int(worker), signal.SIGKILL)


def can_begin(folder: Path) -> bool:
    """Whether another process can."""
    process = multiprocessing.get_context("fork").Process(target=begin, args=(folder,))
    process.start()
    process.join(WAIT)
    return process.exitcode == 0


def test_the_folder_is_free_when_training_is_done(tmp_path: Path) -> None:
    begin(tmp_path)
    assert not can_begin(tmp_path)
    saving.unlock()
    assert can_begin(tmp_path)


@pytest.mark.parametrize("another_began", [False, True])
def test_nothing_is_saved_where_the_folder_is_another_now(tmp_path: Path, another_began: bool) -> None:
    folder, renamed = tmp_path / "saved", tmp_path / "renamed"
    begin(folder)
    save(folder / "x.pt")
    folder.rename(renamed)
    folder.mkdir()  # as fairseq does before it saves
    if another_began:
        assert can_begin(folder)
    with pytest.raises(InputError, match=rf"--save-dir {folder}: was renamed, removed or replaced while"):
        save(folder / "x.pt")
    assert folder.exists() == another_began
    assert not (folder / "x.pt").exists() and names(renamed) == ["x.pt"]
    saving.unlock()


def test_nothing_is_copied_by_a_name_that_the_data_gives(data: Path, undisturbed: Trained, tmp_path: Path) -> None:
    hostile = {name: {"bpe_codes": "checkpoint_last.pt", "subwords": ".training.lock"} for name in ("en", "fr")}
    saved = copy_checkpoints(undisturbed, tmp_path, "checkpoint_last.pt")
    mine = Path(shutil.copytree(data, tmp_path / "bin"))
    (mine / "checkpoint_last.pt").write_bytes(b"hostile")
    for linked in (False, True):
        path = tmp_path / "elsewhere.json" if linked else mine / "preparation.json"
        path.write_text(json.dumps(hostile))
        if linked:
            (mine / "preparation.json").unlink()
            (mine / "preparation.json").symlink_to(path)
        assert f"{mine}/preparation.json" in train(mine, tmp_path).sentence()
    assert names(saved) == ["checkpoint_last.pt"]
    assert (saved / "checkpoint_last.pt").read_bytes() == undisturbed.last.read_bytes()


def limit_files() -> None:
    saving.WAITS = (0.1,)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))


def test_training_ends_where_it_cannot_be_saved_and_goes_on(data: Path, undisturbed: Trained, tmp_path: Path) -> None:
    begun = train(data, tmp_path, "--max-update", "5")
    full = train(data, tmp_path, prepare=limit_files)
    assert "checkpoint_1_10.pt: cannot be saved (File too large), after 1 more tries" in full.sentence()
    assert names(full.folder) == ["checkpoint_1_5.pt", "checkpoint_best.pt", "checkpoint_last.pt"]
    assert_same(undisturbed, begun, full, train(data, tmp_path))
