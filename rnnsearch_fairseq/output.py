"""Write files that appear under their names only when they are complete."""

import contextlib
import gzip
import os
import secrets
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from rnnsearch_fairseq.errors import InputError

PARTIAL = ".tmp"  # fairseq's own ending


def check_not_input(outputs: Path | Iterable[Path | None], inputs: Iterable[Path | None]) -> None:
    """Refuse outputs that would replace an input or each other, or lie in a folder that is read; None is no path.

    Raises:
        InputError: they would.
    """
    read = {os.path.realpath(path) for path in inputs if path is not None}
    folders = tuple(f"{place}{os.sep}" for place in read if os.path.isdir(place))
    written: set[str] = set()
    for path in [outputs] if isinstance(outputs, Path) else outputs:
        if path is None:
            continue
        place = os.path.realpath(path)
        if place in read:
            raise InputError(f"{path}: it would replace an input; give another name")
        if place.startswith(folders):
            raise InputError(f"{path}: it would lie in a folder that is read; give a place outside")
        if place in written:
            raise InputError(f"{path}: two outputs have this name; give each its own")
        written.add(place)


def open_closed_streams() -> None:
    """Open standard streams that the caller closed (``>&-``) as empty ones: Python has None in their place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))


def stop_printing() -> None:
    """Discard further standard output, after a ``BrokenPipeError`` (the reader, such as head, has closed the pipe)."""
    # At exit, Python would try again to print the rest.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def write_whole(path: Path) -> Iterator[BinaryIO]:
    """Open a file for writing that is renamed to ``path``, and replaces any older file, once it is safely on disk.

    Until then it is a new file beside ``path`` with a random name, so that processes that write the same ``path`` do
    not collide, and no link is followed. It has the permissions of the older file. After an exception it is removed.

    Raises:
        OSError: the file cannot be created, synced or renamed.
    """
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}{PARTIAL}")
    file = partial.open("xb")
    try:
        with file:
            if os.path.isfile(path):
                os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))
            yield file
        _sync(partial)
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):  # a failing disk may refuse this too; the leftover file is harmless
            partial.unlink()
        raise
    with contextlib.suppress(OSError):  # some file systems cannot sync a folder
        _sync(path.parent)


@contextlib.contextmanager
def open_output(path: Path) -> Iterator[BinaryIO]:
    """Open a command's output file; packed if its name ends in .gz; it appears when it is complete.

    Raises:
        InputError: ``path`` cannot be written.
    """
    packed = path.name.lower().endswith(".gz")
    path = Path(os.path.realpath(path))
    if os.path.lexists(path) and not (os.path.isfile(path) and os.access(path, os.W_OK)):
        raise InputError(f"{path}: not a file that can be written; give another name")
    try:
        with write_whole(path) as out:
            if packed:
                with gzip.GzipFile("", "wb", fileobj=out, mtime=0) as packing:
                    yield packing
            else:
                yield out
    except BrokenPipeError:  # of standard output, to which a command may print meanwhile
        raise
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror}); make room, or give another name") from error


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
