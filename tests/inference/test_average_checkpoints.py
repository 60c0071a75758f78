import errno
import os
import sys
from pathlib import Path

import pytest
import torch

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.files.integrity import find_damage
from rnnsearch_fairseq.inference.average_checkpoints import average_checkpoints, main


def save(path: Path, **parameters: torch.Tensor) -> Path:
    torch.save({"model": parameters, "args": None, "cfg": None, "extra_state": {"epoch": int(path.stem[-1])}}, path)
    return path


def test_the_mean_of_every_parameter(tmp_path: Path) -> None:
    paths = [
        save(tmp_path / f"{k}.pt", weight=torch.full((2, 3), float(k)), half=torch.tensor([0.1], dtype=torch.bfloat16))
        for k in (1, 2, 6)
    ]
    average_checkpoints(paths, tmp_path / "mean.pt")
    mean = torch.load(tmp_path / "mean.pt")
    assert mean["model"]["weight"].eq(3).all()
    assert mean["model"]["half"].equal(torch.tensor([0.1], dtype=torch.bfloat16).float())
    assert mean["extra_state"] == {"epoch": 6}


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    first, other = save(tmp_path / "1.pt", a=torch.zeros(2)), save(tmp_path / "2.pt", a=torch.zeros(3))
    with pytest.raises(InputError, match=r"2\.pt: its parameters are not those of .*1\.pt"):
        average_checkpoints([first, other], tmp_path / "out.pt")
    with pytest.raises(InputError, match=r"3\.pt: no such checkpoint"):
        average_checkpoints([first, tmp_path / "3.pt"], tmp_path / "out.pt")
    with pytest.raises(InputError, match="name at least one"):
        average_checkpoints([], tmp_path / "out.pt")


def test_where_the_mean_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = save(tmp_path / "1.pt", a=torch.zeros(2))
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    cannot = [("folder", "not a file that can be written"), ("pipe", "not a file that can be written")]
    for name, why in [*cannot, ("missing/out.pt", r"cannot be written \(No such file or directory\)")]:
        with pytest.raises(InputError, match=f"{name}: {why}"):
            average_checkpoints([first], tmp_path / name)

    def run_out(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", run_out)
    before = first.read_bytes()
    with pytest.raises(InputError, match=r"1\.pt: cannot be written \(No space left on device\); make room"):
        average_checkpoints([first], first)
    assert first.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.pt", "folder", "pipe"]


def test_a_link_beside_the_mean_is_not_followed(tmp_path: Path) -> None:
    first = save(tmp_path / "1.pt", a=torch.ones(2))
    (tmp_path / "out.pt.tmp").symlink_to(tmp_path / "precious")
    (tmp_path / "precious").write_text("all that I have")
    average_checkpoints([first], tmp_path / "out.pt")
    assert find_damage(tmp_path / "out.pt") is None
    assert (tmp_path / "precious").read_text() == "all that I have"


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*words: str) -> None:
        monkeypatch.setattr(sys, "argv", ["average", *words])
        main()

    monkeypatch.chdir(tmp_path)
    for k in (1, 3):
        save(tmp_path / f"{k}.pt", a=torch.full((2,), float(k)))
    run("out.pt", "1.pt", "3.pt")
    assert capsys.readouterr().out == "average of 2 checkpoints -> out.pt\n"
    assert torch.load("out.pt")["model"]["a"].tolist() == [2, 2]
    with pytest.raises(InputError, match=r"^2.pt: no such checkpoint; the newest beside it is out.pt$"):
        run("other.pt", "1.pt", "2.pt")
    with pytest.raises(SystemExit, match="2"):
        run("other.pt")
    assert "the following arguments are required: checkpoints" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.pt", "3.pt", "out.pt"]
