"""Check that checkpoints are complete, without loading them.

A checkpoint is a zip archive, as `torch.save` writes it. Its comment, which zip readers ignore, is the *seal*: the
number of updates, and the SHA-256 of all bytes of the file before the hash's own 64 digits. The seal is written last,
and detects every changed bit (``head -c -64 FILE | sha256sum`` checks it, too). Plain fairseq writes no seal:
the CRC-32 of each record is checked, too, and that none is compressed, since it could be of any size.
"""

import hashlib
import os
import re
from pathlib import Path
from typing import Any, BinaryIO

import torch

from rnnsearch_fairseq.errors import in_short
from rnnsearch_fairseq.inference import loading

DIGITS = 64  # of a SHA-256
MARK = b"rnnsearch_fairseq: %012d updates, SHA-256 of the bytes before: "
SEAL = re.compile(rb"rnnsearch_fairseq: (\d{12}) updates, SHA-256 of the bytes before: ([0-9a-f]{64})")
SEAL_SIZE = len(MARK % 0) + DIGITS
END = b"PK\5\6"  # begins an archive's last record: 22 bytes, then the comment
END_SIZE = 22
CHUNK = 1 << 20


def save_sealed(obj: Any, file: BinaryIO) -> None:
    """`torch.save` to a named file, with a seal at its end; the number of updates is 0 if ``obj`` has none."""
    try:
        torch.save(obj, file)
    except RuntimeError as error:
        # When a write fails, torch's writer raises an error of its own, which hides the OSError.
        if isinstance(error.__context__, OSError):
            raise error.__context__ from None
        raise
    file.seek(-2, os.SEEK_CUR)  # an archive ends with the length of its comment, two bytes
    file.write(SEAL_SIZE.to_bytes(2, "little") + MARK % loading.count_updates(obj))
    file.flush()
    with open(file.name, "rb") as written:
        file.write(_hash(written, file.tell()).encode())


def find_damage(path: str | Path) -> str | None:
    """Why a checkpoint is incomplete, as the end of a sentence about it; None if it is complete."""
    try:
        if not Path(path).is_file():  # a pipe would block the reader
            return "is missing, or no file"
        with open(path, "rb") as file:
            tail = _read_tail(file)
            if tail.startswith(END) and not _is_sealed(file, tail):
                return "is damaged: its SHA-256 is not the one it was written with"
        # torch writes no comment; any other ending, such as half a seal, is damage.
        if not (tail.startswith(END) or (tail[-END_SIZE:].startswith(END) and tail.endswith(b"\0\0"))):
            return "is cut off, or was never a checkpoint"
        loading.check_records(Path(path))
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    except Exception as error:  # damaged archives raise many kinds of errors
        return f"is damaged, or was never a checkpoint ({in_short(error)})"
    return None


def find_newest(folder: str | Path, suffix: str = "") -> tuple[Path | None, list[Path]]:
    """Find the complete checkpoint in ``folder`` with the most updates, and the damaged ones that claim more.

    Checkpoints are files with fairseq-train's names and the --checkpoint-suffix ``suffix``. Files without a seal count
    as older than all sealed ones, and are ordered by modification time. Files older than the result are not read.
    """
    name = re.compile(rf"checkpoint(_last|_best|\d+|_\d+_\d+|\.best_.+){re.escape(suffix)}\.pt")
    paths = [path for path in Path(folder).iterdir() if name.fullmatch(path.name)] if Path(folder).is_dir() else []
    damaged = []
    for path in sorted(paths, key=_age, reverse=True):
        if find_damage(path) is None:
            return path, damaged
        damaged.append(path)
    return None, damaged


def count_updates(path: str | Path) -> int | None:
    """The number of updates in a checkpoint's seal; None if it has none."""
    if not Path(path).is_file():
        return None
    with open(path, "rb") as file:
        seal = SEAL.fullmatch(_read_tail(file)[-SEAL_SIZE:])
    return int(seal[1]) if seal else None


def _age(path: Path) -> tuple[int, float, str]:
    updates = count_updates(path)
    return -1 if updates is None else updates, path.lstat().st_mtime, path.name


def _read_tail(file: BinaryIO) -> bytes:
    """Read the end of a file, which in a sealed one is the archive's last record with the seal as its comment."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - END_SIZE - SEAL_SIZE))
    return file.read(END_SIZE + SEAL_SIZE)


def _is_sealed(file: BinaryIO, tail: bytes) -> bool:
    digest = _hash(file, file.seek(0, os.SEEK_END) - DIGITS)
    return bool(SEAL.fullmatch(tail[-SEAL_SIZE:])) and tail.endswith(digest.encode())


def _hash(file: BinaryIO, size: int) -> str:
    """The SHA-256 of the first ``size`` bytes."""
    sha256 = hashlib.sha256()
    file.seek(0)
    while size > 0 and (chunk := file.read(min(CHUNK, size))):
        sha256.update(chunk)
        size -= len(chunk)
    return sha256.hexdigest()
