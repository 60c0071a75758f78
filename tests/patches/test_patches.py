"""What is replaced in fairseq: the table, whole files, and the classes that checkpoints may hold."""

import argparse
import os
import pkgutil
import re
from pathlib import Path
from typing import Any

import fairseq.checkpoint_utils
import numpy as np
import pytest
import torch
from fairseq.distributed.utils import _TensorPlaceholder
from fairseq.file_io import PathManager
from omegaconf import OmegaConf

from rnnsearch_fairseq import patches
from rnnsearch_fairseq.patches import PATCHES

README = Path(patches.__file__).with_name("README.md")


def test_the_table_is_short_explained_and_applied_once() -> None:
    """With "adadelta" of fairseq's registry, which the package's own replaces."""
    explained = re.findall(r"^\| `([\w.]+)` \|", README.read_text(encoding="utf-8"), re.MULTILINE)
    targets = [*PATCHES, "fairseq.optim.OPTIMIZER_REGISTRY"]
    assert explained == [target.removeprefix("fairseq.") for target in targets] and len(targets) <= 6
    before = {target: pkgutil.resolve_name(target) for target in PATCHES}
    assert all(hasattr(replaced, "__wrapped__") for replaced in before.values())
    patches.apply()
    assert all(pkgutil.resolve_name(target) is before[target] for target in PATCHES)


def test_a_file_that_cannot_be_finished_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save = fairseq.checkpoint_utils.torch_persistent_save
    path, source = str(tmp_path / "x.pt"), str(tmp_path / "y.pt")
    save({"a": 1}, path)
    save({"a": torch.zeros(9)}, source)

    def run_out(descriptor: int) -> None:
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", run_out)
        with pytest.raises(OSError, match="No space left"):
            save({"a": 2}, path)
        with pytest.raises(OSError, match="No space left"):
            PathManager.copy(source, path, overwrite=True)
    assert torch.load(path) == {"a": 1}
    PathManager.copy(source, path, overwrite=True)
    assert Path(path).read_bytes() == Path(source).read_bytes()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["x.pt", "y.pt"], "what was unfinished is replaced"


def objects_of_checkpoints() -> dict[str, Any]:
    config = OmegaConf.create({"lr": [0.1], "n": 1, "name": "x", "flag": True, "none": None, "deep": {"a": 2.5}})
    return {
        "namespace": argparse.Namespace(arch="rnnsearch", lr=[0.25]),
        "arrays": [np.arange(3), np.ones(2, np.float32), np.zeros(1, np.int32), np.array([True]), np.array([0.5])],
        "scalars": [np.float64(0.5), np.int64(3), np.float32(2)],
        "broadcast": {"cfg": config, "model": _TensorPlaceholder(3)},
    }


@pytest.mark.parametrize("name", objects_of_checkpoints())
def test_what_fairseq_writes_loads_with_weights_only(name: str, tmp_path: Path) -> None:
    torch.save(objects_of_checkpoints()[name], tmp_path / "x.pt")
    assert str(torch.load(tmp_path / "x.pt", weights_only=True)) == str(objects_of_checkpoints()[name])
