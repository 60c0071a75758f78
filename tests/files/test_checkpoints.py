"""Checkpoints from strangers: what fairseq writes is read, and what would do harm is refused before torch sees it."""

import argparse
import io
import os
import pickle
import re
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rnnsearch_fairseq  # noqa: F401 (lets torch read what fairseq writes)
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.files.checkpoints import (
    MOST_SETTINGS,
    RECORD,
    TensorEntry,
    check_checkpoint,
    check_model,
    check_settings,
    load_checkpoint,
)
from rnnsearch_fairseq.inference.average import average_checkpoints
from tests.builders import Touch


def save(path: Path, state: Any, **options: Any) -> Path:
    torch.save(state, path, **options)
    return path


def model(**parameters: torch.Tensor) -> dict[str, Any]:
    return {"model": OrderedDict(parameters)}


def text(words: str) -> bytes:
    return b"X" + len(words.encode()).to_bytes(4, "little") + words.encode()


def number(value: int) -> bytes:
    encoded = pickle.encode_long(value)
    return b"\x8a" + bytes([len(encoded)]) + encoded


def tensor(
    numbers: int, size: list[int], stride: list[int], offset: int = 0, key: str = "0", hooks: bytes = b")R"
) -> bytes:
    """The instructions that make a tensor of a record."""
    storage = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text(key) + text("cpu") + number(numbers) + b"tQ"
    shape = b"".join(b"(" + b"".join(map(number, axes)) + b"t" for axes in (size, stride))
    arguments = storage + number(offset) + shape + b"\x89ccollections\nOrderedDict\n" + hooks
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + arguments + b"tR"


def checkpoint(path: Path, value: bytes, records: dict[str, bytes] | None = None, **changes: Any) -> Path:
    """A file in which a parameter is what some instructions make."""
    content = b"\x80\x02}" + text("model") + b"}" + text("a") + value + b"ss."
    with zipfile.ZipFile(path, "w", **changes) as archive:
        archive.writestr("archive/data.pkl", content)
        archive.writestr("archive/version", "3\n")
        for name, record in (records or {"0": bytes(16)}).items():
            archive.writestr(f"archive/data/{name}", record)
    return path


# What fairseq writes


def test_what_fairseq_writes_is_read(tmp_path: Path) -> None:
    weight = torch.randn(3, 4)
    network = torch.nn.Linear(4, 3)
    state = {
        "args": argparse.Namespace(lr=[0.1], nested=argparse.Namespace(a=None)),
        "model": network.state_dict(),
        "extra_state": {
            "metrics": [("default", [(0, "loss", "AverageMeter", {"val": np.float64(0.5), "sum": weight})])]
        },
        "bleu": {
            "counts": np.array([1, 2, 3, 4]),
            "matrix": np.asfortranarray(np.ones((2, 3), ">f4")),
            "n": np.int64(3),
        },
        "parameters": [torch.nn.Parameter(weight), weight[1:], weight.T, weight.half(), weight.bfloat16(), weight[:0]],
        "others": [torch.arange(3), torch.tensor(2.0), torch.tensor([True]), 2**70, -1.5, "été", (), None],
    }
    path = save(tmp_path / "a.pt", state)
    found = check_checkpoint(path)
    assert found["model"] == {"weight": TensorEntry((3, 4), 48), "bias": TensorEntry((3,), 12)}
    assert found["others"][3:] == state["others"][3:]
    assert vars(found["args"])["lr"] == [0.1]
    check_model(found, path)
    loaded = load_checkpoint(path)
    assert torch.equal(loaded["model"]["weight"], network.weight)
    assert loaded["bleu"]["matrix"].tolist() == [[1, 1, 1], [1, 1, 1]]


def test_a_tensor_made_by_hand_is_read(tmp_path: Path) -> None:
    path = checkpoint(tmp_path / "a.pt", tensor(4, [2, 2], [2, 1]))
    assert load_checkpoint(path)["model"]["a"].tolist() == [[0, 0], [0, 0]]


# What would do harm

