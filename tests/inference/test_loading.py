"""What is damaged, or does not fit together, is refused in one sentence that names the file or the value."""

import json
import os
import pickle
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import rnnsearch_fairseq
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference.export import export
from rnnsearch_fairseq.text.vocabulary import SPECIAL
from tests.builders import Touch
from tests.trained import make_checkpoint

State = dict[str, Any]


def assert_refused(path: Path, name: str) -> None:
    with pytest.raises(InputError) as error:
        rnnsearch_fairseq.load(path)
    assert name in str(error.value) and path.name[:40] in str(error.value) and "\n" not in str(error.value)


# -- checkpoints --


def test_a_pickle_that_calls_a_function_is_not_followed(tmp_path: Path) -> None:
    torch.save({**make_checkpoint(), "x": Touch(tmp_path / "touched")}, tmp_path / "model.pt")
    assert_refused(tmp_path / "model.pt", "rnnsearch export")
    assert not (tmp_path / "touched").exists()


def test_what_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    torch.save(make_checkpoint(), tmp_path / "whole.pt")
    cut = (tmp_path / "whole.pt").read_bytes()[:-5000]
    for name, content in (("cut", cut), ("legacy", pickle.dumps(make_checkpoint())), ("text", b"the dog")):
        (tmp_path / name).write_bytes(content)
        assert_refused(tmp_path / name, "cannot be read")
    assert_refused(tmp_path / "missing.pt", "no such checkpoint")


def set_option(name: str, value: Any) -> Callable[[State], None]:
    return lambda state: state["cfg"]["model"].update({name: value})


class Odd(OrderedDict):
    """Once loaded, a dictionary that has a method less: a pickle may set attributes."""

    def __reduce__(self) -> tuple[Any, ...]:
        return OrderedDict, (), {"keys": 7, "get": 7, "items": 7}, None, iter(self.items())


def make_odd(*path: str) -> Callable[[State], None]:
    def change(state: State) -> None:
        for step in path[:-1]:
            state = state[step]
        state[path[-1]] = Odd(state[path[-1]])

    return change


def set_text(name: str, value: Any) -> Callable[[State], None]:
    return lambda state: state["model"]["_extra_state"].update({name: value})


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (set_option("hidden_size", "many"), "--hidden-size"),
        (set_option("hidden_size", 33), "(33,)"),
        (set_option("context", "last"), "another architecture"),
        (set_option("_name", "transformer"), "'transformer'"),
        (set_text("preparations", [{"odd": 1}] * 2), "'odd'"),
        (lambda state: state["model"].pop("_extra_state"), "cannot be read"),
        (lambda state: state["model"].update({5: torch.zeros(1)}), "names of parameters"),
        (lambda state: state["model"].update({"x": 5}), "x is in it only"),
        (lambda state: state["model"].update(dict.fromkeys(state["model"], 5)), "cannot be read"),
        (set_option("_name", ["rnnsearch"]), "cannot be read"),
        (lambda state: state["cfg"].update(model=["rnnsearch"]), "cannot be read"),
        (lambda state: state.update(optimizer_history=5), "cannot be read"),
        (set_text("preparations", [{"tokenizer": "odd"}] * 2), "tokenizer is"),
        (set_text("vocabularies", [[*SPECIAL, "a", 5]] * 2), "cannot be read"),
        (make_odd("model"), "cannot be read"),
        (make_odd("cfg"), "cannot be read"),
        (make_odd("cfg", "model"), "cannot be read"),
    ],
)
def test_values_that_do_not_fit_are_refused(tmp_path: Path, change: Callable[[State], Any], named: str) -> None:
    state = make_checkpoint()
    change(state)
    torch.save(state, tmp_path / "model.pt")
    assert_refused(tmp_path / "model.pt", named)


def test_numbers_of_numpy_are_read(tmp_path: Path) -> None:
    state = make_checkpoint()
    state["extra_state"]["metrics"] = [np.float64(1.5), np.arange(3)]  # from --eval-bleu
    torch.save(state, tmp_path / "model.pt")
    assert rnnsearch_fairseq.load(tmp_path / "model.pt").translate("The dog sleeps.") == "le chien dort."


# -- folders --


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An exported model with one matrix for all words, and the subwords' file of BPE."""
    state = make_checkpoint(share_decoder_input_output_embed=True)
    state["cfg"]["model"]["share_all_embeddings"] = True
    names = [f"{half}.network.embedding.table.weight" for half in ("encoder", "decoder")]
    state["model"][names[0]] = state["model"][names[1]]
    text = state["model"]["_extra_state"]
    text["vocabularies"][0] = text["vocabularies"][1]
    for preparation in text["preparations"]:
        preparation["bpe"] = "#version: 0.2\nt h\n"
    torch.save(state, tmp_path / "model.pt")
    export(str(tmp_path / "model.pt"), tmp_path / "folder")
    rnnsearch_fairseq.load(tmp_path / "folder")
    return tmp_path / "folder"


@pytest.mark.parametrize("name", ["config.json", "text.json", "model.safetensors"])
def test_missing_files_are_named_and_pipes_and_devices_are_not_read(folder: Path, name: str) -> None:
    (folder / name).unlink()
    assert_refused(folder, name)
    for make in (os.mkfifo, lambda path: path.symlink_to("/dev/zero")):
        make(folder / name)
        assert_refused(folder, f"{name}: cannot be read (not a regular file")
        (folder / name).unlink()


def set_config(*path: Any, to: Any) -> Callable[[Any], None]:
    def change(config: Any) -> None:
        for step in path[:-1]:
            config = config[step]
        config[path[-1]] = to

    return change


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (set_config("data", to="/etc"), "'data'"),
        (set_config("models", 0, "architecture", to="../x"), "'../x'"),
        (set_config("models", to=7), "config.json"),
        (set_config("search", to={"beem": 1}), "'beem'"),
    ],
)
def test_a_configuration_holds_no_impossible_values(folder: Path, change: Callable[[Any], None], named: str) -> None:
    config = json.loads((folder / "config.json").read_text())
    change(config)
    (folder / "config.json").write_text(json.dumps(config))
    assert_refused(folder, named)


def test_what_is_no_configuration_is_refused(folder: Path) -> None:
    for content in (b"", b"\xff", b"7"):
        (folder / "config.json").write_bytes(content)
        assert_refused(folder, "config.json")


def test_other_parameters_are_refused(folder: Path) -> None:
    path = folder / "model.safetensors"
    whole, tensors = path.read_bytes(), {name: tensor.clone() for name, tensor in load_file(path).items()}
    for content in (whole[:-5], (folder.parent / "model.pt").read_bytes(), b""):
        path.write_bytes(content)
        assert_refused(folder, "model.safetensors")
    for name, shape in (("x", "x is in it only"), ("decoder.from_summary.bias", "(7,)")):
        save_file({**tensors, name: torch.zeros(7)}, path)
        assert_refused(folder, shape)


def test_vocabularies_hold_words_and_agree_with_the_matrix_that_they_share(folder: Path) -> None:
    text = json.loads((folder / "text.json").read_text())
    for word, named in (("zebra", "--share-all-embeddings"), ("", "is empty")):
        (folder / "text.json").write_text(
            json.dumps({**text, "vocabularies": [[*text["vocabularies"][0], word], text["vocabularies"][1]]})
        )
        assert_refused(folder, named)
