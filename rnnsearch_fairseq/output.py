"""Write files that appear under their names only when they are complete."""

import contextlib
import gzip
import os
import secrets
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from rnnsearch_fairseq.errors import InputError

PARTIAL = ".tmp"  # fairseq's own ending


def check_not_input(output: Path, inputs: Iterable[Path]) -> None:
    """Refuse an output that would overwrite an input.

    Raises:
        InputError: ``output`` is one of ``inputs``.
    """
    if any(os.path.realpath(output) == os.path.realpath(path) for path in inputs):
        raise InputError(f"{output}: it would replace an input; give another name")


def stop_printing() -> None:
    """Discard further standard output, after a ``BrokenPipeError`` (the reader, such as head, has closed the pipe)."""
    # At exit, Python would try again to print the rest.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def write_whole(path: Path) -> Iterator[BinaryIO]:
    """Open a file for writing that is renamed to ``path``, and replaces any older file, once it is safely on disk.

    Until then it is a new file beside ``path`` with a random name, so that processes that write the same ``path`` do
    not collide, and no link is followed. After an exception it is removed.

    Raises:
        OSError: the file cannot be created, synced or renamed.
    """
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}{PARTIAL}")
    file = partial.open("xb")
    try:
        with file:
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
    if path.exists() and not (path.is_file() and os.access(path, os.W_OK)):
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
