"""Checkpoints that are complete or absent: sealed, written whole, by one training at a time in each folder."""

import contextlib
import fcntl
import logging
import os
import secrets
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import fairseq.file_io

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.files.integrity import find_damage, find_newest, save_sealed
from rnnsearch_fairseq.files.output import PARTIAL, write_whole
from rnnsearch_fairseq.patches.around import Original, around

logger = logging.getLogger(__name__)

# Seconds between tries to save: five minutes, half of what the other processes of a training wait for one that saves.
WAITS = (5.0, 10.0, 20.0, 40.0, 80.0, 160.0)
MEND = "free some space, or make the folder writable"
COPIED_AT_ONCE = 1 << 20  # bytes
LOCK = ".training.lock"  # a file in --save-dir; it stays there, since two trainings could hold it if it were removed

_lock: int | None = None  # the descriptor of the lock that this process holds


def write_patiently(path: str, write: Callable[[BinaryIO], None]) -> None:
    """Let ``write`` write a file by `write_whole`, and try again for five minutes where the disk is full or fails.

    Args:
        write: gets the file to write to. What it raises other than OSError is raised at once.

    Raises:
        InputError: the file could not be written.
    """
    for wait in (*WAITS, None):
        try:
            with write_whole(Path(path)) as file:
                write(file)
            return
        except OSError as error:
            if wait is None:
                raise InputError(_cannot_save(path, error)) from error
            logger.warning(f"{path}: cannot be saved ({error.strerror}); {MEND}: next try in {wait:g} seconds")
            time.sleep(wait)


def name_last_good(folder: str) -> str:
    """What a message that ends a training says of the checkpoint in ``folder`` from which it will go on."""
    last = (path for path in sorted(Path(folder).glob("checkpoint_last*.pt")) if find_damage(path) is None)
    good = next(last, None) or find_newest(folder)[0]
    return f"the last complete checkpoint is {good}" if good else f"{folder} holds no complete checkpoint"


@around
def save_whole(torch_persistent_save: Original, obj: Any, filename: str, async_write: bool = False) -> None:
    """A checkpoint that fails to be saved is written twice into one file; now it is written whole or not at all.

    When `torch.save` fails, fairseq tries again behind what is already in the file (checkpoint_utils.py:599); and the
    file's name is NAME.tmp until then (:579), through which it replaces what a link of that name leads to.
    """
    if async_write or not fairseq.file_io.PathManager.supports_rename(filename):
        torch_persistent_save(obj, filename, async_write)
    else:
        write_patiently(filename, lambda file: save_sealed(obj, file))


@around
def copy_whole(copy: Original, src_path: str, dst_path: str, overwrite: bool = False) -> Any:
    """A training that is killed while it copies a checkpoint leaves half of it; now the old one stays until then.

    fairseq copies one checkpoint over checkpoint_best.pt and checkpoint_last.pt (checkpoint_utils.py:139). The order
    stays: a training that goes on from checkpoint_last.pt, which comes last, has saved all the others, too.
    """
    if not (overwrite and fairseq.file_io.PathManager.supports_rename(dst_path)):
        return copy(src_path, dst_path, overwrite=overwrite)
    write_patiently(dst_path, lambda file: _copy(src_path, file))
    return True


@around
def begin_alone(_: Original, save_dir: str) -> None:
    """Two trainings may share a --save-dir; now the second is refused, and a killed one's unfinished files are removed.

    fairseq tries to write a file named ``dummy`` (checkpoint_utils.py:875), and so empties what a link of that name
    leads to; now the file has a name of its own. Only the first process of a training calls fairseq's function.
    """
    folder = Path(save_dir)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _hold_lock(folder)
        trial = folder / f".{secrets.token_hex(4)}{PARTIAL}"
        trial.touch(exist_ok=False)
        trial.unlink()
    except OSError as error:
        raise InputError(
            f"--save-dir {save_dir}: cannot be written ({error.strerror}); give another, or mend this one"
        ) from error
    for path in folder.glob("checkpoint*.pt"):
        if path.is_dir() and not path.is_symlink():
            raise InputError(f"{path}: a folder, where a checkpoint is to be saved; give it another name")
    for pattern in (f".checkpoint*.pt.*{PARTIAL}", f"checkpoint*.pt{PARTIAL}"):  # the second is fairseq's own
        for partial in folder.glob(pattern):
            with contextlib.suppress(OSError):  # a folder of that name does no harm
                partial.unlink()


@around
def unlock_at_the_end(call_main: Original, *args: Any, **kwargs: Any) -> Any:
    """The lock of `begin_alone` ends with fairseq's main function, though the process that called it may go on."""
    try:
        return call_main(*args, **kwargs)
    finally:
        _let_go()


def _hold_lock(folder: Path) -> None:
    """Keep other trainings out of ``folder`` until this process ends or lets them in.

    The lock is of the kind that a process does not pass on to those that it forks, here the workers that read its
    data: none of them keeps it when the training has been killed.

    Raises:
        InputError: another process holds the lock.
        OSError: the folder cannot be written.
    """
    global _lock
    _let_go()  # before: whoever closes any descriptor of the file lets go of its lock
    _lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    try:
        fcntl.lockf(_lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError) as error:
        raise InputError(
            f"--save-dir {folder}: another training saves its checkpoints there; wait for its end, or give another"
        ) from error
    except OSError as error:
        logger.warning(
            f"--save-dir {folder}: its file system has no locks ({error.strerror}); see to it yourself that no other "
            "training saves its checkpoints there"
        )


def _let_go() -> None:
    global _lock
    if _lock is not None:
        os.close(_lock)
        _lock = None


def _copy(path: str, file: BinaryIO) -> None:
    with open(path, "rb") as source:
        shutil.copyfileobj(source, file, COPIED_AT_ONCE)


def _cannot_save(path: str, error: OSError) -> str:
    return (
        f"{path}: cannot be saved ({error.strerror}), after {len(WAITS)} more tries; {MEND}, and start again: "
        + name_last_good(os.path.dirname(path) or ".")
    )
