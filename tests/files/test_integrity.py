"""Which checkpoints are complete, and which is the newest."""

import hashlib
import io
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from rnnsearch_fairseq.files.integrity import (
    DIGITS,
    SealedFile,
    count_updates,
    find_broken_seal,
    find_damage,
    find_newest,
)

STATE = {"model": {"w": torch.arange(300.0)}, "extra_state": {"best": 1.5}}


def save_sealed(path: Path, updates: int, state: Any = STATE) -> Path:
    with path.open("wb") as file:
        sealed = SealedFile(file)
        torch.save(state, sealed)
        sealed.seal(updates)
    return path


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return save_sealed(tmp_path / "checkpoint_1_5.pt", 1234567)


@pytest.fixture
def unsealed(tmp_path: Path) -> Path:
    torch.save(STATE, tmp_path / "checkpoint_1_4.pt")
    return tmp_path / "checkpoint_1_4.pt"


def test_a_sealed_checkpoint_is_complete_and_an_archive_like_any_other(checkpoint: Path) -> None:
    assert find_damage(checkpoint) is None
    assert count_updates(checkpoint) == 1234567
    for mmap in (False, True):
        loaded = torch.load(checkpoint, mmap=mmap, weights_only=True)
        assert torch.equal(loaded["model"]["w"], STATE["model"]["w"])
    assert zipfile.ZipFile(checkpoint).testzip() is None
    content = checkpoint.read_bytes()
    assert hashlib.sha256(content[:-DIGITS]).hexdigest().encode() == content[-DIGITS:]


def test_every_flipped_bit_is_found(tmp_path: Path) -> None:
    path = save_sealed(tmp_path / "x.pt", 7, {"w": torch.ones(1)})
    content = bytearray(path.read_bytes())
    with path.open("r+b", buffering=0) as file:
        for position in range(len(content)):
            for bit in range(8):
                os.pwrite(file.fileno(), bytes([content[position] ^ 1 << bit]), position)
                assert find_damage(path) is not None, (position, bit)
            os.pwrite(file.fileno(), content[position : position + 1], position)
    assert find_damage(path) is None


@pytest.mark.parametrize("kind", ["checkpoint", "unsealed"])
def test_every_truncation_is_found(kind: str, request: pytest.FixtureRequest) -> None:
    path = request.getfixturevalue(kind)
    for size in reversed(range(path.stat().st_size)):
        os.truncate(path, size)
        assert find_damage(path) is not None, size


def test_a_broken_seal_is_told_from_none(checkpoint: Path, unsealed: Path, tmp_path: Path) -> None:
    assert find_broken_seal(checkpoint) is None
    assert find_broken_seal(unsealed) is None
    with pytest.raises(OSError, match="not a regular file"):
        find_broken_seal("/dev/zero")
    content = bytearray(checkpoint.read_bytes())
    content[300] ^= 1
    checkpoint.write_bytes(content)
    assert "its SHA-256 is not" in str(find_broken_seal(checkpoint))
    with pytest.raises(FileNotFoundError):
        find_broken_seal(tmp_path / "none")


def test_what_follows_the_end_is_found(checkpoint: Path) -> None:
    checkpoint.write_bytes(checkpoint.read_bytes() + bytes(4096))
    assert find_damage(checkpoint) is not None


def test_flipped_bits_of_records_are_found_without_a_seal(unsealed: Path) -> None:
    assert find_damage(unsealed) is None
    assert count_updates(unsealed) is None
    content = bytearray(unsealed.read_bytes())
    start = content.index(torch.arange(300.0).numpy().tobytes())
    for position in range(start, start + 1200, 7):
        content[position] ^= 4
        unsealed.write_bytes(content)
        assert "CRC-32" in find_damage(unsealed)
        content[position] ^= 4
    # Whatever a changed bit elsewhere makes of the archive, the answer is one of the two.
    for position in range(len(content)):
        unsealed.write_bytes(content[:position] + bytes([content[position] ^ 16]) + content[position + 1 :])
        assert find_damage(unsealed) is None or find_damage(unsealed).startswith("is ")


def test_files_that_are_none(tmp_path: Path) -> None:
    assert find_damage(tmp_path / "x.pt") == "is missing"
    assert find_damage(tmp_path) == "cannot be read (Is a directory)"
    (tmp_path / "empty.pt").touch()
    assert find_damage(tmp_path / "empty.pt") == "is cut off, or was never a checkpoint"


def test_checkpoints_of_before_the_archives_are_left_to_torch(tmp_path: Path) -> None:
    torch.save(STATE, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    assert find_damage(tmp_path / "old.pt") is None


def test_only_an_archive_without_a_comment_is_sealed() -> None:
    sealed = SealedFile(io.BytesIO())
    sealed.write(b"something else")
    with pytest.raises(ValueError, match="no archive"):
        sealed.seal(1)


def test_the_newest_is_the_one_with_the_most_updates(tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    assert find_newest(folder) == (None, [])
    folder.mkdir()
    names = ["checkpoint.best_loss_2.5000.pt", "checkpoint_1_20.pt", "checkpoint3.pt", "checkpoint_best.pt"]
    paths = [save_sealed(folder / name, 10 * (place + 1)) for place, name in enumerate(names)]
    for place, path in enumerate(paths):  # the time a file was copied says nothing
        os.utime(path, (0, 1000 - place))
    for name in ("crash.pt", "checkpoint_best-other.pt", "checkpoint_1_5.pt.tmp", "averaged.pt"):
        save_sealed(folder / name, 99)
    assert find_newest(folder) == (paths[3], [])
    assert find_newest(folder, "-other") == (folder / "checkpoint_best-other.pt", [])
    content = paths[3].read_bytes()
    paths[3].write_bytes(content[:200] + b"?" + content[201:])
    assert find_newest(folder) == (paths[2], [paths[3]])
    for path in paths[:3]:
        path.write_bytes(b"")
    newest, damaged = find_newest(folder)
    assert newest is None
    assert sorted(damaged) == sorted(paths)


def test_without_seals_the_newest_is_the_one_written_last(tmp_path: Path) -> None:
    for seconds, name in enumerate(("checkpoint_best.pt", "checkpoint_2_30.pt", "checkpoint_1_40.pt")):
        torch.save(STATE, tmp_path / name)
        os.utime(tmp_path / name, (0, seconds))
    assert find_newest(tmp_path)[0] == tmp_path / "checkpoint_1_40.pt"
    save_sealed(tmp_path / "checkpoint_1_10.pt", 10)
    os.utime(tmp_path / "checkpoint_1_10.pt", (0, 0))
    assert find_newest(tmp_path)[0] == tmp_path / "checkpoint_1_10.pt"
