"""Which checkpoints are complete, and which is the newest."""

import os
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from rnnsearch_fairseq.inference import loading
from rnnsearch_fairseq.patches.recovery.integrity import count_updates, find_damage, find_newest

STATE = {"model": {"w": torch.ones(3)}, "extra_state": {"best": 1.5}}


def save(path: Path, updates: Any) -> Path:
    with path.open("wb") as file:
        loading.save({**STATE, "optimizer_history": [{"num_updates": updates}]}, file)
    return path


def test_a_checkpoint_is_complete(tmp_path: Path) -> None:
    path = save(tmp_path / "x.pt", 1234567)
    assert (find_damage(path), count_updates(path)) == (None, 1234567)
    assert count_updates(save(path, None)) == 0


def test_a_flipped_bit_is_seen_or_changes_nothing(tmp_path: Path) -> None:
    path = save(tmp_path / "x.pt", 7)
    content = bytearray(path.read_bytes())
    with path.open("r+b", buffering=0) as file:
        for position in range(len(content)):
            os.pwrite(file.fileno(), bytes([content[position] ^ 1 << position % 8]), position)
            if find_damage(path) is None:
                loaded = torch.load(path, weights_only=True)
                assert torch.equal(loaded.pop("model")["w"], STATE["model"]["w"]), position
                assert loaded == {"extra_state": STATE["extra_state"], "optimizer_history": [{"num_updates": 7}]}
            os.pwrite(file.fileno(), content[position : position + 1], position)


def test_every_truncation_is_seen(tmp_path: Path) -> None:
    path = save(tmp_path / "x.pt", 7)
    for size in reversed(range(path.stat().st_size)):
        os.truncate(path, size)
        assert "is cut off, damaged, or was never a checkpoint" in (find_damage(path) or ""), size


@pytest.mark.parametrize("how", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
def test_a_compressed_record_is_never_unpacked(tmp_path: Path, how: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_unpacked(self: Any, *_: Any) -> None:
        pytest.fail("a record was unpacked")

    monkeypatch.setattr(zipfile.ZipExtFile, "read", is_unpacked)
    with zipfile.ZipFile(tmp_path / "x.pt", "w", how) as archive:
        archive.writestr("x/data.pkl", bytes(10**6))
    assert "it is compressed" in (find_damage(tmp_path / "x.pt") or "")


def test_a_folder_and_nothing_are_no_checkpoints(tmp_path: Path) -> None:
    for path in (tmp_path / "x.pt", tmp_path):
        assert find_damage(path) == "is missing, or no file"


def test_the_newest_is_the_one_with_the_most_updates(tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    assert find_newest(folder) == (None, [])
    folder.mkdir()
    names = ["checkpoint.best_loss_2.5000.pt", "checkpoint_1_20.pt", "checkpoint3.pt", "checkpoint_best.pt"]
    paths = [save(folder / name, 10 * (place + 1)) for place, name in enumerate(names)]
    for place, path in enumerate(paths):  # the time a file was copied says nothing
        os.utime(path, (0, 1000 - place))
    for name in ("crash.pt", "checkpoint_best-other.pt", "checkpoint_1_5.pt.tmp", "averaged.pt"):
        save(folder / name, 99)
    assert find_newest(folder) == (paths[3], [])
    assert find_newest(folder, "-other") == (folder / "checkpoint_best-other.pt", [])
    os.truncate(paths[3], 200)
    assert find_newest(folder) == (paths[2], [paths[3]])
    for path in paths[:3]:
        path.write_bytes(b"")
    assert find_newest(folder) == (None, sorted(paths))
