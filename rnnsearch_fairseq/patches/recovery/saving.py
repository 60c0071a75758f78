"""Checkpoints that are complete or absent: written beside, sealed, on the disk before they get their name."""

import contextlib
import logging
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fairseq.checkpoint_utils
import fairseq.file_io
import torch

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.files.integrity import MOST_UPDATES, SealedFile, find_damage, find_newest
from rnnsearch_fairseq.patches.wrap import wrap

logger = logging.getLogger(__name__)

# Seconds between tries to save: five minutes, half of what the other processes of a training wait for one that saves.
WAITS = (5.0, 10.0, 20.0, 40.0, 80.0, 160.0)
PARTIAL = ".tmp"  # fairseq's own ending


def guard() -> None:
    """Save by `write_whole` whatever fairseq saves."""
    _save_whole()
    _copy_whole()
    _begin_cleanly()


def write_whole(path: str, write: Callable[[str], None]) -> None:
    """Let ``write`` write a file under another name, and give it its own when all of it is on the disk.

    Whatever happens, ``path`` is the old file or the new one. A disk that is full, or fails, is tried again for five
    minutes, for the shortage may pass.

    Args:
        write: gets the name to write to. What it raises other than OSError is raised at once.

    Raises:
        InputError: the file could not be written.
    """
    for wait in (*WAITS, None):
        try:
            write(path + PARTIAL)
            _sync(path + PARTIAL)
            os.replace(path + PARTIAL, path)
            break
        except OSError as error:
            _remove_partial(path)
            if wait is None:
                raise InputError(_cannot_save(path, error)) from error
            logger.warning(f"{path}: cannot be saved ({error.strerror}); free some space: next try in {wait:g} seconds")
            time.sleep(wait)
        except BaseException:
            _remove_partial(path)
            raise
    with contextlib.suppress(OSError):  # some file systems cannot; the file is safe
        _sync(os.path.dirname(path) or ".")


def name_last_good(folder: str) -> str:
    """What a message that ends a training says of the checkpoint in ``folder`` from which it will go on."""
    last = (path for path in sorted(Path(folder).glob("checkpoint_last*.pt")) if find_damage(path) is None)
    good = next(last, None) or find_newest(folder)[0]
    return f"the last complete checkpoint is {good}" if good else f"{folder} holds no complete checkpoint"


def _save_whole() -> None:
    """Trap: when `torch.save` fails, fairseq tries again behind what is already in the file (checkpoint_utils.py:599)
    and, where that succeeds, gives the result the checkpoint's name. Cure: `write_whole`.
    """

    def make(torch_persistent_save: Callable[..., None]) -> Callable[..., None]:
        def save(obj: Any, filename: str, async_write: bool = False) -> None:
            if async_write or not fairseq.file_io.PathManager.supports_rename(filename):
                torch_persistent_save(obj, filename, async_write)
            else:
                write_whole(filename, lambda partial: _save_sealed(obj, partial))

        return save

    wrap(fairseq.checkpoint_utils, "torch_persistent_save", make)


def _copy_whole() -> None:
    """Trap: fairseq writes one checkpoint and copies it over checkpoint_best.pt and checkpoint_last.pt
    (checkpoint_utils.py:139); a training that is killed meanwhile leaves half of them. Cure: `write_whole`. The order
    stays: checkpoint_last.pt comes last, so that a training that goes on from it has saved all the others, too.
    """

    def make(copy: Callable[..., Any]) -> Callable[..., Any]:
        def copy_whole(src_path: str, dst_path: str, overwrite: bool = False) -> Any:
            if not (overwrite and fairseq.file_io.PathManager.supports_rename(dst_path)):
                return copy(src_path, dst_path, overwrite=overwrite)
            write_whole(dst_path, lambda partial: shutil.copyfile(src_path, partial))
            return True

        return copy_whole

    wrap(fairseq.file_io.PathManager, "copy", make)


def _begin_cleanly() -> None:
    """Remove what a killed training was writing, which no later one may happen to write again, from --save-dir."""

    def make(verify_checkpoint_directory: Callable[[str], None]) -> Callable[[str], None]:
        def verify(save_dir: str) -> None:
            try:
                verify_checkpoint_directory(save_dir)
            except OSError as error:
                raise InputError(
                    f"--save-dir {save_dir}: cannot be written ({error.strerror}); give another, or mend this one"
                ) from error
            for partial in Path(save_dir).glob(f"checkpoint*.pt{PARTIAL}"):
                partial.unlink(missing_ok=True)

        return verify

    wrap(fairseq.checkpoint_utils, "verify_checkpoint_directory", make)


def _save_sealed(obj: Any, path: str) -> None:
    with open(path, "wb") as file:
        sealed = SealedFile(file)
        try:
            torch.save(obj, sealed)
        except RuntimeError as error:
            # torch's writer, closed half-way, complains of its position and so hides what the disk said.
            if isinstance(error.__context__, OSError):
                raise error.__context__ from None
            raise
        sealed.seal(_count_updates(obj))


def _count_updates(obj: Any) -> int:
    """The number of updates in what a training saves; 0 of what is none's, or has come from a stranger."""
    try:
        updates = obj["optimizer_history"][-1]["num_updates"]
    except (TypeError, LookupError):
        return 0
    return updates if type(updates) is int and 0 <= updates <= MOST_UPDATES else 0


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_partial(path: str) -> None:
    Path(path + PARTIAL).unlink(missing_ok=True)


def _cannot_save(path: str, error: OSError) -> str:
    return (
        f"{path}: cannot be saved ({error.strerror}), after {len(WAITS)} more tries; free some space and start again: "
        + name_last_good(os.path.dirname(path) or ".")
    )
