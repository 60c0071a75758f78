"""What is damaged, or does not fit together, is refused in one sentence that names the file."""

import json
import os
import pickle
import shutil
import struct
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
from tests.builders import Touch
from tests.trained import make_checkpoint

State = dict[str, Any]


def assert_refused(path: Path, name: str) -> None:
    with pytest.raises(InputError) as error:
        rnnsearch_fairseq.load(path)
    assert name in str(error.value) and "\n" not in str(error.value)


# -- checkpoints --


def test_a_pickle_that_calls_a_function_is_not_followed(tmp_path: Path) -> None:
    torch.save({**make_checkpoint(), "x": Touch(tmp_path / "touched")}, tmp_path / "model.pt")
    assert_refused(tmp_path / "model.pt", "rnnsearch export")
    assert not (tmp_path / "touched").exists()


def test_what_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    whole = tmp_path / "whole.pt"
    torch.save(make_checkpoint(), whole)
    contents = {
        "cut.pt": whole.read_bytes()[:-5000],
        "legacy.pt": pickle.dumps(make_checkpoint()),
        "text.pt": b"the dog",
        "empty.pt": b"",
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
        assert_refused(tmp_path / name, name)
    os.mkfifo(tmp_path / "pipe")
    assert_refused(tmp_path / "pipe", "pipe")
    (tmp_path / "dangling.pt").symlink_to(tmp_path / "nothing")
    assert_refused(tmp_path / "missing.pt", "the newest beside it is")
    assert_refused(tmp_path / ("long" * 100), "long")


def set_option(name: str, value: Any) -> Callable[[State], None]:
    return lambda state: state["cfg"]["model"].update({name: value})


def set_text(name: str, value: Any) -> Callable[[State], None]:
    return lambda state: state["model"]["_extra_state"].update({name: value})


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (set_option("embedding_size", 1 << 70), "its options build no model"),
        (set_option("hidden_size", "many"), "--hidden-size"),
        (set_option("hidden_size", 33), "(33,)"),
        (set_option("context", "last"), "another architecture"),
        (set_option("_name", "transformer"), "'transformer'"),
        (set_option("_name", ["rnnsearch"]), "its model is"),
        (set_text("languages", ["../x", "fr"]), "languages"),
        (set_text("vocabularies", [[1], [2]]), "<s> <pad>"),
        (set_text("vocabularies", [["<s>", "<pad>", "</s>", "<unk>", "chien\n"]] * 2), "'chien\\n'"),
        (set_text("preparation", [{"odd": 1}] * 2), "train or convert"),
        (lambda state: state["model"].pop("_extra_state"), "vocabularies"),
        (lambda state: state["model"].update({"x": torch.zeros(1)}), "x is in it only"),
        (lambda state: state["model"].update({5: torch.zeros(1)}), "a parameter has no name"),
        (lambda state: state.update(cfg=None), "options"),
    ],
)
def test_values_that_do_not_fit_are_refused(tmp_path: Path, change: Callable[[State], Any], named: str) -> None:
    state = make_checkpoint()
    change(state)
    torch.save(state, tmp_path / "model.pt")
    assert_refused(tmp_path / "model.pt", "model.pt")
    assert_refused(tmp_path / "model.pt", named)


def test_numbers_of_numpy_are_read(tmp_path: Path) -> None:
    state = make_checkpoint()
    state["extra_state"]["metrics"] = [np.float64(1.5), np.arange(3)]  # from --eval-bleu
    torch.save(state, tmp_path / "model.pt")
    assert rnnsearch_fairseq.load(tmp_path / "model.pt").translate("The dog sleeps.") == "le chien dort."


# -- folders --


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An exported model, with the subwords' file of BPE."""
    state = make_checkpoint()
    for one in state["model"]["_extra_state"]["preparation"]:
        one["bpe"] = "#version: 0.2\nt h\n"
    torch.save(state, tmp_path / "model.pt")
    export(str(tmp_path / "model.pt"), tmp_path / "folder")
    return tmp_path / "folder"


