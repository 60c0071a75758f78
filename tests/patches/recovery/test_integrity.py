"""Which checkpoints are complete, and which is the newest."""

import hashlib
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from rnnsearch_fairseq.patches.recovery import integrity
from rnnsearch_fairseq.patches.recovery.integrity import DIGITS, count_updates, find_damage, find_newest

STATE = {"model": {"w": torch.arange(300.0)}, "extra_state": {"best": 1.5}}


def save_sealed(path: Path, updates: Any, state: dict[str, Any] = STATE) -> Path:
    with path.open("wb") as file:
        integrity.save_sealed({**state, "optimizer_history": [{"num_updates": updates}]}, file)
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


@pytest.mark.parametrize("updates", [None, "x"])
def test_what_has_no_number_of_updates_is_sealed_all_the_same(tmp_path: Path, updates: Any) -> None:
    assert count_updates(save_sealed(tmp_path / "x.pt", updates)) == 0


def test_every_flipped_bit_is_seen(tmp_path: Path) -> None:
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
def test_every_truncation_and_what_follows_the_end_is_seen(kind: str, request: pytest.FixtureRequest) -> None:
    path = request.getfixturevalue(kind)
    content = path.read_bytes()
    path.write_bytes(content + bytes(4096))
    assert find_damage(path) is not None
    path.write_bytes(content)
    for size in reversed(range(len(content))):
        os.truncate(path, size)
        assert find_damage(path) is not None, size


def test_flipped_bits_of_records_are_seen_without_a_seal(unsealed: Path) -> None:
    assert find_damage(unsealed) is None
    assert count_updates(unsealed) is None
    content = bytearray(unsealed.read_bytes())
    start = content.index(torch.arange(300.0).numpy().tobytes())
    for position in range(start, start + 1200, 7):
        content[position] ^= 4
        unsealed.write_bytes(content)
        assert find_damage(unsealed) == "is damaged, or was never a checkpoint (it is damaged)"
        content[position] ^= 4


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("how", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
def test_a_compressed_record_is_never_unpacked(
    tmp_path: Path, how: int, sealed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_unpacked(self: Any, *_: Any) -> None:
        pytest.fail("a record was unpacked")

    monkeypatch.setattr(zipfile.ZipExtFile, "read", is_unpacked)
    with zipfile.ZipFile(tmp_path / "x.pt", "w", how) as archive:
        archive.writestr("x/data.pkl", bytes(10**6))
        archive.comment = sealed * (integrity.MARK % 1 + b"0" * DIGITS)
    content = (tmp_path / "x.pt").read_bytes()
    if sealed:
        content = content[:-DIGITS] + hashlib.sha256(content[:-DIGITS]).hexdigest().encode()
    (tmp_path / "x.pt").write_bytes(content)
    assert find_damage(tmp_path / "x.pt") == "is damaged, or was never a checkpoint (it is compressed)"


def test_files_that_are_none(tmp_path: Path) -> None:
    for path in (tmp_path / "x.pt", tmp_path):
        assert find_damage(path) == "is missing, or no file"
    (tmp_path / "empty.pt").touch()
    assert find_damage(tmp_path / "empty.pt") == "is cut off, or was never a checkpoint"


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
