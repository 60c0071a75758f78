"""What is damaged, or does not fit together, is refused in one sentence that names the file or the value."""

import json
import os
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import rnnsearch_fairseq
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference.export import export
from rnnsearch_fairseq.text.vocabulary import SPECIAL
from tests.builders import Touch
from tests.trained import change_text, make_checkpoint

State = dict[str, Any]
OPTIONS = "cfg", "model"


def assert_refused(path: Path, name: str) -> None:
    with pytest.raises(InputError) as error:
        rnnsearch_fairseq.load(path)
    assert name in str(error.value) and path.name[:40] in str(error.value) and "\n" not in str(error.value)


def put(*path: Any, to: Any) -> Callable[[Any], None]:
    """A change of one value in a checkpoint or a JSON document; a function computes it from the value before."""

    def change(state: Any) -> None:
        for step in path[:-1]:
            state = state[step]
        state[path[-1]] = to(state[path[-1]]) if callable(to) else to

    return change


def test_what_is_no_checkpoint_is_refused_and_calls_no_function(tmp_path: Path) -> None:
    torch.save(make_checkpoint(), tmp_path / "whole.pt")
    cut = (tmp_path / "whole.pt").read_bytes()[:-5000]
    for name, content in (("cut", cut), ("legacy", pickle.dumps(make_checkpoint())), ("text", b"the dog")):
        (tmp_path / name).write_bytes(content)
        assert_refused(tmp_path / name, "cannot be read")
    assert_refused(tmp_path / "missing.pt", "neither a checkpoint nor a folder that holds one, or config.json")
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "config.json").touch()
    assert_refused(tmp_path, f"give {tmp_path / 'inside'}")
    torch.save({**make_checkpoint(), "x": Touch(tmp_path / "touched")}, tmp_path / "model.pt")
    assert_refused(tmp_path / "model.pt", "give another model")
    assert not (tmp_path / "touched").exists()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (put(*OPTIONS, "hidden_size", to="many"), "--hidden-size"),
        (put(*OPTIONS, "hidden_size", to=33), "(33,)"),
        (put(*OPTIONS, "context", to="last"), "another architecture"),
        (put(*OPTIONS, "_name", to="transformer"), "'transformer'"),
        (partial(change_text, preparations=[{"odd": 1}] * 2), "'odd'"),
        (lambda state: state["model"].pop("_extra_state"), "cannot be read"),
        (put("model", 5, to=torch.zeros(1)), "cannot be read"),
        (put("model", "x", to=5), "x is in its file, and not in this code"),
        (put(*OPTIONS, to=["rnnsearch"]), "cannot be read"),
        (partial(change_text, vocabularies=[[*SPECIAL, "a", 5]] * 2), "cannot be read"),
    ],
)
def test_values_that_do_not_fit_are_refused(tmp_path: Path, change: Callable[[State], Any], named: str) -> None:
    state = make_checkpoint()
    change(state)
    torch.save(state, tmp_path / "model.pt")
    assert_refused(tmp_path / "model.pt", named)


# Folders: tests/inference/test_strangers.py draws hostile ones at random.


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An exported model."""
    torch.save(make_checkpoint(), tmp_path / "model.pt")
    export(str(tmp_path / "model.pt"), tmp_path / "folder")
    return tmp_path / "folder"


@pytest.mark.parametrize(
    ("name", "change", "named"),
    [
        ("config.json", put("data", to="/etc"), "'data'"),
        ("config.json", put("architecture", to="../x"), "'../x'"),
        ("config.json", put("config", to=7), "config.json"),
        ("config.json", put("search", to={"beem": 1}), "'beem'"),
        *(("config.json", content, "config.json") for content in (b"", b"\xff", b"7")),
        ("text.json", lambda text: text["vocabularies"][0].append("zebra"), "of other sizes"),
        ("text.json", lambda text: text["vocabularies"][0].append(""), "is empty"),
    ],
)
def test_a_folders_json_holds_no_impossible_values(folder: Path, name: str, change: Any, named: str) -> None:
    content = change
    if callable(change):
        change(document := json.loads((folder / name).read_text()))
        content = json.dumps(document).encode()
    (folder / name).write_bytes(content)
    assert_refused(folder, named)


def test_missing_files_pipes_devices_and_other_parameters_are_named(folder: Path) -> None:
    path = folder / "model.safetensors"
    whole, tensors = path.read_bytes(), {name: tensor.clone() for name, tensor in load_file(path).items()}
    for content in (whole[:-5], (folder.parent / "model.pt").read_bytes(), b""):
        path.write_bytes(content)
        assert_refused(folder, "model.safetensors")
    save_file({**tensors, "x": torch.zeros(7)}, path)
    assert_refused(folder, "x is in its file, and not in this code")
    for name in ("model.safetensors", "text.json", "config.json"):
        before = (folder / name).read_bytes()
        (folder / name).unlink()
        assert_refused(folder, name)
        for make in (os.mkfifo, lambda path: path.symlink_to("/dev/zero")):
            make(folder / name)
            assert_refused(folder, f"{name}: cannot be read (not a regular file)")
            (folder / name).unlink()
        (folder / name).touch()
        os.truncate(folder / name, 3 << 30)  # a sparse file
        assert_refused(folder, f"{name}: cannot be read (it has 3,221,225,472 bytes")
        (folder / name).write_bytes(before)
