"""A checkpoint is the old one or the new one, whatever the disk does."""

import contextlib
import errno
import fcntl
import functools
import multiprocessing
import os
import re
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

from recipes.fault_injection.run import start_training
from rnnsearch_fairseq import output
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.files import integrity
from rnnsearch_fairseq.files.integrity import SealedFile, count_updates, find_damage
from rnnsearch_fairseq.output import write_whole
from rnnsearch_fairseq.patches import ORIGINALS
from rnnsearch_fairseq.patches.recovery import saving
from rnnsearch_fairseq.text.preparation import RECORD
from tests.patches.recovery.training import COMMON, PAIRED, WAIT, Trained, assert_same, train

pytestmark = [pytest.mark.slow, pytest.mark.train, pytest.mark.patched]

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
    return sorted(path.name for path in folder.iterdir() if path.name not in (saving.LOCK, RECORD))


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
    events: list[Any] = []
    sync, replace = output._sync, os.replace
    monkeypatch.setattr(output, "_sync", lambda path: (events.append(path), sync(path)))
    monkeypatch.setattr(os, "replace", lambda *paths: (events.append(paths), replace(*paths)))
    save(tmp_path / "x.pt")
    partial = events[0]
    assert re.fullmatch(r"\.x\.pt\.[0-9a-f]{8}\.tmp", partial.name)
    assert events == [partial, (partial, tmp_path / "x.pt"), tmp_path]


def test_a_passing_shortage_is_waited_for(
    tmp_path: Path, disk: Callable[..., list[str]], warned: pytest.LogCaptureFixture
) -> None:
    happened = disk(0, times=2)
    save(tmp_path / "x.pt")
    assert happened == ["full", "full", "synchronized", "synchronized"]
    assert find_damage(tmp_path / "x.pt") is None
    assert names(tmp_path) == ["x.pt"]
    assert len(warned.messages) == 2
    said = f"x.pt: cannot be saved (No space left on device); {saving.MEND}: next try in 0"
    assert all(said in warning for warning in warned.messages)


def test_a_folder_that_is_read_only_for_a_while_is_waited_for(
    tmp_path: Path, disk: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch, warned: pytest.LogCaptureFixture
) -> None:
    """There, what was begun cannot be removed either."""
    save(tmp_path / "x.pt", {"old": 1})
    happened, unlink = disk(0, times=2), os.unlink

    def refuse(*args: Any, **kwargs: Any) -> None:
        if happened.count("full") <= 2 and "synchronized" not in happened:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        unlink(*args, **kwargs)

    monkeypatch.setattr(os, "unlink", refuse)
    save(tmp_path / "x.pt")
    assert count_updates(tmp_path / "x.pt") == 7
    assert len(warned.records) == 2


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
    monkeypatch.setattr(integrity, "SealedFile", full_once)
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
        saving.write_patiently(f"{tmp_path}/x.pt", stopped)
    assert names(tmp_path) == ["x.pt"]
    assert find_damage(tmp_path / "x.pt") is None


def stopped(file: BinaryIO) -> None:
    file.write(b"half")
    raise KeyboardInterrupt


def test_a_copy_that_is_stopped_leaves_the_checkpoint_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed_halfway(source: str, target: str) -> None:
        Path(target).write_bytes(Path(source).read_bytes()[:2])
        raise KeyboardInterrupt

    def stopped_halfway(source: BinaryIO, target: BinaryIO, length: int) -> None:
        target.write(source.read(2))
        raise KeyboardInterrupt

    source, target = tmp_path / "checkpoint_1_5.pt", tmp_path / "checkpoint_last.pt"
    source.write_bytes(b"after")
    monkeypatch.setattr(shutil, "copyfile", killed_halfway)
    monkeypatch.setattr(shutil, "copyfileobj", stopped_halfway)
    for copy, left in ((ORIGINALS[PathManager, "copy"], b"af"), (PathManager.copy, b"before")):
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
    unfinished = ["checkpoint_1_10.pt.tmp", ".checkpoint_1_15.pt.0123abcd.tmp"]
    others = ["checkpoint_1_5.pt", "other.tmp", ".other.0123abcd.tmp"]
    for name in (*unfinished, *others):
        (tmp_path / name).touch()
    (tmp_path / "checkpoint_1_20.pt.tmp").mkdir()
    begin(tmp_path)
    assert names(tmp_path) == sorted([*others, "checkpoint_1_20.pt.tmp"])


def begin(folder: Path) -> None:
    fairseq.checkpoint_utils.verify_checkpoint_directory(str(folder))


def test_where_no_training_can_begin(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    for name, why in (("file", "File exists"), ("file/saved", "Not a directory"), ("loop", "File exists")):
        with pytest.raises(InputError, match=rf"--save-dir {tmp_path}/{name}: cannot be written \({why}\)"):
            begin(tmp_path / name)
    (tmp_path / "checkpoint_best.pt").mkdir()
    with pytest.raises(InputError, match=r"checkpoint_best\.pt: a folder, where a checkpoint is to be saved"):
        begin(tmp_path)


@pytest.mark.parametrize("name", ["dummy", "x.pt.tmp", saving.LOCK])
def test_a_link_that_lies_in_the_folder_is_not_followed(tmp_path: Path, name: str) -> None:
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / name).symlink_to(tmp_path / "precious")
    (tmp_path / "precious").write_text("all that I have")
    with pytest.raises(InputError, match="cannot be written") if name == saving.LOCK else contextlib.nullcontext():
        begin(tmp_path / "saved")
    save(tmp_path / "saved/x.pt")
    assert find_damage(tmp_path / "saved/x.pt") is None
    assert (tmp_path / "precious").read_text() == "all that I have"


def test_two_that_write_one_file_do_not_meet(tmp_path: Path) -> None:
    with write_whole(tmp_path / "x") as first, write_whole(tmp_path / "x") as second:
        for file, content in ((first, b"one"), (second, b"other")):
            file.write(content)
    assert (tmp_path / "x").read_bytes() == b"one"
    assert names(tmp_path) == ["x"]


# Two trainings in one folder


def stay_in(folder: Path, updates: int, there: Any) -> None:
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
    log, prepare = tmp_path / "first.txt", functools.partial(stay_in, tmp_path, 6, there)
    first = start_training(data, tmp_path / "saved", log, words, prepare)
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


def test_the_folder_is_free_when_training_is_done(data: Path, tmp_path: Path) -> None:
    """Though its process is not."""

    def prepare() -> None:
        call_main = fairseq.distributed.utils.call_main

        def call(*args: Any, **kwargs: Any) -> None:
            begin(tmp_path / "saved")
            begin(tmp_path / "saved")
            print("before:", can_begin(tmp_path / "saved"))
            call_main(*args, **kwargs)
            print("after:", can_begin(tmp_path / "saved"))

        fairseq.distributed.utils.call_main = call

    done = train(data, tmp_path, "--max-update", "1", prepare=prepare)
    assert (done.status, re.findall("(before|after): (True|False)\n", done.printed)) == (
        0,
        [("before", "False"), ("after", "True")],
    )


def test_a_file_system_without_locks_is_used_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warned: pytest.LogCaptureFixture
) -> None:
    def lockf(*args: Any) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "lockf", lockf)
    begin(tmp_path)
    (message,) = warned.messages
    assert "its file system has no locks (No locks available); see to it yourself that no other" in message


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
