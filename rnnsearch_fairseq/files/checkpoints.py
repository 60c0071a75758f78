"""Write checkpoints, and check untrusted ones before torch loads them.

`torch.load` with weights_only=True runs no code from a file, but it allocates the sizes that the file declares, and
numpy's constructors, which fairseq's checkpoints need, trust the declared memory layout. So each file is read twice:
first here, where tensors and arrays are replaced by their sizes and only plain data is built, and then by torch.
"""

import argparse
import io
import math
import pickle
import re
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any, NamedTuple

import torch

from rnnsearch_fairseq.errors import InputError, in_short
from rnnsearch_fairseq.files.integrity import find_broken_seal, save_sealed
from rnnsearch_fairseq.files.pickles import NumberType, check_pickle, require
from rnnsearch_fairseq.output import open_output

# The records that torch.save has written since torch 1.6. TorchScript archives, which hold code, have others too.
RECORD = r"data\.pkl|data/\d+|version|byteorder|\.format_version|\.storage_alignment|\.data/serialization_id"
MOST_PICKLED = 8 << 20  # bytes of the pickle; the checkpoints of the tests use 0.3 % of it
MOST_LISTED = 16 << 20  # bytes of a zip file's directory, which takes about 60 for each tensor
MOST_SHARED = 8  # the most tensors of average size that may share one storage
MOST_AXES = 16  # of a tensor
MOST_SETTINGS = 20_000  # values in a configuration; fairseq's has about 700
CURE = "give one that fairseq-train wrote"

STORAGES = {
    **{"FloatStorage": 4, "DoubleStorage": 8, "HalfStorage": 2, "BFloat16Storage": 2, "LongStorage": 8},
    **{"IntStorage": 4, "ShortStorage": 2, "CharStorage": 1, "ByteStorage": 1, "BoolStorage": 1},
}


