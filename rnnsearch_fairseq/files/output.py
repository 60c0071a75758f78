"""Files that are there only when they are whole."""

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from rnnsearch_fairseq.errors import InputError


def check_not_input(output: Path, inputs: Iterable[Path]) -> None:
    """Raises:
    InputError: ``output`` is one of the files that it is made of.
    """
    if any(output.resolve() == path.resolve() for path in inputs):
        raise InputError(f"--output {output}: it would replace what it is made of; give another name")


def stop_printing() -> None:
    """After a ``BrokenPipeError``: whoever read standard output has seen enough (head)."""
    # At exit, Python would try again to print the rest.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def open_output(path: Path) -> Iterator[BinaryIO]:
    """A file to write that is called ``path`` only when it is whole; of one that never is, nothing is left.

    Raises:
        InputError: ``path`` cannot be written.
    """
    path = path.resolve()
    if path.exists() and not (path.is_file() and os.access(path, os.W_OK)):
        raise InputError(f"--output {path}: not a file that can be written; give another name")
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        out = partial.open("wb")
    except OSError as error:
        raise InputError(f"--output {path}: cannot be written ({error.strerror}); give another name") from error
    try:
        with out:
            yield out
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
