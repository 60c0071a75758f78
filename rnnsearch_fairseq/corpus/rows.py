"""Parallel text: the names of its files, and rows of sentences that are read several times, in any order."""

import argparse
import copy
import random
import tempfile
from array import array
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

from rnnsearch_fairseq.output import open_output

Row = tuple[str, ...]


def add_languages(parser: argparse.ArgumentParser) -> None:
    """Add the options that name the two languages."""
    source = "language of the source, the ending of its files: en"
    parser.add_argument("-s", "--source-lang", required=True, help=source)
    parser.add_argument("-t", "--target-lang", required=True, help="language of the target: fr")


def texts_of(name: str | Path, *endings: str) -> tuple[Path, ...]:
    """The files of a text, one for each language: ``text/train`` stands for text/train.en and text/train.fr."""
    return tuple(Path(f"{name}.{ending}") for ending in endings)


def is_within(pair: Row, max_words: int) -> bool:
    """Whether both sides of a pair have 1 to ``max_words`` words."""
    return all(1 <= len(side.split()) <= max_words for side in pair)


class Rows(Sequence[Row]):
    """Rows of sentences, one of each text, without line ends, in a temporary file (TMPDIR says where).

    The first paper's twelve million pairs would not fit in the memory of many machines.
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        self._file = tempfile.TemporaryFile()
        self._offsets: Sequence[int] = array("Q")
        self._texts = range(0)
        end = 0
        for row in rows:
            lines = "".join(sentence.rstrip("\r\n") + "\n" for sentence in row).encode()
            self._file.write(lines)
            self._offsets.append(end)
            self._texts = range(len(row))
            end += len(lines)

    def __len__(self) -> int:
        return len(self._offsets)

    def __getitem__(self, number: int) -> Row:
        self._file.seek(self._offsets[number])
        return tuple(self._file.readline()[:-1].decode() for _ in self._texts)

    def select(self, numbers: Iterable[int]) -> "Rows":
        """The rows with these numbers, in this order."""
        chosen = copy.copy(self)
        chosen._offsets = array("Q", (self._offsets[number] for number in numbers))
        return chosen

    def shuffle(self, seed: int) -> "Rows":
        """The rows in a random order, which follows from ``seed`` and the number of rows."""
        numbers = array("Q", range(len(self)))
        random.Random(seed).shuffle(numbers)
        return self.select(numbers)


def write_rows(paths: Sequence[Path], rows: Iterable[Row]) -> None:
    """Write each text's sentences to its file."""
    with ExitStack() as stack:
        files = [stack.enter_context(open_output(path)) for path in paths]
        for row in rows:
            for file, sentence in zip(files, row, strict=True):
                file.write(f"{sentence}\n".encode())