class TensorEntry(NamedTuple):
    """A tensor in a checkpoint: its shape and its number of bytes."""

    size: tuple[int, ...]
    bytes: int


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Load a checkpoint onto the CPU.

    Raises:
        InputError: the file cannot be read or is not a checkpoint.
    """
    check_model(check_checkpoint(path), path)
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise _not_a_checkpoint(path, in_short(error)) from error


def no_such_checkpoint(path: Path) -> InputError:
    """The error to raise where there is no file ``path``; it names the newest checkpoint of the folder.

    Until the first validation, training writes checkpoint_last.pt but no checkpoint_best.pt.
    """
    others = filter(Path.is_file, path.parent.glob("*.pt"))
    newest = max(others, key=lambda other: other.stat().st_mtime, default=None)
    cure = f"{CURE} to its --save-dir" if newest is None else f"the newest beside it is {newest.name}"
    return InputError(f"{path}: no such checkpoint; {cure}")


def write_checkpoint(state: dict[str, Any], path: Path) -> None:
    """Write a checkpoint with a seal; it appears as ``path`` only when it is complete.

    Raises:
        InputError: it cannot be written.
    """
    try:
        with open_output(path) as file:
            save_sealed(state, file)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror}); make room, or give another name") from error


def check_checkpoint(path: Path) -> dict[str, Any]:
    """Check that `torch.load` can read a file without running code and without using much more memory than its size.

    Returns:
        The file's content, with a :class:`TensorEntry` for each tensor.

    Raises:
        InputError: the file cannot be read, is not a fairseq checkpoint, or has changed since it was sealed.
    """
    try:
        if (broken := find_broken_seal(path)) is not None:
            raise InputError(f"{path}: it {broken}; put it back from a copy, or name another")
        content, sizes = _read_zip(path)
        check_pickle(content)
        reader = _Reader(content, sizes)
        state = reader.load()
        require(reader.total_bytes <= MOST_SHARED * sum(sizes.values()), "its tensors are larger than the file")
        require(isinstance(state, dict), f"it holds a {type(state).__name__}")
        return state
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}); {CURE}") from error
    except Exception as error:  # damaged files raise many kinds of errors
        raise _not_a_checkpoint(path, in_short(error)) from error


def check_model(state: dict[str, Any], path: Path) -> None:
    """Check that the result of `check_checkpoint` has a table of parameters.

    Raises:
        InputError: there is none.
    """
    model = state.get("model")
    if not isinstance(model, dict) or not all(
        isinstance(name, str) and isinstance(tensor, (torch.Tensor, TensorEntry)) for name, tensor in model.items()
    ):
        raise _not_a_checkpoint(path, "its model is no table of parameters")


def check_settings(state: dict[str, Any], path: Path) -> None:
    """Check that the configuration in the result of `check_checkpoint` holds plain values without interpolations.

    fairseq resolves interpolations such as ``${oc.env:HOME}`` before it saves, so its own checkpoints hold none.

    Raises:
        InputError: there is no configuration, or it holds something else.
    """
    cfg, args = state.get("cfg"), state.get("args")
    sections = isinstance(cfg, dict) and all(
        isinstance(cfg.get(name), (dict, argparse.Namespace)) for name in ("task", "model")
    )
    if not (isinstance(args, argparse.Namespace) if args is not None else sections):
        raise _not_a_checkpoint(path, "it has no configuration")
    pending: list[tuple[str, Any]] = [("cfg", cfg), ("args", args)]
    for name, value in pending:  # the loop appends to it
        value = vars(value) if isinstance(value, argparse.Namespace) else value
        if isinstance(value, dict):
            if not all(isinstance(key, str) and "${" not in key for key in value):
                raise InputError(f"{path}: {name} has a key that is no name; {CURE}")
            pending += [(f"{name}.{key}"[:60], inside) for key, inside in value.items()]
        elif type(value) in (list, tuple):
            pending += [(name, inside) for inside in value]
        elif isinstance(value, str) and "${" in value:
            raise InputError(f"{path}: {name!r} holds {value[:60]!r}, to be looked up on this computer; {CURE}")
        elif not isinstance(value, (str, int, float, type(None))):
            raise InputError(f"{path}: {name!r} is a {type(value).__name__}, which is no setting; {CURE}")
        if len(pending) > MOST_SETTINGS:
            raise InputError(f"{path}: its configuration has more than {MOST_SETTINGS:,} parts; {CURE}")


def _not_a_checkpoint(path: Path, why: str) -> InputError:
    return InputError(f"{path}: not a checkpoint ({why}); {CURE}")


class _Bounded(io.FileIO):
    """A file from which `zipfile` cannot read more than `MOST_LISTED` bytes at once."""

    def read(self, size: int | None = -1) -> bytes:
        if size is not None and size > MOST_LISTED:
            raise zipfile.BadZipFile(f"{size:,} bytes in one place")
        return super().read(size)


def _read_zip(path: Path) -> tuple[bytes, dict[str, int]]:
    """Read the pickle of a checkpoint, and the sizes in bytes of the storages by their keys in the pickle.

    Raises:
        zipfile.BadZipFile: the archive differs from torch's.
    """
    with _Bounded(path) as file:
        if file.read(2) != b"PK":
            raise zipfile.BadZipFile("not as torch.save has written it since torch 1.6")
        whole = file.seek(0, io.SEEK_END)
        records: dict[str, int] = {}
        for info in zipfile.ZipFile(file).infolist():
            name = info.filename.partition("/")[2]
            if not re.fullmatch(RECORD, name):
                raise zipfile.BadZipFile(f"the record {info.filename[:60]!r} is none that torch.save writes")
            if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size or name in records:
                raise zipfile.BadZipFile(f"the record {info.filename[:60]!r} is compressed or there twice")
            records[name] = info.file_size
        if sum(records.values()) > whole or records.get("data.pkl", whole) > MOST_PICKLED:
            raise zipfile.BadZipFile("no record data.pkl of a checkpoint, or of too many bytes")
        file.seek(0)
        # Use torch's own reader: in a crafted file, another reader could find another pickle.
        reader = torch._C.PyTorchFileReader(file)
        if set(reader.get_all_records()) != records.keys():
            raise zipfile.BadZipFile("its records are in several folders")
        content = reader.get_record("data.pkl")
    return content, {name.removeprefix("data/"): size for name, size in records.items() if name.startswith("data/")}


class _Reader(pickle.Unpickler):
    """Read a checkpoint's pickle, with sizes in place of tensors and arrays.

    Each name that a pickle may use has a stand-in here. A pickle could set attributes of a function or class of this
    module, or make an object of a class without its constructor, so no stand-in allows either.

    ``total_bytes`` sums the bytes of all tensors, and counts a shared storage once for each tensor.
    """

    def __init__(self, content: bytes, sizes: dict[str, int]) -> None:
        super().__init__(io.BytesIO(content), encoding="utf-8")
        self._sizes = sizes
        self._ndarray = object()
        self.total_bytes = 0

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" and name in STORAGES:
            return _Dtype(STORAGES[name])
        known = {
            "collections.OrderedDict": _OrderedDict,
            "argparse.Namespace": _Namespace,
            "torch._utils._rebuild_tensor_v2": self._tensor,
            "torch._utils._rebuild_parameter": self._parameter,
            "numpy.ndarray": self._ndarray,
            "numpy.dtype": lambda code, align, copy: NumberType(code, align, copy),
            "numpy.core.multiarray.scalar": lambda kind, content: kind.number(content),
            "numpy.core.multiarray._reconstruct": self._array,
            "_codecs.encode": self._bytes,
        }
        # numpy 2 renamed the module.
        found = known.get(f"{module}.{name}".replace("numpy._core.", "numpy.core."))
        require(found is not None, f"it names {module}.{name}, which may be code, and is not followed")
        return found

    def persistent_load(self, saved: Any) -> "_Storage":
        what, kind, key, location, numbers = saved
        are_texts = isinstance(key, str) and isinstance(location, str)
        require(what == "storage" and isinstance(kind, _Dtype) and are_texts, "a tensor has no numbers")
        fits = type(numbers) is int and self._sizes.get(key) == numbers * kind.bytes
        require(fits, "a tensor has not as many numbers as it says")
        return _Storage(numbers, kind.bytes)

    def _tensor(self, storage: Any, offset: Any, size: Any, stride: Any, grad: Any, hooks: Any) -> TensorEntry:
        is_plain = isinstance(storage, _Storage) and len(size) == len(stride) and len(size) <= MOST_AXES and not hooks
        require(is_plain, "a tensor is not as torch writes it")
        are_sizes = all(type(number) is int and 0 <= number < 2**63 for number in (offset, *size, *stride))
        require(are_sizes, "the size of a tensor is none")
        numbers = math.prod(size)
        last = offset + sum((length - 1) * step for length, step in zip(size, stride))
        fits = numbers == 0 or max(numbers - 1, last) < storage.numbers
        require(fits, "a tensor has not as many numbers as it says")
        self.total_bytes += numbers * storage.bytes
        return TensorEntry(tuple(size), numbers * storage.bytes)

    def _parameter(self, tensor: Any, grad: Any, hooks: Any) -> TensorEntry:
        require(isinstance(tensor, TensorEntry) and not hooks, "a parameter is not as torch writes it")
        return tensor

    def _array(self, kind: Any, shape: Any, code: Any) -> "_Array":
        require(kind is self._ndarray and shape == (0,) and code == b"b", "an array is not as numpy writes it")
        return _Array()

    def _bytes(self, text: Any, coding: Any) -> bytes:
        require(coding == "latin1", "bytes are not as pickle writes them")
        return text.encode("latin1")


class _Dtype(NamedTuple):
    """The type of a tensor's numbers, by the bytes of each."""

    bytes: int


class _Storage(NamedTuple):
    """The number of elements in a record, and the bytes of each."""

    numbers: int
    bytes: int


class _OrderedDict(OrderedDict):
    def __setstate__(self, state: Any) -> None:
        # `torch.nn.Module.state_dict` sets it.
        require(state.keys() == {"_metadata"}, "a table is not as torch writes it")


class _Namespace(argparse.Namespace):
    def __setstate__(self, state: Any) -> None:
        require(all(isinstance(name, str) for name in state), "options are not as argparse names them")
        vars(self).update(state)


class _Array:
    """Stand-in for `numpy.ndarray`."""

    def __setstate__(self, state: Any) -> None:
        version, shape, kind, _, content = state
        is_plain = version == 1 and isinstance(kind, NumberType) and isinstance(content, bytes)
        require(is_plain, "an array is not as numpy writes it")
        are_sizes = all(type(length) is int and length >= 0 for length in shape) and len(shape) <= MOST_AXES
        require(are_sizes, "the shape of an array is none")
        fits = math.prod(shape) * kind.dtype.itemsize == len(content)
        require(fits, "an array has not as many numbers as it says")
