"""The lines that `fairseq-interactive` reads: each is answered, or refused by its number."""

import contextlib
import logging
import sys
from collections.abc import Iterator

from rnnsearch_fairseq.errors import InputError

MOST_BYTES = 100_000  # of a line; a sentence of 1,000 words has some 6,000

logger = logging.getLogger(__name__)


class Buffer(list):
    """Some lines, with None for a refused one; ``first`` is the number of the first one in the output, from 0."""

    def __init__(self, first: int) -> None:
        super().__init__()
        self.first = first

    def refuse(self, place: int, why: str | None) -> None:
        """Replace the line in ``place`` by None, and log why; without a reason, keep it."""
        if why is not None:
            number = self.first + place
            logger.warning("line %d (S-%d) is not translated: %s", number + 1, number, why)
            self[place] = None


def read_buffers(path: str, size: int) -> Iterator[Buffer]:
    """Read the lines of a file, or of standard input (``-``), ``size`` at a time, without the space around them.

    A line ends at a newline and nowhere else. No more of it than :data:`MOST_BYTES` is held.

    Raises:
        InputError: the file cannot be read.
    """
    try:
        with contextlib.nullcontext(sys.stdin.buffer) if path == "-" else open(path, "rb") as file:
            buffer = Buffer(0)
            while line := file.readline(MOST_BYTES + 1):
                buffer.append(None)
                if len(line) > MOST_BYTES and not line.endswith(b"\n"):
                    buffer.refuse(len(buffer) - 1, f"more than {MOST_BYTES:,} bytes")
                    while line and not line.endswith(b"\n"):
                        line = file.readline(MOST_BYTES)
                else:
                    try:
                        buffer[-1] = line.decode("utf-8").strip()
                    except UnicodeDecodeError as error:
                        wrong = f"byte {line[error.start]:#04x} at column {error.start + 1} is not UTF-8"
                        buffer.refuse(len(buffer) - 1, wrong)
                if len(buffer) == size:
                    yield buffer
                    buffer = Buffer(buffer.first + size)
            if buffer:
                yield buffer
    except OSError as error:
        raise InputError(f"--input {path}: cannot be read ({error.strerror}); check the path") from error