REFUSED: dict[str, tuple[bytes, str]] = {
    "more numbers than the record": (tensor(10**6, [10**6], [1]), "not as many numbers as it says"),
    "fewer numbers than the record": (tensor(3, [3], [1]), "not as many numbers"),
    "a record that is not there": (tensor(4, [4], [1], key="1"), "not as many numbers"),
    "more elements than numbers": (tensor(4, [5], [1]), "not as many numbers"),
    "one number for all elements": (tensor(4, [10**15], [0]), "not as many numbers"),
    "elements behind the end": (tensor(4, [2], [1], offset=3), "not as many numbers"),
    "a negative step": (tensor(4, [2], [-1], offset=1), "the size of a tensor is none"),
    "a negative size": (tensor(4, [-1], [1]), "the size of a tensor is none"),
    "a size of 2^64": (tensor(4, [0, 2**64], [1, 1]), "the size of a tensor is none"),
    "many axes": (tensor(4, [1] * 40, [1] * 40), "not as torch writes it"),
    "hooks": (tensor(4, [4], [1], hooks=b")R}" + text("_metadata") + b"NsbK\x01K\x01s"), "not as torch writes it"),
    "a new tensor": (b"ctorch\nFloatTensor\n" + number(10**9) + b"\x85R", r"names torch\.FloatTensor"),
    "new bytes": (b"c__builtin__\nbytearray\n" + number(10**10) + b"\x85R", r"names __builtin__\.bytearray"),
    "a new array": (b"cnumpy\nndarray\n(" + number(10**12) + b"\x85tR", "callable"),
    "a new array past its constructor": (b"cnumpy\nndarray\n(" + number(10**12) + b"\x85t\x81", "must be a type"),
    "a new type past its constructor": (b"cnumpy\ndtype\n" + text("f8") + b"\x85\x81", "must be a type"),
    "the type of all arrays": (b"cnumpy\ndtype\n(" + text("f8") + b"\x89\x89tR", "no plain number"),
    "an array of addresses": (b"cnumpy\ndtype\n(" + text("O8") + b"\x89\x88tR", "no plain number"),
    "text as long as twice itself": (b"c_codecs\nencode\n(" + text("a") + text("utf-16") + b"tR", "bytes are not"),
    "a class changed": (b"cargparse\nNamespace\n(N}" + text("__eq__") + b"Nstb", ""),
    "a tensor changed": (tensor(4, [4], [1]) + tensor(4, [4], [1]) + b"b", ""),
    "deep lists": (b"]" * 200 + b"a" * 199, "nested more than 100 deep"),
    "a list in itself": (b"]q\x01h\x01a", "holds itself"),
    "a dictionary in a tuple in itself": (b"}q\x01" + text("a") + b"h\x01\x85s", "holds itself"),
    "a tuple of 2^60 parts": (b"K\x01" + b"2\x86" * 60, "out of proportion"),
    "a key of many parts": (b"}" + b"K\x01" + b"2\x86" * 10 + b"Ns", "out of proportion"),
    "a far place in the memory": (b"Nr\xff\xff\xff\x7f", "remembers more than 250,000 objects"),
    "many instructions": (b"N0" * 500_000 + b"N", "has more than 1,000,000 instructions"),
    "many objects": (b"]\x94" * 250_001, "remembers more than 250,000 objects"),
    "text that is not there": (b"X\xff\xff\xff\x7f", "damaged"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_do_harm_is_refused(tmp_path: Path, name: str) -> None:
    instructions, message = REFUSED[name]
    path = checkpoint(tmp_path / "bad.pt", instructions)
    with pytest.raises(InputError, match=rf"bad\.pt: not a checkpoint \(.*{message}.*\); give one") as refusal:
        check_checkpoint(path)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("flags", [1, 2, 4, 8, 63])
@pytest.mark.parametrize("rest", [b"NNN", b"N(" + text("a") + b"t}"])
def test_numpy_is_told_nothing_about_memory(tmp_path: Path, flags: int, rest: bytes) -> None:
    state = b"(K\x03" + text("<") + rest + b"J\xff\xff\xff\xffJ\xff\xff\xff\xffK" + bytes([flags]) + b"tb"
    kind = b"cnumpy\ndtype\n(" + text("f8") + b"\x89\x88tR" + state
    scalar = (
        b"cnumpy.core.multiarray\nscalar\n(" + kind + b"c_codecs\nencode\n(" + text("A" * 8) + text("latin1") + b"tRtR"
    )
    with pytest.raises(InputError, match="no plain number"):
        check_checkpoint(checkpoint(tmp_path / "bad.pt", scalar))


@pytest.mark.parametrize("content", ["AAAAAAA", "A" * 9, ""])
def test_an_array_has_as_many_bytes_as_it_says(tmp_path: Path, content: str) -> None:
    array = io.BytesIO()
    torch.save(model(a=torch.zeros(1)) | {"x": np.zeros(1)}, array)
    with zipfile.ZipFile(array) as archive:
        records = {name: archive.read(name) for name in archive.namelist()}
    old = text("\0" * 8)
    assert old in records["archive/data.pkl"]
    records["archive/data.pkl"] = records["archive/data.pkl"].replace(old, text(content))
    with zipfile.ZipFile(tmp_path / "bad.pt", "w") as archive:
        for name, record in records.items():
            archive.writestr(name, record)
    with pytest.raises(InputError, match="an array has not as many numbers"):
        check_checkpoint(tmp_path / "bad.pt")


def test_code_is_not_run(tmp_path: Path) -> None:
    path = save(tmp_path / "bad.pt", {"model": {}, "a": [Touch(tmp_path / "made")]})
    for read in (check_checkpoint, load_checkpoint):
        with pytest.raises(
            InputError, match=rf"bad\.pt: not a checkpoint \(it names {os.name}\.mkdir, which may be code"
        ):
            read(path)
    assert not (tmp_path / "made").exists()
    torch.load(path, weights_only=False)
    assert (tmp_path / "made").exists(), "as it would have been"


def test_the_class_of_options_stays_as_it_is(tmp_path: Path) -> None:
    before = dict(vars(argparse.Namespace))
    for instructions in (b"cargparse\nNamespace\n}" + text("a") + b"K\x01sb", REFUSED["a class changed"][0]):
        with pytest.raises(InputError):
            check_checkpoint(checkpoint(tmp_path / "bad.pt", instructions))
    assert dict(vars(argparse.Namespace)) == before


def test_compressed_records_are_refused(tmp_path: Path) -> None:
    path = checkpoint(
        tmp_path / "a.pt", tensor(10**7, [10**7], [1]), {"0": bytes(4 * 10**7)}, compression=zipfile.ZIP_DEFLATED
    )
    assert path.stat().st_size < 10**5
    with pytest.raises(InputError, match="is compressed"):
        check_checkpoint(path)


def test_a_file_in_another_form_is_refused(tmp_path: Path) -> None:
    state = model(a=torch.zeros(2))
    old = save(tmp_path / "old.pt", state, _use_new_zipfile_serialization=False)
    script = tmp_path / "script.pt"
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), script)
    messages = {
        old: "not as torch.save has written it since torch 1.6",
        script: r"the record 'script/code/.*' is none that",
    }
    for path, message in messages.items():
        with pytest.raises(InputError, match=rf"{path.name}: not a checkpoint \(.*{message}"):
            load_checkpoint(path)
    good = save(tmp_path / "good.pt", state).read_bytes()
    for name, content in (("before.pt", b"PK" + good), ("empty.pt", b"")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=rf"{name}: not a checkpoint"):
            load_checkpoint(tmp_path / name)
    os.mkfifo(tmp_path / "pipe.pt")
    with pytest.raises(InputError, match=r"none\.pt: cannot be read"):
        check_checkpoint(tmp_path / "none.pt")


