"""Pickles as Python 2 wrote them, and files that are not what they should be."""

import contextlib
import io
import json
import os
import pickle
import re
import struct
from pathlib import Path

import numpy as np
import pytest

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.groundhog import pickles
from rnnsearch_fairseq.groundhog.pickles import read_plain_dict
from tests.builders import Touch
from tests.groundhog.pickled import SETTINGS, numpy_scalar, python2

READ = {
    "dim": 1000,
    "large": 70000,
    "long": -(2**31),
    "maxout_part": 2.0,
    "search": True,
    "reload": False,
    "oov": "UNK",
    "layer": "RecurrentLayer",
    "source": [b"a.h5", None],
}


def write(folder: Path, content: bytes, name: str = "state.pkl") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("protocol", [0, 1, 2])
def test_settings_as_python_2_wrote_them(tmp_path: Path, protocol: int) -> None:
    content = python2(SETTINGS, protocol)
    assert pickle.loads(content, encoding="bytes") == SETTINGS, "Python reads the same"
    assert read_plain_dict(write(tmp_path, content)) == READ


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_settings_as_python_3_writes_them(tmp_path: Path, protocol: int) -> None:
    values = {"été": 1, "search": True, "part": 2.0, "none": None, "all": [1, (2, "x"), {"a": 2**70}]}
    assert read_plain_dict(write(tmp_path, pickle.dumps(values, protocol))) == values
    assert read_plain_dict(write(tmp_path, json.dumps({"été": 1, "search": True}).encode(), "a.json")) == {
        "été": 1,
        "search": True,
    }


@pytest.mark.parametrize("protocol", [0, 1, 2])
def test_strings_of_python_2_are_utf_8(tmp_path: Path, protocol: int) -> None:
    content = python2({"été".encode(): 2, b"caf\xe9": 3, "noël": 4}, protocol)
    words = list(read_plain_dict(write(tmp_path, content)))
    assert words == ["été", "caf\udce9", "noël"]
    with pytest.raises(UnicodeEncodeError):
        words[1].encode()


# numpy's scalars, as numpy 1 and Python 2 pickle them: scalar(dtype(code, 0, 1) with its state (3, order, ...), bytes)


@pytest.mark.parametrize("protocol", [0, 1, 2])
@pytest.mark.parametrize(
    ("code", "order", "content", "value"),
    [
        (b"f8", b"<", struct.pack("<d", 1.5), 1.5),
        (b"f4", b">", struct.pack(">f", -0.25), -0.25),
        (b"f2", b"<", struct.pack("<e", 3.5), 3.5),
        (b"i8", b"<", struct.pack("<q", -(2**40)), -(2**40)),
        (b"i4", b">", struct.pack(">i", 5001), 5001),
        (b"u1", b"|", b"\xff", 255),
        (b"b1", b"|", b"\x01", True),
    ],
)
def test_numpys_numbers(
    tmp_path: Path, protocol: int, code: bytes, order: bytes, content: bytes, value: bool | int | float
) -> None:
    pickled = numpy_scalar(code, order, content, protocol)
    theirs = pickle.loads(pickled, encoding="bytes")[b"x"]
    assert isinstance(theirs, np.generic), "numpy itself reads the same"
    assert theirs == value
    ours = read_plain_dict(write(tmp_path, pickled))["x"]
    assert ours == value
    assert type(ours) is type(value)


def test_numpys_numbers_as_python_3_and_numpy_write_them_today(tmp_path: Path) -> None:
    values = {"a": np.float64(0.1), "b": np.int32(-3), "c": np.bool_(True)}
    assert read_plain_dict(write(tmp_path, pickle.dumps(values, 4))) == {"a": 0.1, "b": -3, "c": True}


@pytest.mark.parametrize(
    ("code", "order", "content"),
    [
        (b"O8", b"|", b"\x00" * 8),  # an address, were numpy to believe it
        (b"V8", b"|", b"\x00" * 8),
        (b"S8", b"|", b"abcdefgh"),
        (b"c16", b"<", b"\x00" * 16),
        (b"f8", b"x", b"\x00" * 8),
        (b"f8", b"<", b"\x00" * 7),
        (b"f8", b"<", b"\x00" * 16),
        (b"f8", b"<", b""),
    ],
)
def test_other_numpy_values_are_refused(tmp_path: Path, code: bytes, order: bytes, content: bytes) -> None:
    with pytest.raises(InputError, match=r"state\.pkl: not a pickle of plain data"):
        read_plain_dict(write(tmp_path, numpy_scalar(code, order, content, 2)))


# Files that are not what they should be


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("where", ["key", "value", "deep"])
def test_code_in_a_pickle_is_never_run(tmp_path: Path, protocol: int, where: str) -> None:
    target = tmp_path / "made"
    touch = Touch(target)
    values = {"key": {touch: 1}, "value": {"a": touch}, "deep": {"a": [{"b": (touch,)}]}}[where]
    content = pickle.dumps(values, protocol)
    pickle.load(io.BytesIO(content))
    assert target.exists(), "Python's own unpickler runs it"
    target.rmdir()
    with pytest.raises(InputError, match=rf"state\.pkl: not a pickle of plain data \(it names {os.name}\.mkdir"):
        read_plain_dict(write(tmp_path, content))
    assert not target.exists()


