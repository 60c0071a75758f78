"""Dictionaries of plain data from pickles, those of Python 2 included, and from JSON: nothing in a file is ever run.

A pickle is a program: `pickle.load` imports and calls whatever the file names. Here it can name nothing but numpy's
scalars, which GroundHog leaves among its settings, and even for those numpy's own constructors are not called.
"""

import io
import json
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from rnnsearch_fairseq.errors import InputError


def read_plain_dict(path: Path) -> dict[Any, Any]:
    """The dictionary in ``path``, a pickle (``.pkl``) of protocol 0 or later, or JSON (``.json``).

    Its keys and values that are Python 2 strings, which are bytes, become text as UTF-8; a byte that is not UTF-8
    becomes a lone surrogate, which no encoding takes (``surrogateescape``). What lies deeper is left as it is.

    Raises:
        InputError: if the file cannot be read, is neither kind, is damaged, names code or holds no dictionary.
    """
    if path.suffix not in (".pkl", ".json"):
        raise InputError(f"{path}: neither .pkl nor .json; give it the ending of what it is")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path") from error
    load = json.loads if path.suffix == ".json" else _load_pickle
    try:
        data = load(content)
    except Exception as error:  # a damaged file ends in any of a dozen kinds
        kind = "JSON" if path.suffix == ".json" else "a pickle of plain data"
        raise InputError(f"{path}: not {kind} ({error}); give the file as GroundHog wrote it, or as JSON") from error
    if not isinstance(data, dict):
        raise InputError(f"{path}: holds a {type(data).__name__}, not a dictionary; give the file that GroundHog wrote")
    return {_text(key): _text(value) for key, value in data.items()}


def _text(value: Any) -> Any:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def _load_pickle(content: bytes) -> Any:
    # Strings of Python 2 stay bytes, so that each can be decoded by itself, and a bad one named.
    return _Unpickler(io.BytesIO(content), encoding="bytes").load()


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Callable[..., Any]:
        if (module, name) == ("numpy", "dtype"):
            return _NumberType
        # numpy 2 renamed the module.
        if module in ("numpy.core.multiarray", "numpy._core.multiarray") and name == "scalar":
            # Made anew each time: a pickle can set attributes of what it has named.
            return lambda kind, content: kind.number(content)
        raise pickle.UnpicklingError(f"it names {module}.{name}, which may be code, and is not followed")


class _NumberType:
    """Stands for `numpy.dtype` in a pickle: plain numbers of at most eight bytes, and booleans."""

    def __init__(self, code: bytes | str, *_: Any) -> None:
        self.code = _text(code)
        self.order = "="
        if not re.fullmatch("b1|[iu][1248]|f[248]", self.code):
            raise pickle.UnpicklingError(f"a numpy value of type {self.code} is no plain number")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """``(version, byte order, ...)``; the rest describes arrays and records."""
        self.order = _text(state[1])
        if self.order not in ("<", ">", "|", "="):
            raise pickle.UnpicklingError(f"{self.order} is no byte order")

    def number(self, content: bytes) -> bool | int | float:
        """The one number in ``content``."""
        return np.frombuffer(content, self.order + self.code).item()
