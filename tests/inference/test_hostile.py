"""Checkpoints and folders of strangers are refused in one sentence, before they run code or fill the memory."""

import copy
import functools
import importlib
import importlib.util
import json
import operator
import os
import pickle
import shutil
import struct
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import rnnsearch_fairseq
from rnnsearch_fairseq.documents import translate
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference.average import average_checkpoints
from rnnsearch_fairseq.inference.export import export
from tests.builders import Touch
from tests.trained import make_checkpoint

State = dict[str, Any]


def refused(path: Path, message: str, *, averages: bool = True) -> None:
    """Check that all that reads a model refuses it; ``averages``: `average_checkpoints`, too."""
    out = path.parent / "out"
    calls = [lambda: rnnsearch_fairseq.load(path), lambda: export(str(path), out), run(translate, path)]
    if importlib.util.find_spec("fastapi") is not None:
        calls.append(run(importlib.import_module("rnnsearch_fairseq.serve.main"), path))
    if averages:
        calls.append(lambda: average_checkpoints([path], out))
    for call in calls:
        with pytest.raises(InputError, match=message) as error:
            call()
        assert "\n" not in str(error.value)
        assert str(path) in str(error.value)
        assert not out.exists()


def run(command: ModuleType, path: Path) -> Callable[[], Any]:
    """A call of a command's main function with ``--model PATH``."""

    def call() -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", ["rnnsearch", "--model", str(path)])
            return command.main()

    return call


# Checkpoints


