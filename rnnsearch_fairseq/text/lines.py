"""Read and check text files."""

import gzip
import html
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO

from rnnsearch_fairseq.errors import InputError, in_short

MAX_LINE_BYTES = 1 << 20
LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"  # as str.splitlines sees them
BPE_MARK = "@@"  # subword-nmt's, at the end of a piece that the next one continues


def check_text_file(path: str | Path) -> int:
    """Return the number of lines of a UTF-8 text file.

    Raises:
        InputError: the file is missing, unreadable, empty or not a regular file, or `check_line` refuses a line.
    """
    check_rereadable(Path(path))
    number = sum(1 for _ in read_lines(path))
    if number == 0:
        raise InputError(f"{path}: the file is empty; give a file of one sentence per line")
    return number


@contextmanager
def open_bytes(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file to read its bytes, unpacked if its name ends in .gz; an InputError if that fails."""
    try:
        with gzip.open(path) if str(path).lower().endswith(".gz") else open(path, "rb") as file:
            yield file
    except (OSError, EOFError, zlib.error) as error:
        cause = getattr(error, "strerror", None) or in_short(error)
        raise InputError(f"{path}: cannot be read ({cause}); check the path") from error


def read_lines(path: str | Path, stray_returns: bool = False) -> Iterator[str]:
    """Yield the lines of a UTF-8 text file, or one packed as .gz, each with its newline; only a newline ends a line.

    Raises:
        InputError: the file cannot be read, or a line, once it is reached, is longer than 1 MiB or is refused by
            `check_line`.
    """
    with open_bytes(path) as file:
        for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES + 1), b""), 1):
            if len(line) > MAX_LINE_BYTES:
                raise InputError(
                    f"{path}, line {number}: longer than {MAX_LINE_BYTES:,} bytes; write one sentence a line"
                )
            yield check_line(path, number, line, stray_returns)


def check_line(path: str | Path, number: int, line: bytes, stray_returns: bool = False) -> str:
    """Decode a line, the ``number``-th of the file ``path``."""
    # Python's universal newlines split a line at a lone carriage return, and `fairseq.file_chunker_utils.find_offsets`
    # then computes wrong offsets: with --workers 2 or more, whole chunks are binarized twice.
    if not stray_returns and b"\r" in line.removesuffix(b"\n").removesuffix(b"\r"):
        raise InputError(
            f"{path}, line {number}: stray carriage return inside the line; delete it or replace it by a space"
        )
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}, line {number}: byte {line[error.start]:#04x} at column {error.start + 1} is not UTF-8; "
            "convert the file with iconv"
        ) from error


def read_plain(path: Path, most_bytes: int) -> bytes:
    """Read a file that belongs to a model or to prepared text.

    Raises:
        InputError: it is missing, a link, no plain file, too large, or cannot be read.
    """
    if path.is_symlink() or not os.path.isfile(path):
        raise InputError(f"{path}: there is no such plain file (a link does not count); copy it there")
    try:
        with path.open("rb") as file:
            content = file.read(most_bytes + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); change its permissions") from error
    if len(content) > most_bytes:
        raise InputError(f"{path}: has more than {most_bytes:,} bytes; give the file that was written there first")
    return content


def shown(word: str) -> str:
    """A word for a message: in quotation marks and cut to 60 characters."""
    return repr(word if len(word) <= 60 else word[:57] + "...")


def unescaped(text: str) -> str:
    """``text`` with HTML entities replaced by their characters; numeric ones too long for Python stay."""
    try:
        return html.unescape(text)
    except ValueError:
        return text


def check_parallel(paths: Sequence[str | Path]) -> int:
    """Check each file by `check_text_file`, and return their common number of lines.

    Raises:
        InputError: a file is refused, or the files differ in their numbers of lines.
    """
    counts = {path: check_text_file(path) for path in paths}
    if len(set(counts.values())) > 1:
        listing = ", ".join(f"{path} has {count}" for path, count in counts.items())
        raise InputError(
            f"parallel files differ in their numbers of lines: {listing}; line N must be the same sentence"
        )
    return next(iter(counts.values()))


def check_rereadable(*paths: Path) -> None:
    """Raise an InputError for a path that is not a file, such as a pipe."""
    for path in paths:
        if os.path.exists(path) and not os.path.isfile(path):
            raise InputError(f"{path}: not a regular file; save it to a file and give that")


def read_pairs(source: Path, target: Path, stray_returns: bool = False) -> Iterator[tuple[str, str]]:
    """Yield the lines of two files in pairs; see `read_lines`.

    Raises:
        InputError: as `read_lines`, or one file ends before the other.
    """
    paths = source, target
    for number, pair in enumerate(zip_longest(*(read_lines(path, stray_returns) for path in paths)), 1):
        if None in pair:
            shorter = pair.index(None)
            raise InputError(
                f"{paths[shorter]}: ends at line {number - 1}, and {paths[1 - shorter]} goes on; "
                "line N must be the same sentence"
            )
        yield pair


def read_parallel(*paths: Path) -> list[list[str]]:
    """Read the lines of each file, without their newlines; raises as `check_parallel`."""
    check_parallel(paths)
    return [[line.removesuffix("\n") for line in read_lines(path)] for path in paths]
