"""Parallel text: the names of its files, rows of sentences that are read several times, and work on all cores."""

import argparse
import copy
import multiprocessing
import os
import random
import signal
import tempfile
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

from tqdm import tqdm

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.output import open_output

Row = tuple[str, ...]
Result = TypeVar("Result")

BLOCK = 2000  # rows
MIN_BLOCKS = 10  # fewer are done here before other processes have started
PRELOADED = "rnnsearch_fairseq.corpus.prepare"  # the module is imported once, not by each process


def add_languages(parser: argparse.ArgumentParser) -> None:
    """Add the options that name the two languages."""
    source = "language of the source, the ending of its files: en"
    parser.add_argument("-s", "--source-lang", required=True, help=source)
    parser.add_argument("-t", "--target-lang", required=True, help="language of the target: fr")


def texts_of(name: str | Path, *endings: str) -> tuple[Path, ...]:
    """The files of a text, one for each language: ``text/train`` stands for text/train.en and text/train.fr."""
    return tuple(Path(f"{name}.{ending}") for ending in endings)


def count_tokens(text: str) -> int:
    """The number of words between blanks."""
    return len(text.split())


def is_within(pair: Row, max_words: int, count: Callable[[str], float] = count_tokens) -> bool:
    """Whether both sides of a pair have words, and at most ``max_words``."""
    return all(0 < count(side) <= max_words for side in pair)


class Rows(Sequence[Row]):
    """Rows of sentences, one of each text, without line ends, in a temporary file (TMPDIR says where).

    The rows are in a file because the first paper's twelve million pairs do not fit in the memory of many machines.
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


def map_blocks(work: Callable[[list[Any]], Result], rows: Iterable[Any], label: str) -> Iterator[Result]:
    """Yield ``work(block)`` of each block of rows, in order. ``work`` runs in other processes if there are many rows.

    A few blocks are read ahead, so the memory does not depend on the number of rows.
    """
    with tqdm(rows, label, unit=" pairs", disable=None, leave=False) as reading:
        remaining = iter(reading)
        blocks = iter(lambda: [*islice(remaining, BLOCK)], [])
        first = [*islice(blocks, MIN_BLOCKS)]
        if len(first) < MIN_BLOCKS:
            yield from map(work, first)
            return
        cores = len(os.sched_getaffinity(0))
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([PRELOADED])
        waiting: deque[Future[Result]] = deque()
        # Ctrl-C is for this process.
        with ProcessPoolExecutor(cores, context, signal.signal, (signal.SIGINT, signal.SIG_IGN)) as pool:
            try:
                for block in chain(first, blocks):
                    waiting.append(pool.submit(work, block))
                    if len(waiting) > 2 * cores:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            except BrokenProcessPool as error:
                cure = "free memory, or give less text"
                raise InputError(f"a process was killed, perhaps for want of memory; {cure}") from error