class Call:
    """Unpickled, it calls a function."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return self.call


@pytest.mark.parametrize("place", ["model", "cfg", "extra_state"])
def test_a_pickle_that_calls_a_function_is_not_followed(tmp_path: Path, place: str) -> None:
    state = make_checkpoint()
    state[place]["x"] = Touch(tmp_path / "touched")
    torch.save(state, tmp_path / "model.pt")
    refused(tmp_path / "model.pt", r"not a checkpoint \(it names posix\.mkdir, which may be code\)")
    assert not (tmp_path / "touched").exists()


@pytest.mark.parametrize("call", [Call(bytearray, 1 << 40), Call(torch.FloatTensor, 1 << 40)], ids=["bytes", "tensor"])
def test_functions_that_pytorch_allows_are_refused_too(tmp_path: Path, call: Call) -> None:
    torch.save({**make_checkpoint(), "x": call}, tmp_path / "model.pt")
    refused(tmp_path / "model.pt", "which may be code")


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    contents = {
        "legacy": pickle.dumps(make_checkpoint()),
        "text": b"the dog",
        "empty": b"",
        "zip": b"PK\5\6" + bytes(18),
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
        refused(tmp_path / name, "not a checkpoint")
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / "pipe", "no such checkpoint")


def rewrite(path: Path, change: Callable[[bytes], bytes], compression: int = zipfile.ZIP_STORED) -> None:
    """Change the pickle of a checkpoint, and perhaps compress its records."""
    with zipfile.ZipFile(path) as old:
        records = {name: old.read(name) for name in old.namelist()}
    with zipfile.ZipFile(path, "w", compression) as new:
        for name, content in records.items():
            new.writestr(name, change(content) if name.endswith("data.pkl") else content)


def test_compressed_records_are_refused(tmp_path: Path) -> None:
    torch.save(make_checkpoint(), tmp_path / "model.pt")
    rewrite(tmp_path / "model.pt", lambda content: content + bytes(10**7), zipfile.ZIP_DEFLATED)
    refused(tmp_path / "model.pt", "it is compressed")


def test_a_changed_bit_is_noticed(tmp_path: Path) -> None:
    torch.save(make_checkpoint(), tmp_path / "model.pt")
    content = bytearray((tmp_path / "model.pt").read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "model.pt").write_bytes(content)
    refused(tmp_path / "model.pt", "it is damaged")


def test_a_tensor_that_is_larger_than_the_file_is_refused(tmp_path: Path) -> None:
    state = make_checkpoint()
    state["model"] = {"only": torch.zeros(77), "_extra_state": state["model"]["_extra_state"]}
    torch.save(state, tmp_path / "model.pt")
    huge = b"\x8a\x06" + (1 << 42).to_bytes(6, "little")  # LONG1 in place of BININT1
    rewrite(tmp_path / "model.pt", lambda content: content.replace(b"K\x4d", huge))
    refused(tmp_path / "model.pt", "not a checkpoint")


def test_expanded_and_overlapping_tensors_are_refused(tmp_path: Path) -> None:
    name = "encoder.network.embedding.table.weight"
    for kind in ("expanded", "transposed", "overlapping"):
        state = make_checkpoint()
        shape = state["model"][name].shape
        if kind == "overlapping":
            memory = torch.zeros(10**6)
            state["model"] |= {f"x{number}": memory[number:-9] for number in range(9)}
        else:
            state["model"][name] = torch.zeros(1).expand(shape) if kind == "expanded" else torch.zeros(shape[::-1]).T
        torch.save(state, tmp_path / f"{kind}.pt")
        why = "its parameters are larger than the file" if kind == "overlapping" else "a parameter is no plain tensor"
        refused(tmp_path / f"{kind}.pt", why)


def set_option(name: str, value: Any) -> Callable[[State], None]:
    return lambda state: state["cfg"]["model"].update({name: value})


def set_text(name: str, value: Any) -> Callable[[State], None]:
    return lambda state: state["model"]["_extra_state"].update({name: value})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_option("embedding_size", 1 << 45), "its options build no model|is of the shape"),
        (set_option("embedding_size", 1 << 70), "its options build no model"),
        (set_option("hidden_size", -1), "--hidden-size is -1"),
        (set_option("maxout_pool", 0), "--maxout-pool is 0"),
        (set_option("hidden_size", "many"), "--hidden-size cannot be 'many'"),
        (set_option("dropout", float("nan")), "--dropout cannot be nan"),
        (set_option("context", "nothing"), "--context cannot be 'nothing'"),
        (set_option("hidden_size", 33), "is of the shape"),
        (set_option("context", "last"), "its parameters are another model's"),
        (set_option("_name", "transformer"), "its model is 'transformer'"),
        (set_text("languages", ["../x", "fr"]), "are not two short names like en"),
        (set_text("vocabularies", [[], []]), "does not begin with <s> <pad>"),
        (set_text("vocabularies", [[1], [2]]), "does not begin with <s> <pad>"),
        (set_text("preparation", [{"bpe": "/etc/passwd"}] * 2), "not the options of a preparation"),
        (lambda state: state["model"].pop("_extra_state"), "it does not hold its vocabularies"),
        (lambda state: state["model"].update(x=torch.zeros(1)), r"are another model's \(x is in the file"),
    ],
)
def test_absurd_values_are_refused(tmp_path: Path, change: Callable[[State], Any], message: str) -> None:
    state = make_checkpoint()
    change(state)
    torch.save(state, tmp_path / "model.pt")
    refused(tmp_path / "model.pt", message, averages=False)


def places(value: Any, *at: Any) -> Iterator[tuple[Any, ...]]:
    """The keys that lead to each value in a checkpoint but the tensors; of a list, to its first two."""
    items = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, inner in items:
        if not isinstance(inner, torch.Tensor):
            yield (*at, key)
            yield from places(inner, *at, key)


@pytest.mark.parametrize(
    "odd",
    [..., None, "<script>|\n# x", -0.5, float("nan"), 10**600, [], b"\xff", torch.ones(2)],
    ids=lambda odd: repr(odd)[:20],
)
def test_an_odd_value_anywhere_ends_in_one_sentence_or_in_a_clean_model_card(tmp_path: Path, odd: Any) -> None:
    """In the place of each value; ``...``: the value is missing."""
    whole = make_checkpoint()
    for number, (*outer, key) in enumerate(places(whole)):
        state = copy.deepcopy(whole)
        holder = functools.reduce(operator.getitem, outer, state)
        holder[key] = odd
        if odd is ...:
            del holder[key]
        torch.save(state, tmp_path / "model.pt")
        try:
            export(str(tmp_path / "model.pt"), tmp_path / str(number))
        except InputError as error:
            assert "\n" not in str(error) and not (tmp_path / str(number)).exists()
        else:
            assert "script" not in (tmp_path / str(number) / "README.md").read_text()


def test_values_that_double_at_each_level_are_not_followed(tmp_path: Path) -> None:
    for change in (
        lambda nested: set_option("_name", nested),
        lambda nested: set_option("hidden_size", nested),
        lambda nested: set_text("languages", nested),
        lambda nested: set_text("vocabularies", nested),
    ):
        nested: list[Any] = []
        for _ in range(60):
            nested = [nested, nested]
        state = make_checkpoint()
        change(nested)(state)
        torch.save(state, tmp_path / "model.pt")
        refused(tmp_path / "model.pt", ": ", averages=False)


# Folders


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An exported model, with the subwords' file of BPE."""
    state = make_checkpoint()
    for one in state["model"]["_extra_state"]["preparation"]:
        one["bpe"] = "#version: 0.2\nt h\n"
    torch.save(state, tmp_path / "model.pt")
    export(str(tmp_path / "model.pt"), tmp_path / "folder")
    rnnsearch_fairseq.load(tmp_path / "folder")
    return tmp_path / "folder"