@pytest.mark.parametrize(
    "content",
    [
        b"(S'made'\nios\nmkdir\n.",  # INST
        b"(cos\nmkdir\nS'made'\no.",  # OBJ
        b"cos\nmkdir\n(S'made'\ntR.",  # REDUCE
        b"cos\nmkdir\n(S'made'\nt\x81.",  # NEWOBJ
        b"\x80\x04\x8c\x02os\x8c\x05mkdir\x93(\x8c\x04madetR.",  # STACK_GLOBAL
        b"cbuiltins\ngetattr\n.",
        b"c__builtin__\neval\n(S'1'\ntR.",
        b"ccopy_reg\n_reconstructor\n(cdatetime\ndate\nc__builtin__\nobject\nNtR.",
        b"cnumpy.core.multiarray\n_reconstruct\n.",
        b"cnumpy\ndtype.type\n.",
        b"cnumpy.core.multiarray\nscalar.__globals__\n.",
        b"Pmade\n.",  # a persistent id
        b"\x82\x01.",  # an extension
    ],
)
def test_every_way_to_name_code_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"state\.pkl: not a pickle of plain data"):
        read_plain_dict(write(tmp_path, content))
    assert not Path("made").exists()


@pytest.mark.parametrize(
    "meddling",
    [
        b"cnumpy\ndtype\n(NS'<'\ntb0",  # BUILD on the stand-in for dtype itself
        b"cnumpy\ndtype\n(N}S'number'\nNstb0",
        b"cnumpy.core.multiarray\nscalar\n(N}S'__defaults__'\n(I1\nI2\ntstb0",
        b"cnumpy.core.multiarray\nscalar\n}S'a'\nI1\nsb0",
    ],
)
def test_a_pickle_leaves_no_trace_for_the_next_one(tmp_path: Path, meddling: bytes) -> None:
    with contextlib.suppress(InputError):
        assert read_plain_dict(write(tmp_path, meddling + b"(d.")) == {}
    scalar = numpy_scalar(b"f8", b"<", struct.pack("<d", 1.5), 0)
    assert read_plain_dict(write(tmp_path, scalar)) == {"x": 1.5}


@pytest.mark.parametrize("protocol", [0, 1, 2])
def test_a_truncated_pickle_is_refused(tmp_path: Path, protocol: int) -> None:
    content = python2(SETTINGS, protocol)
    for length in range(len(content)):
        with pytest.raises(InputError, match=r"state\.pkl: not a pickle of plain data"):
            read_plain_dict(write(tmp_path, content[:length]))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("state.json", b'{"dim": 1', "not JSON"),
        ("state.json", b"", "not JSON"),
        ("state.json", b'{"caf\xe9": 1}', "not JSON"),
        ("state.json", b"[" * 100_000, "not JSON"),
        ("state.json", python2({b"dim": 1}, 2), "not JSON"),
        ("state.json", b"[1, 2]", "holds a list, not a dictionary"),
        ("state.pkl", b'{"dim": 1}', "not a pickle of plain data"),
        ("state.pkl", python2([1, 2], 2), "holds a list, not a dictionary"),
        ("state.pkl", b"not a pickle", "not a pickle of plain data"),
        ("state.txt", b"{}", r"neither \.pkl nor \.json"),
        ("state", b"{}", r"neither \.pkl nor \.json"),
    ],
)
def test_other_files_are_refused_in_one_sentence(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    with pytest.raises(InputError, match=rf"{re.escape(name)}: {message}.*; give") as refusal:
        read_plain_dict(write(tmp_path, content, name))
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("repeated", "limit"),
    [(b"N0", "MOST_INSTRUCTIONS"), (b"]0", "MOST_INSTRUCTIONS"), (b"N\x940", "MOST_REMEMBERED")],
)
def test_instructions_and_remembered_objects_are_counted(repeated: bytes, limit: str) -> None:
    """A long pickle is refused at the limit, and not read further."""
    most = getattr(pickles, limit)
    followed = []
    original = pickles._follow
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pickles, "_follow", lambda opcode, *rest: followed.append(opcode) or original(opcode, *rest))
        with pytest.raises(pickle.UnpicklingError, match=f"more than {most:,} "):
            pickles.check_pickle(repeated * (2 * most) + b"N.")
    counts = {"MOST_INSTRUCTIONS": len(followed), "MOST_REMEMBERED": sum(op.name == "MEMOIZE" for op in followed)}
    assert counts[limit] == most
    pickles.check_pickle(repeated * (most // 4) + b"N.")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_vocabulary_of_100_000_words_is_read(tmp_path: Path, protocol: int) -> None:
    words = {f"word{number}": number for number in range(100_000)}
    assert read_plain_dict(write(tmp_path, pickle.dumps(words, protocol))) == words


@pytest.mark.parametrize("name", ["none.pkl", "none.json"])
def test_missing_files_are_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=rf"{name}: cannot be read \(No such file or directory\); check the path"):
        read_plain_dict(tmp_path / name)
    (tmp_path / name).mkdir()
    with pytest.raises(InputError, match=rf"{name}: cannot be read \(Is a directory\)"):
        read_plain_dict(tmp_path / name)
