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


def check_not_input(outputs: Path | Iterable[Path | None], inputs: Iterable[Path | None]) -> None:
    """Refuse outputs that would replace an input or each other, or lie in a folder that is read; None is no path."""
    taken = {Path(path).resolve() for path in inputs if path is not None}
    for path in [outputs] if isinstance(outputs, Path) else outputs:
        if path is None:
            continue
        place = path.resolve()
        if not taken.isdisjoint([place, *place.parents]):
            raise InputError(f"{path}: it would replace an input or another output; give another name")
        taken.add(place)


def stop_printing() -> None:
    """Discard further standard output, after a ``BrokenPipeError`` (the reader, such as head, has closed the pipe)."""
    # At exit, Python would try again to print the rest.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def open_output(path: Path) -> Iterator[BinaryIO]:
    """Open a command's output file, packed if its name ends in .gz; it appears when it is complete and on the disk.

    Until then it has a random name beside ``path``, and it is removed after an exception. It has the permissions of the
    older file that it replaces.

    Raises:
        InputError: ``path`` cannot be written.
    """
    packed = path.name.lower().endswith(".gz")
    path = path.resolve()
    if os.path.lexists(path) and not (os.path.isfile(path) and os.access(path, os.W_OK)):
        raise InputError(f"{path}: not a file that can be written; give another name")
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with partial.open("xb") as file:
            if os.path.isfile(path):
                os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))
            if packed:
                with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packing:
                    yield packing
            else:
                yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BrokenPipeError:  # of standard output, to which a command may print meanwhile
        raise
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror}); make room, or give another name") from error
    finally:
        partial.unlink(missing_ok=True)