@pytest.mark.parametrize("name", ["config.json", "vocabulary.source.txt", "bpe.codes", "model.safetensors"])
@pytest.mark.parametrize("kind", ["link", "missing", "folder"])
def test_links_and_missing_files_are_refused(folder: Path, name: str, kind: str) -> None:
    shutil.move(folder / name, folder.parent / name)
    if kind == "link":
        (folder / name).symlink_to(folder.parent / name)
    elif kind == "folder":
        (folder / name).mkdir()
    missing = kind == "missing" and name == "config.json"
    refused(folder, "holds no config.json" if missing else "no such plain file", averages=False)


def set_config(*path: Any, to: Any) -> Callable[[Any], None]:
    def change(config: Any) -> None:
        for step in path[:-1]:
            config = config[step]
        config[path[-1]] = to

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_config("data", to="/etc"), "it must have languages, models and preparation"),
        (set_config("models", 0, "config", "data", to="/etc/passwd"), "has the unknown option 'data'"),
        (set_config("models", 0, "config", "hidden_size", to=1 << 40), "its options build no model|is of the shape"),
        (set_config("models", 0, "config", "hidden_size", to=[32]), "is of the shape"),
        (set_config("models", 0, "architecture", to="../x"), "the architecture '../x' is not"),
        (set_config("models", 0, "architecture", to=["rnnsearch"]), "is not rnnsearch or tree2seq"),
        (set_config("models", to=[]), "it has 0 models"),
        (set_config("models", to=[{"architecture": "rnnsearch", "config": {}}] * 10_000), "it has 10,000 models"),
        (set_config("languages", to=["../x", "fr"]), "two short names like en"),
        (set_config("languages", to="en"), "are not two short names like en"),
        (set_config("preparation", "en", "subwords", to="../bpe.codes"), "the subwords are '../bpe.codes'"),
        (set_config("preparation", "en", "bpe", to="../bpe.codes"), "an unknown option"),
        (set_config("preparation", to=7), "not a model's configuration"),
    ],
)
def test_a_configuration_names_no_files_and_no_absurd_sizes(
    folder: Path, change: Callable[[Any], None], message: str
) -> None:
    config = json.loads((folder / "config.json").read_text())
    change(config)
    (folder / "config.json").write_text(json.dumps(config))
    refused(folder, message, averages=False)


@pytest.mark.parametrize("content", [b"", b"[" * 10**5, b"\xff", b"7", b" " * 10**7, b'{"languages": NaN}'])
def test_what_is_no_configuration_is_refused(folder: Path, content: bytes) -> None:
    (folder / "config.json").write_bytes(content)
    refused(folder, "config.json: ", averages=False)


def test_parameters_of_another_kind_or_size_are_refused(folder: Path) -> None:
    path = folder / "model.safetensors"
    whole = path.read_bytes()
    size = struct.unpack("<Q", whole[:8])[0]
    header = json.loads(whole[8 : 8 + size])
    header["decoder.from_summary.bias"]["shape"] = [1 << 40]
    declared = json.dumps(header).encode()
    contents = [
        (whole[:-5], "not a file of tensors"),
        (struct.pack("<Q", 1 << 60) + whole[8:], "not a file of tensors"),
        (struct.pack("<Q", len(declared)) + declared + whole[8 + size :], "not a file of tensors"),
        ((folder.parent / "model.pt").read_bytes(), "not a file of tensors"),
        (b"", "not a file of tensors"),
    ]
    for content, message in contents:
        path.write_bytes(content)
        refused(folder, message, averages=False)
