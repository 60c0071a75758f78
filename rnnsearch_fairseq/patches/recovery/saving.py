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
from rnnsearch_fairseq.output import PARTIAL, write_whole
from rnnsearch_fairseq.patches.around import Original, around

logger = logging.getLogger(__name__)

# Seconds between tries to save: five minutes, half of the time for which other processes of a training wait.
WAITS = (5.0, 10.0, 20.0, 40.0, 80.0, 160.0)
MEND = "free some space, or make the folder writable"
COPIED_AT_ONCE = 1 << 20  # bytes
LOCK = ".training.lock"  # a file in --save-dir; it stays there, since two trainings could hold it if it were removed

_lock: int | None = None  # the descriptor of the lock that this process holds


def name_last_good(folder: str) -> str:
    """Name the checkpoint in ``folder`` from which training will go on, as the end of a message."""
    last = (path for path in sorted(Path(folder).glob("checkpoint_last*.pt")) if find_damage(path) is None)
    good = next(last, None) or find_newest(folder)[0]
    return f"the last complete checkpoint is {good}" if good else f"{folder} holds no complete checkpoint"


def write_patiently(path: str, write: Callable[[BinaryIO], None]) -> None:
    """Let ``write`` write a file by `write_whole`; while the disk is full or fails, try again for five minutes.

    Args:
        write: gets the file to write to. Only an OSError leads to another try.

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
                raise InputError(
                    f"{path}: cannot be saved ({error.strerror}), after {len(WAITS)} more tries; {MEND}, and start "
                    f"again: {name_last_good(os.path.dirname(path) or '.')}"
                ) from error
            logger.warning(f"{path}: cannot be saved ({error.strerror}); {MEND}: next try in {wait:g} seconds")
            time.sleep(wait)


@around
def save_whole(torch_persistent_save: Original, obj: Any, filename: str, async_write: bool = False) -> None:
    """A checkpoint that fails to be saved is written twice into one file; now it is written whole or not at all.

    When `torch.save` fails, fairseq tries again behind the bytes that are in the file (checkpoint_utils.py:599). Until
    it is complete, the file has the name NAME.tmp (:579), where fairseq would follow a link.
    """
    if async_write or not fairseq.file_io.PathManager.supports_rename(filename):
        torch_persistent_save(obj, filename, async_write)
    else:
        write_patiently(filename, lambda file: save_sealed(obj, file))


@around
def copy_whole(copy: Original, src_path: str, dst_path: str, overwrite: bool = False) -> Any:
    """A training that is killed while it copies a checkpoint leaves half of it; now the old one stays until then.

    fairseq copies one checkpoint to checkpoint_best.pt, checkpoint_last.pt and more (checkpoint_utils.py:139), and to
    checkpoint_last.pt last: a training that goes on from it has saved all the others.
    """
    if not (overwrite and fairseq.file_io.PathManager.supports_rename(dst_path)):
        return copy(src_path, dst_path, overwrite=overwrite)

    def write(file: BinaryIO) -> None:
        with open(src_path, "rb") as source:
            shutil.copyfileobj(source, file, COPIED_AT_ONCE)

    write_patiently(dst_path, write)
    return True


@around
def begin_alone(_: Original, save_dir: str) -> None:
    """Two trainings may share a --save-dir; now the second is refused, and a killed one's unfinished files are removed.

    fairseq tries to write a file named ``dummy`` (checkpoint_utils.py:875), and so empties the file that a link of that
    name leads to; now the file has a random name. Only the first process of a training calls fairseq's function.
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


def _hold_lock(folder: Path) -> None:
    """Keep other trainings out of ``folder`` until this process ends or calls `unlock`.

    The lock is of a kind that forked processes, such as the workers that read the data, do not inherit: none of them
    holds it after the training has been killed.

    Raises:
        InputError: another process holds the lock.
        OSError: the folder cannot be written.
    """
    global _lock
    unlock()  # first, since closing any descriptor of the file releases its lock
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


def unlock() -> None:
    """Let other trainings into the folder of `begin_alone`."""
    global _lock
    if _lock is not None:
        os.close(_lock)
        _lock = None