@pytest.mark.parametrize("name", ["config.json", "vocabulary.source.txt", "bpe.codes", "model.safetensors"])
@pytest.mark.parametrize("kind", ["link", "missing"])
def test_links_and_missing_files_are_refused(folder: Path, name: str, kind: str) -> None:
    shutil.move(folder / name, folder.parent / name)
    if kind == "link":
        (folder / name).symlink_to(folder.parent / name)
    assert_refused(folder, name)


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
        (set_config("models", to=[]), "no models"),
        (set_config("models", to=7), "configuration"),
        (set_config("languages", to="en"), "languages"),
        (set_config("preparation", "en", "subwords", to="../bpe.codes"), "'../bpe.codes'"),
        (set_config("search", to={"beam": 0}), "--beam"),
        (set_config("search", to={"length_statistics": "/etc/passwd"}), "length_statistics"),
        (set_config("examples", to=[1]), "examples"),
    ],
)
def test_a_configuration_names_no_files_and_no_impossible_values(
    folder: Path, change: Callable[[Any], None], named: str
) -> None:
    config = json.loads((folder / "config.json").read_text())
    change(config)
    (folder / "config.json").write_text(json.dumps(config))
    assert_refused(folder, "config.json")
    assert_refused(folder, named)


@pytest.mark.parametrize("content", [b"", b"[" * 10**5, b"\xff", b"7", b" " * 10**7])
def test_what_is_no_configuration_is_refused(folder: Path, content: bytes) -> None:
    (folder / "config.json").write_bytes(content)
    assert_refused(folder, "config.json")


def test_parameters_of_another_kind_or_size_are_refused(folder: Path) -> None:
    path = folder / "model.safetensors"
    whole, tensors = path.read_bytes(), {name: tensor.clone() for name, tensor in load_file(path).items()}
    size = struct.unpack("<Q", whole[:8])[0]
    header = json.loads(whole[8 : 8 + size])
    header["decoder.from_summary.bias"]["shape"] = [1 << 40]
    declared = json.dumps(header).encode()
    for content in (
        whole[:-5],
        struct.pack("<Q", len(declared)) + declared + whole[8 + size :],
        (folder.parent / "model.pt").read_bytes(),
        b"",
    ):
        path.write_bytes(content)
        assert_refused(folder, "model.safetensors: not a file of tensors")
    save_file({**tensors, "x": torch.zeros(1)}, path)
    assert_refused(folder, "x is in it only")
    save_file({**tensors, "decoder.from_summary.bias": torch.zeros(7)}, path)
    assert_refused(folder, "(7,)")


def test_vocabularies_agree_with_the_matrices_that_share_their_words(tmp_path: Path) -> None:
    words = make_checkpoint()["model"]["_extra_state"]["vocabularies"][1]
    state = make_checkpoint(share_decoder_input_output_embed=True)
    state["cfg"]["model"]["share_all_embeddings"] = True
    names = [f"{half}.network.embedding.table.weight" for half in ("encoder", "decoder")]
    state["model"][names[0]] = state["model"][names[1]]
    state["model"]["_extra_state"]["vocabularies"] = [words, words]
    torch.save(state, tmp_path / "model.pt")
    export(str(tmp_path / "model.pt"), tmp_path / "folder")
    rnnsearch_fairseq.load(tmp_path / "folder")
    with (tmp_path / "folder" / "vocabulary.source.txt").open("a") as vocabulary:
        vocabulary.write("zebra 1\n")
    assert_refused(tmp_path / "folder", "--share-all-embeddings")


def test_symbols_that_are_no_words_are_refused(folder: Path) -> None:
    with (folder / "vocabulary.target.txt").open("a") as vocabulary:
        vocabulary.write("two words 1\n")
    assert_refused(folder, "vocabulary.target.txt")