@pytest.mark.parametrize(
    "record",
    ["constants.pkl", "CONSTANTS.PKL", "code/__torch__.py", "DATA.pkl", "data/a", "data/", "model.json", "x", "../x"],
)
def test_a_record_that_torch_does_not_write_is_refused(tmp_path: Path, record: str) -> None:
    """With constants.pkl and code/, torch takes the file for TorchScript, which may run code, whatever data.pkl is."""
    path = checkpoint(tmp_path / "bad.pt", tensor(4, [4], [1]))
    check_checkpoint(path)
    for folder in ("archive", "other"):
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr(f"{folder}/{record}", b"")
        with pytest.raises(InputError, match=rf"the record '{folder}/{record}' is none that torch\.save writes"):
            check_checkpoint(path)
        path = checkpoint(tmp_path / "bad.pt", tensor(4, [4], [1]))


def test_records_of_another_folder_are_refused(tmp_path: Path) -> None:
    path = checkpoint(tmp_path / "bad.pt", tensor(4, [4], [1]))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("other/data/1", b"")
    with pytest.raises(InputError, match=r"bad\.pt: not a checkpoint"):
        check_checkpoint(path)


@pytest.mark.parametrize(
    "records",
    [
        ["data.pkl", "data/0", "version"],  # torch 1.6 to 2.0
        ["data.pkl", "byteorder", "data/0", "version", ".data/serialization_id"],  # to 2.6
        [
            "data.pkl",
            ".format_version",
            ".storage_alignment",
            "byteorder",
            "data/0",
            "version",
            ".data/serialization_id",
        ],
    ],
)
def test_the_records_of_every_torch_are_read(tmp_path: Path, records: list[str]) -> None:
    torch.save(model(a=torch.ones(2)), tmp_path / "new.pt")
    with zipfile.ZipFile(tmp_path / "new.pt") as archive:
        contents = {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}
    assert all(re.fullmatch(RECORD, name) for name in contents), "this torch writes nothing else"
    with zipfile.ZipFile(tmp_path / "old.pt", "w") as archive:
        for name in records:
            archive.writestr(f"old/{name}", contents.get(name, b"64" if "alignment" in name else b"1"))
    assert load_checkpoint(tmp_path / "old.pt")["model"]["a"].tolist() == [1, 1]


