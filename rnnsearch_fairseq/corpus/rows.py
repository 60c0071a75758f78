"""Rows of parallel sentences that are read several times, in any order."""

import random
import tempfile
from array import array
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

from rnnsearch_fairseq.output import open_output

MAX_ROWS_IN_MEMORY = 1_000_000

Row = tuple[str, ...]


class Rows(Sequence[Row]):
    """Rows of sentences, one of each text: the first million in memory, the others in a temporary file.

    Args:
        rows: sentences, with or without line ends.
        folder: folder of the temporary file.
    """

    def __init__(self, rows: Iterable[Row], folder: Path) -> None:
        stripped = (tuple(sentence.rstrip("\r\n") for sentence in row) for row in rows)
        self._in_memory = [*islice(stripped, MAX_ROWS_IN_MEMORY)]
        self._offsets = array("Q")
        for row in stripped:
            if not self._offsets:
                self._file = tempfile.TemporaryFile(dir=folder)
            self._offsets.append(self._file.tell())
            self._file.write("".join(f"{sentence}\n" for sentence in row).encode())

    def __len__(self) -> int:
        return len(self._in_memory) + len(self._offsets)

    def __getitem__(self, number: int) -> Row:
        if number < len(self._in_memory):
            return self._in_memory[number]
        offset = self._offsets[number - len(self._in_memory)]
        self._file.seek(offset)
        return tuple(self._file.readline().decode().removesuffix("\n") for _ in self._in_memory[0])


class Selection(Sequence[Row]):
    """The rows of other rows that have these numbers, in the order of the numbers."""

    def __init__(self, rows: Sequence[Row], numbers: Sequence[int]) -> None:
        self._rows, self._numbers = rows, numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, number: int) -> Row:
        return self._rows[self._numbers[number]]


def shuffle_rows(rows: Sequence[Row], seed: int) -> Selection:
    """Put rows into a random order, which follows from ``seed`` and the number of rows."""
    numbers = array("Q", range(len(rows)))
    random.Random(seed).shuffle(numbers)
    return Selection(rows, numbers)


def write_rows(paths: Sequence[Path], rows: Iterable[Row]) -> None:
    """Write each text's sentences to its file."""
    with ExitStack() as stack:
        files = [stack.enter_context(open_output(path)) for path in paths]
        for row in rows:
            for file, sentence in zip(files, row, strict=True):
                file.write(f"{sentence}\n".encode())
