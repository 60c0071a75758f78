"""Check that checkpoints are complete, without loading them.

A checkpoint is a zip archive, as `torch.save` writes it. Its comment, which zip readers ignore, is the *seal*: the
number of updates, and the SHA-256 of all bytes of the file before the hash's own 64 digits. The seal is written last,
and detects every changed bit (``head -c -64 FILE | sha256sum`` checks it, too). Checkpoints without a seal, from plain
fairseq or an older version, are checked by the CRC-32 of each record.
"""

import errno
import hashlib
import os
import re
import stat
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import torch

DIGITS = 64  # of a SHA-256
MOST_UPDATES = 10**12 - 1
MARK = b"rnnsearch_fairseq: %012d updates, SHA-256 of the bytes before: "
SEAL = re.compile(rb"rnnsearch_fairseq: (\d{12}) updates, SHA-256 of the bytes before: ([0-9a-f]{64})")
SEAL_SIZE = len(MARK % 0) + DIGITS
END = b"PK\5\6"  # begins an archive's last record: 22 bytes, then the comment
END_SIZE = 22
# How files of `torch.save` began before they were archives; they hold no checksum.
BEFORE_ZIP = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
CHUNK = 1 << 20


class SealedFile:
    """The file object for `torch.save` to write a checkpoint to; `seal` completes it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._sha256 = hashlib.sha256()
        self._held = b""

    def write(self, data: Any) -> int:
        """Write bytes, or an object with a buffer."""
        view = memoryview(data).cast("B")
        self._file.write(view)
        # An archive ends with the length of its comment, two bytes that `seal` changes.
        self._sha256.update(self._held)
        self._sha256.update(view[:-2])
        self._held = bytes(view[-2:])
        return len(view)

    def flush(self) -> None:
        """Flush the file."""
        self._file.flush()

    def seal(self, updates: int) -> None:
        """Add the seal to the archive.

        Raises:
            ValueError: the archive has a comment already.
        """
        if self._held != b"\0\0":
            raise ValueError("what was written is no archive without a comment")
        rest = SEAL_SIZE.to_bytes(2, "little") + MARK % updates
        self._sha256.update(rest)
        self._file.seek(-2, os.SEEK_CUR)
        self._file.write(rest + self._sha256.hexdigest().encode())


def save_sealed(obj: Any, file: BinaryIO) -> None:
    """`torch.save`, with a seal at the end of the file.

    The seal's number of updates is 0 if ``obj`` has none, as it is no training's checkpoint, or an implausible one.
    """
    sealed = SealedFile(file)
    try:
        torch.save(obj, sealed)
    except RuntimeError as error:
        # When a write fails, torch's writer raises an error of its own, which hides the OSError.
        if isinstance(error.__context__, OSError):
            raise error.__context__ from None
        raise
    try:
        updates = obj["optimizer_history"][-1]["num_updates"]
    except (TypeError, LookupError):
        updates = 0
    sealed.seal(updates if type(updates) is int and 0 <= updates <= MOST_UPDATES else 0)


def open_regular(path: str | Path) -> BinaryIO:
    """Open a regular file for reading; a pipe or a device could block the reader for ever.

    Raises:
        OSError: it cannot be opened, or is not a regular file.
    """
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return file


def find_damage(path: str | Path) -> str | None:
    """Why a checkpoint is incomplete, as the end of a sentence about it; None if it is complete."""
    try:
        with open_regular(path) as file:
            tail = _read_tail(file)
            return _check_seal(file, tail) if tail.startswith(END) else _check_unsealed(file, tail)
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read ({error.strerror})"


def find_broken_seal(path: str | Path) -> str | None:
    """Why a checkpoint's seal is wrong, as the end of a sentence; None if it is right or there is none.

    Raises:
        OSError: the file cannot be read.
    """
    with open_regular(path) as file:
        tail = _read_tail(file)
        return _check_seal(file, tail) if tail.startswith(END) else None


def find_newest(folder: str | Path, suffix: str = "") -> tuple[Path | None, list[Path]]:
    """Find the complete checkpoint in ``folder`` with the most updates, and the damaged ones that claim more.

    Checkpoints are files with fairseq-train's names and the --checkpoint-suffix ``suffix``. Files without a seal count
    as older than all sealed ones, and are ordered by modification time. Files older than the result are not read.
    """
    name = re.compile(rf"checkpoint(_last|_best|\d+|_\d+_\d+|\.best_.+){re.escape(suffix)}\.pt")
    found = [path for path in Path(folder).iterdir() if name.fullmatch(path.name)] if Path(folder).is_dir() else []
    damaged = []
    for path in sorted(found, key=_age, reverse=True):
        if find_damage(path) is None:
            return path, damaged
        damaged.append(path)
    return None, damaged


def count_updates(path: str | Path) -> int | None:
    """The number of updates in a checkpoint's seal; None if it has none."""
    try:
        with open_regular(path) as file:
            seal = SEAL.fullmatch(_read_tail(file)[-SEAL_SIZE:])
    except OSError:
        return None
    return int(seal[1]) if seal else None


def _age(path: Path) -> tuple[int, float, str]:
    updates = count_updates(path)
    try:
        written = path.stat().st_mtime
    except OSError:  # a broken link
        written = 0.0
    return -1 if updates is None else updates, written, path.name


def _read_tail(file: BinaryIO) -> bytes:
    """Read the end of a file, which in a sealed one is the archive's last record with the seal as its comment."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - END_SIZE - SEAL_SIZE))
    return file.read(END_SIZE + SEAL_SIZE)


def _check_seal(file: BinaryIO, tail: bytes) -> str | None:
    sha256 = hashlib.sha256()
    left = file.seek(0, os.SEEK_END) - DIGITS
    file.seek(0)
    while left > 0 and (chunk := file.read(min(CHUNK, left))):
        sha256.update(chunk)
        left -= len(chunk)
    whole = SEAL.fullmatch(tail[-SEAL_SIZE:]) and tail.endswith(sha256.hexdigest().encode())
    return None if whole else "is damaged: its SHA-256 is not the one it was written with"


def _check_unsealed(file: BinaryIO, tail: bytes) -> str | None:
    file.seek(0)
    if file.read(len(BEFORE_ZIP)) == BEFORE_ZIP:
        return None
    # torch writes no comment; any other ending, such as half a seal, is damage.
    if not (tail[-END_SIZE:].startswith(END) and tail.endswith(b"\0\0")):
        return "is cut off, or was never a checkpoint"
    try:
        with zipfile.ZipFile(file) as archive:
            damaged = archive.testzip()
    except Exception as error:  # damaged archives raise many kinds of errors
        return f"is damaged: {type(error).__name__}: {error}"
    return None if damaged is None else f"is damaged: the CRC-32 of {damaged} in it is wrong"
