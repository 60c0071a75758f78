"""Checkpoints that are complete or absent: written whole, by one training at a time in each folder."""

import contextlib
import fcntl
import logging
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import fairseq.file_io

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference.loading import save
from rnnsearch_fairseq.output import PARTIAL, write_whole
from rnnsearch_fairseq.patches.recovery.integrity import find_damage, find_newest
from rnnsearch_fairseq.patches.recovery.stopping import patience

logger = logging.getLogger(__name__)

# Seconds between tries to save: five minutes, half of the time for which other processes of a training wait.
WAITS = (5.0, 10.0, 20.0, 40.0, 80.0, 160.0)
LOCK = ".training.lock"  # a file in --save-dir; it stays there, since two trainings could hold it if it were removed

_lock: tuple[int, Path] | None = None  # the descriptor and the folder of the lock that this process holds


def name_last_good(folder: str) -> str:
    """Name the checkpoint in ``folder`` from which training will go on, as the end of a message."""
    last = (path for path in sorted(Path(folder).glob("checkpoint_last*.pt")) if find_damage(path) is None)
    good = next(last, None) or find_newest(folder)[0]
    return f"the last complete checkpoint is {good}" if good else f"{folder} holds no complete checkpoint"


def write_patiently(path: str, write: Callable[[BinaryIO], None]) -> None:
    """Let ``write`` write a file by `write_whole`; while the disk is full or fails, try again for five minutes.

    Raises:
        InputError: the file could not be written.
    """
    for wait in (*WAITS, None):
        try:
            _check_lock()
            with write_whole(Path(path)) as file:
                write(file)
            return
        except OSError as error:
            if wait is None:
                raise InputError(
                    f"{path}: cannot be saved ({error.strerror}), after {len(WAITS)} more tries; free some space, and "
                    f"start again: {name_last_good(os.path.dirname(path) or '.')}"
                ) from error
            logger.warning(f"{path}: cannot be saved ({error.strerror}); free some space: next try in {wait:g} seconds")
            time.sleep(wait)


def save_whole(torch_persistent_save: Callable[..., Any], obj: Any, filename: str, async_write: bool = False) -> None:
    """Write a checkpoint whole, or not at all, and into it what --patience counts.

    When `torch.save` fails, fairseq tries again behind the bytes that are in the file (checkpoint_utils.py:599).
    """
    if isinstance(obj.get("extra_state"), dict):
        obj["extra_state"]["patience"] = dict(patience())
    if async_write or not fairseq.file_io.PathManager.supports_rename(filename):
        torch_persistent_save(obj, filename, async_write)
    else:
        write_patiently(filename, lambda file: save(obj, file))


def copy_whole(copy: Callable[..., Any], src_path: str, dst_path: str, overwrite: bool = False) -> Any:
    """Copy a checkpoint whole or not at all; fairseq overwrites the old one in place (checkpoint_utils.py:139).

    fairseq copies to checkpoint_last.pt last: a training that goes on from it has saved all the others.
    """
    if not (overwrite and fairseq.file_io.PathManager.supports_rename(dst_path)):
        return copy(src_path, dst_path, overwrite=overwrite)

    def write(file: BinaryIO) -> None:
        with open(src_path, "rb") as source:
            shutil.copyfileobj(source, file)

    write_patiently(dst_path, write)
    return True


def begin_alone(verify: Callable[..., Any], save_dir: str) -> None:
    """Let one training at a time save in a folder, and remove what a killed one has left unfinished.

    Only the first process of a training calls fairseq's function, which creates the folder and tries to write.
    """
    folder = Path(save_dir)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _hold_lock(folder)
    except OSError as error:
        raise InputError(
            f"--save-dir {save_dir}: cannot be written ({error.strerror}); give another, or mend this one"
        ) from error
    verify(save_dir)
    for partial in folder.glob(f".checkpoint*.pt.*{PARTIAL}"):
        with contextlib.suppress(OSError):  # a folder of that name does no harm
            partial.unlink()


def _hold_lock(folder: Path) -> None:
    """Keep other trainings out until this process ends or calls `unlock`; its forks do not inherit such a lock."""
    global _lock
    unlock()  # first, since closing any descriptor of the file releases its lock
    _lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666), folder
    try:
        fcntl.lockf(_lock[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError) as error:
        raise InputError(
            f"--save-dir {folder}: another training saves its checkpoints there; wait for its end, or give another"
        ) from error
    except OSError as error:
        logger.warning(
            f"--save-dir {folder}: its file system has no locks ({error.strerror}); see to it yourself that no other "
            "training saves its checkpoints there"
        )


def _check_lock() -> None:
    """End a training whose folder was renamed, removed or replaced: another training may have begun in its place."""
    if _lock is None:
        return
    descriptor, folder = _lock
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        if os.path.samestat(os.fstat(descriptor), os.stat(folder / LOCK)):
            return
    with contextlib.suppress(OSError):
        folder.rmdir()  # the empty one that fairseq makes before it saves
    raise InputError(
        f"--save-dir {folder}: was renamed, removed or replaced while it was trained there, so nothing more is saved; "
        "start again with the folder in its place, or give its new name as --save-dir"
    )


def unlock() -> None:
    """Let other trainings into the folder of `begin_alone`."""
    global _lock
    if _lock is not None:
        os.close(_lock[0])
        _lock = None
