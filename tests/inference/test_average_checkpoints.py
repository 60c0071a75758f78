from pathlib import Path

import pytest
import torch

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference.average_checkpoints import average_checkpoints


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
    assert mean["model"]["half"].equal(torch.tensor([0.1], dtype=torch.bfloat16))
    assert mean["extra_state"] == {"epoch": 6}


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    first, other = save(tmp_path / "1.pt", a=torch.zeros(2)), save(tmp_path / "2.pt", a=torch.zeros(3))
    with pytest.raises(InputError, match=r"2\.pt: its parameters are not those of .*1\.pt"):
        average_checkpoints([first, other], tmp_path / "out.pt")
    with pytest.raises(InputError, match=r"3\.pt: no such checkpoint"):
        average_checkpoints([first, tmp_path / "3.pt"], tmp_path / "out.pt")
    with pytest.raises(InputError, match="name at least one"):
        average_checkpoints([], tmp_path / "out.pt")