def test_every_truncated_checkpoint_is_refused(tmp_path: Path) -> None:
    content = save(tmp_path / "a.pt", model(a=torch.zeros(2, 3))).read_bytes()
    for length in range(0, len(content), 37):
        (tmp_path / "cut.pt").write_bytes(content[:length])
        with pytest.raises(InputError, match=r"cut\.pt: not a checkpoint \(.+\); give one that fairseq-train wrote"):
            check_checkpoint(tmp_path / "cut.pt")


def test_tensors_that_share_their_numbers_are_limited(tmp_path: Path) -> None:
    whole = torch.zeros(1000)
    check_checkpoint(save(tmp_path / "a.pt", model(**{f"p{n}": whole for n in range(5)})))
    many = {f"p{n}": whole[:].view(1000) for n in range(100)}
    with pytest.raises(InputError, match="its tensors are larger than the file"):
        check_checkpoint(save(tmp_path / "a.pt", model(**many)))


# Parameters and settings


@pytest.mark.parametrize("wrong", [None, [], {"a": 1.5}, {1: torch.zeros(1)}, {"a": [torch.zeros(1)]}, "text"])
def test_a_model_is_a_table_of_parameters(tmp_path: Path, wrong: Any) -> None:
    path = save(tmp_path / "bad.pt", {"model": wrong})
    with pytest.raises(InputError, match=r"bad\.pt: not a checkpoint \(its model is no table of parameters\)"):
        average_checkpoints([path], tmp_path / "mean.pt")
    assert not (tmp_path / "mean.pt").exists()


SECTIONS = {"task": {"data": "bin"}, "model": {"_name": "x"}}


@pytest.mark.parametrize(
    "state",
    [
        {"cfg": SECTIONS},
        {"cfg": None, "args": argparse.Namespace(a=[1, (2.5, None)])},
        {"cfg": {**SECTIONS, "x": [True]}},
    ],
)
def test_plain_settings_pass(state: dict[str, Any]) -> None:
    check_settings(state, Path("a.pt"))


@pytest.mark.parametrize(
    ("cfg", "message"),
    [
        (None, "it has no configuration"),
        ("task: {}\nmodel: {}", "it has no configuration"),
        ({"task": {}}, "it has no configuration"),
        ({"task": [], "model": {}}, "it has no configuration"),
        ({**SECTIONS, "common": {"user_dir": "${oc.env:HOME}"}}, r"'cfg\.common\.user_dir' holds '\$\{oc\.env:HOME\}'"),
        ({**SECTIONS, "x": [["a", "b${task.data}"]]}, r"'cfg\.x' holds"),
        ({**SECTIONS, "x": argparse.Namespace(y="${z}")}, r"'cfg\.x\.y' holds"),
        ({**SECTIONS, "${x}": 1}, "cfg has a key that is no name"),
        ({**SECTIONS, 1: 1}, "cfg has a key that is no name"),
        ({**SECTIONS, "x": b"bytes"}, r"'cfg\.x' is a bytes, which is no setting"),
        ({**SECTIONS, "x": TensorEntry((1,), 4)}, "is a TensorEntry, which is no setting"),
        ({**SECTIONS, "x": [0] * MOST_SETTINGS}, "more than 20,000 parts"),
    ],
)
def test_other_settings_are_refused(cfg: Any, message: str) -> None:
    with pytest.raises(InputError, match=rf"a\.pt: .*{message}.*; give one"):
        check_settings({"cfg": cfg}, Path("a.pt"))
