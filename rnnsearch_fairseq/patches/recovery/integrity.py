"""Check that checkpoints are complete, without loading them, and find the newest.

A checkpoint is a zip archive, as `torch.save` writes it: its end tells whether it was cut off, and the CRC-32 of each
record whether it was changed.
"""

import re
import zipfile
from pathlib import Path

import torch

from rnnsearch_fairseq.errors import in_short
from rnnsearch_fairseq.inference import loading


def find_damage(path: str | Path) -> str | None:
    """Why a checkpoint is incomplete, as the end of a sentence about it; None if it is complete."""
    if not Path(path).is_file():  # a pipe would block the reader
        return "is missing, or no file"
    try:
        _check_records(Path(path))
        count_updates(path)  # PyTorch's reader checks more of the headers
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    except Exception as error:  # damaged archives raise many kinds of errors
        return f"is cut off, damaged, or was never a checkpoint ({in_short(error)})"
    return None


def _check_records(path: Path) -> None:
    """Check that the records of the archive are stored as they are, and undamaged; else any error is raised."""
    with zipfile.ZipFile(path) as archive:
        records = archive.infolist()
        if any(record.compress_type != zipfile.ZIP_STORED for record in records):
            raise ValueError("it is compressed")
        if sum(record.file_size for record in records) > path.stat().st_size or archive.testzip() is not None:
            raise ValueError("it is damaged")


def find_newest(folder: str | Path, suffix: str = "") -> tuple[Path | None, list[Path]]:
    """Find the complete checkpoint in ``folder`` with the most updates, and the damaged ones.

    Checkpoints are files with fairseq-train's names and the --checkpoint-suffix ``suffix``.
    """
    name = re.compile(rf"checkpoint(_last|_best|\d+|_\d+_\d+|\.best_.+){re.escape(suffix)}\.pt")
    paths = [path for path in Path(folder).iterdir() if name.fullmatch(path.name)] if Path(folder).is_dir() else []
    damaged = sorted(path for path in paths if find_damage(path) is not None)
    complete = [path for path in paths if path not in damaged]
    return max(complete, key=lambda path: (count_updates(path), path.stat().st_mtime), default=None), damaged


def count_updates(path: str | Path) -> int:
    """The updates of the training that saved a complete checkpoint."""
    return loading.count_updates(torch.load(path, map_location="cpu", weights_only=True, mmap=True))
