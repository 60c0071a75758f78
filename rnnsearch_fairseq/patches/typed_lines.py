"""The lines that `fairseq-interactive` reads, each of which is answered, or refused by its number."""

import contextlib
import logging
import sys
from collections.abc import Iterator
from typing import BinaryIO

from rnnsearch_fairseq.errors import InputError

MOST_BYTES = 100_000  # of a line; a sentence of 1,000 words has some 6,000

logger = logging.getLogger(__name__)


class Buffer(list):
    """Some lines; ``first`` is the number of the first one in the output, from 0. None is a line that was refused."""

    def __init__(self, first: int) -> None:
        super().__init__()
        self.first = first

    def refuse(self, place: int, why: str | None) -> None:
        """Take out the line in ``place``, and say why; if there is no reason, it stays."""
        if why is not None:
            number = self.first + place
            logger.warning("line %d (S-%d) is not translated: %s", number + 1, number, why)
            self[place] = None


def read_buffers(path: str, size: int) -> Iterator[Buffer]:
    """The lines of a file, or of standard input (``-``), ``size`` of them at a time, without the space around them.

    A line ends at a newline and nowhere else, and no more of one than :data:`MOST_BYTES` is held.

    Raises:
        InputError: the file cannot be read.
    """
    try:
        with contextlib.nullcontext(sys.stdin.buffer) if path == "-" else open(path, "rb") as file:
            buffer = Buffer(0)
            while line := file.readline(MOST_BYTES):
                buffer.append(None)
                whole = line.endswith(b"\n") or not _skip(file)
                try:
                    buffer[-1] = line.decode("utf-8").strip()
                except UnicodeDecodeError as error:
                    why = f"byte {line[error.start]:#04x} at column {error.start + 1} is not UTF-8"
                    buffer.refuse(len(buffer) - 1, why if whole else None)
                if not whole:
                    buffer.refuse(len(buffer) - 1, f"more than {MOST_BYTES:,} bytes")
                if len(buffer) == size:
                    yield buffer
                    buffer = Buffer(buffer.first + size)
            if buffer:
                yield buffer
    except OSError as error:
        raise InputError(f"--input {path}: cannot be read ({error.strerror}); check the path") from error


def _skip(file: BinaryIO) -> bool:
    """Read the rest of a line, and say whether there was any."""
    skipped = False
    while line := file.readline(MOST_BYTES):
        skipped = skipped or line != b"\n"
        if line.endswith(b"\n"):
            break
    return skipped
