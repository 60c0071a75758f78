"""Files that are there only when they are whole."""

import contextlib
import os
import secrets
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from rnnsearch_fairseq.errors import InputError

PARTIAL = ".tmp"  # fairseq's own ending


def check_not_input(output: Path, inputs: Iterable[Path]) -> None:
    """Raises:
    InputError: ``output`` is one of the files that it is made of.
    """
    if any(os.path.realpath(output) == os.path.realpath(path) for path in inputs):
        raise InputError(f"--output {output}: it would replace what it is made of; give another name")


def stop_printing() -> None:
    """After a ``BrokenPipeError``: whoever read standard output has seen enough (head)."""
    # At exit, Python would try again to print the rest.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def write_whole(path: Path) -> Iterator[BinaryIO]:
    """A file to write that gets the name ``path``, and replaces what has it, when all of it is on the disk.

    Until then it lies beside ``path``, as a new file with a name of its own: two processes that write ``path`` do not
    meet, and a link that somebody has left there is not followed. After an exception, nothing of the file is left.

    Raises:
        OSError: the file cannot be made, put on the disk or renamed.
    """
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}{PARTIAL}")
    file = partial.open("xb")
    try:
        with file:
            yield file
        _sync(partial)
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):  # a disk that fails may not remove it either; there it does no harm
            partial.unlink()
        raise
    with contextlib.suppress(OSError):  # some file systems cannot; the file is safe
        _sync(path.parent)


@contextlib.contextmanager
def open_output(path: Path) -> Iterator[BinaryIO]:
    """A file to write that is called ``path`` only when it is whole; of one that never is, nothing is left.

    Raises:
        InputError: ``path`` cannot be written.
    """
    path = Path(os.path.realpath(path))
    if path.exists() and not (path.is_file() and os.access(path, os.W_OK)):
        raise InputError(f"--output {path}: not a file that can be written; give another name")
    with contextlib.ExitStack() as stack:
        try:
            out = stack.enter_context(write_whole(path))
        except OSError as error:
            raise InputError(f"--output {path}: cannot be written ({error.strerror}); give another name") from error
        yield out


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
