"""Read and check text files."""

import codecs
import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO

from rnnsearch_fairseq.errors import InputError, quote

MAX_LINE_BYTES = 1 << 20  # so that one line of a small packed file cannot fill the memory
LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"  # as str.splitlines sees them


@contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """Open a file to read its bytes, unpacked if its name ends in .gz; an InputError if that fails."""
    try:
        with gzip.open(path) if path.name.lower().endswith(".gz") else path.open("rb") as file:
            yield file
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None)
        cure = "check the path" if reason else "a name in .gz means a packed file: pack it again, or rename it"
        raise InputError(f"{path}: cannot be read ({reason or quote(error)}); {cure}") from error


def read_lines(path: Path, stray_returns: bool = False) -> Iterator[str]:
    """Yield the lines of a UTF-8 text file, perhaps packed (.gz), with their newlines; only a newline ends a line.

    Raises:
        InputError: the file cannot be read, or `check_line` refuses a line.
    """
    with open_bytes(path) as file:
        for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES + 1), b""), 1):
            if len(line) > MAX_LINE_BYTES:
                raise InputError(f"{path}, line {number}: longer than {MAX_LINE_BYTES:,} bytes; split it")
            line = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
            yield check_line(path, number, line, stray_returns)


def check_line(path: Path | str, number: int, line: bytes, stray_returns: bool = False) -> str:
    """Decode a line, the ``number``-th of the file ``path``."""
    # Python's universal newlines split a line at a lone carriage return, and `fairseq.file_chunker_utils.find_offsets`
    # then computes wrong offsets: with --workers 2 or more, whole chunks are binarized twice.
    if not stray_returns and b"\r" in line.removesuffix(b"\n").removesuffix(b"\r"):
        raise InputError(f"{path}, line {number}: stray carriage return inside the line; replace it with a space")
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}, line {number}: not UTF-8 ({quote(error)}); convert the file with iconv") from error


def check_rereadable(*paths: Path) -> None:
    """Raise an InputError for a path that is not a file, such as a pipe."""
    for path in paths:
        if os.path.exists(path) and not os.path.isfile(path):
            raise InputError(f"{path}: not a regular file; save it to a file and give that")


def read_rows(*paths: Path) -> list[tuple[str, ...]]:
    """Line N of each file together; an InputError for files that are not parallel text in UTF-8, or are empty."""
    if not (rows := [*read_pairs(*paths)]):
        raise InputError(f"{paths[0]}: the file is empty; give a file of one sentence per line")
    return rows


def read_pairs(*paths: Path, stray_returns: bool = False) -> Iterator[tuple[str, ...]]:
    """Yield line N of each file together, as `read_lines`; an InputError if one file ends before another."""
    for number, pair in enumerate(zip_longest(*(read_lines(path, stray_returns) for path in paths))):
        if None in pair:
            ended = paths[pair.index(None)]
            longer = next(path for path, line in zip(paths, pair) if line is not None)
            raise InputError(f"{ended}: ends at line {number}, and {longer} goes on; line N must be the same sentence")
        yield pair
