"""What is replaced in fairseq: the table, whole files, the classes that checkpoints may hold, and command lines."""

import argparse
import errno
import pkgutil
import re
import shutil
import sys
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from fairseq.dataclass.configs import CheckpointConfig
from fairseq.distributed.utils import _TensorPlaceholder
from fairseq.file_io import PathManager
from omegaconf import OmegaConf

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.plugin import patches
from tests.builders import parse_training

README = Path(patches.__file__).with_name("README.md")


def test_the_table_is_short_explained_and_applied_once() -> None:
    """With "adadelta" of fairseq's registry, which the package's own replaces."""
    explained = re.findall(r"^\| `([\w.]+)` \|", README.read_text(encoding="utf-8"), re.MULTILINE)
    targets = [*patches.PATCHES, "fairseq.optim.OPTIMIZER_REGISTRY"]
    assert explained == [target.removeprefix("fairseq.") for target in targets]
    before = {target: pkgutil.resolve_name(target) for target in patches.PATCHES}
    assert all(hasattr(replaced, "__wrapped__") for replaced in before.values())
    patches.apply()
    assert all(pkgutil.resolve_name(target) is before[target] for target in patches.PATCHES)


def test_a_copy_that_cannot_be_finished_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, path = tmp_path / "new.pt", tmp_path / "old.pt"
    source.write_bytes(b"new")
    path.write_bytes(b"old")
    full = Mock(side_effect=OSError(errno.ENOSPC, "No space left on device"))
    with monkeypatch.context() as patch, pytest.raises(InputError, match="No space left"):
        patch.setattr(shutil, "copyfileobj", full)
        PathManager.copy(str(source), str(path), overwrite=True)
    assert path.read_bytes() == b"old"
    PathManager.copy(str(source), str(path), overwrite=True)
    assert path.read_bytes() == b"new"
    assert sorted(tmp_path.iterdir()) == [source, path], "what was unfinished is removed"


def test_what_fairseq_writes_loads_with_weights_only(tmp_path: Path) -> None:
    state = {
        "namespace": argparse.Namespace(arch="rnnsearch", lr=[0.25]),
        "numpy": [np.arange(3), np.zeros(1, np.int32), np.array([True]), np.float64(0.5), np.int64(3), np.float32(2)],
        "cfg": OmegaConf.create({"lr": [0.1], "n": 1, "name": "x", "flag": True, "none": None, "deep": {"a": 2.5}}),
        "model": _TensorPlaceholder(3),
    }
    torch.save(state, tmp_path / "x.pt")
    assert str(torch.load(tmp_path / "x.pt", weights_only=True)) == str(state)


# -- command lines --


@pytest.mark.parametrize(
    ("command", "error", "is_one_line"),
    [
        ("/bin/fairseq-train", FileNotFoundError(2, "No such file", "bin/dict.en.txt"), True),
        ("fairseq_cli/train.py", Exception("Size of sample #62\nis invalid"), True),
        ("/bin/fairseq-train", ValueError("a fault of the program"), False),
        ("fairseq/mine.py", FileNotFoundError("mine"), False),
    ],
)
def test_what_fairseq_says_of_bad_input_is_one_line(
    command: str, error: Exception, is_one_line: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(sys, "argv", [command])
    patches.print_in_one_line(lambda *_: None, type(error), error, None)
    assert capsys.readouterr().err == f"error: {' '.join(str(error).split())}\n" * is_one_line


@pytest.mark.parametrize(
    ("words", "hint"),
    [(["--arch", "bahdanau_gruu"], "bahdanau_gru"), (["--arch", "anmt", "--optimizr=x"], "--optimizer")],
)
def test_a_misspelt_word_is_answered_in_two_lines(
    words: list[str], hint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["fairseq-train", *words])
    with pytest.raises(SystemExit):
        parse_training(*words)
    mistake, hints = capsys.readouterr().err.splitlines()
    assert len(mistake) < 1000 and hints.startswith(f"did you mean {hint}? ")


def test_help_has_the_options_of_the_architecture_and_the_task(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_training("--help", "--arch", "tree2seq_small", "--task", "rnnsearch")
    shown = capsys.readouterr().out
    assert all(option in shown for option in ("--constituents", "--pool-batches", "--max-update"))
    assert "--alignment-size" not in shown


def test_an_architecture_alone_is_trained_as_in_the_paper_and_bf16_is_no_tpu() -> None:
    cfg = parse_training("--arch", "bahdanau_gru")
    assert (cfg.optimizer._name, cfg.criterion._name) == ("adadelta", "summed_nll")
    assert (cfg.dataset.batch_size, cfg.optimization.lr, cfg.optimization.clip_norm) == (80, [1.0], 1.0)
    cfg = parse_training("--arch", "bahdanau_gru", "--max-tokens", "99", "--lr", "3", "--bf16")
    assert (cfg.optimization.lr, cfg.common.bf16, cfg.common.tpu) == ([3.0], True, False)


@pytest.mark.parametrize("limit", [21, 22])
def test_a_training_whose_updates_are_done_ends(limit: int, tmp_path: Path) -> None:
    trainer = Mock(data_parallel_rank=1)
    trainer.get_num_updates.return_value, trainer.cfg.optimization.max_update = 22, limit
    with pytest.raises(SystemExit) as end:
        patches.resume(lambda *_: ({}, None), CheckpointConfig(save_dir=str(tmp_path)), trainer)
    assert end.value.code == 0
