"""Read dictionaries of plain data from untrusted pickles, Python 2's included, and from JSON; no code in a file is run.

A pickle is a program: `pickle.load` imports and calls whatever the file names. Here it can name only numpy's scalars,
which GroundHog leaves among its settings, and they are read without numpy's constructors. :func:`check_pickle` bounds
the size of the result.
"""

import errno
import io
import json
import os
import pickle
import pickletools
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from rnnsearch_fairseq.errors import InputError, in_short

DEEPEST = 100  # nested lists; near 1,000, Python raises errors or even crashes
LARGEST_KEY = 100  # objects in a dictionary's key, which is hashed as a whole
REPEATED = 10  # the most objects in the value for each byte of the pickle
# A Transformer of 96 layers with Adam's moments has 195,394 instructions, and 46,849 of them memoize an object; a
# vocabulary of 30,000 words has 120,004 and 30,001.
MOST_INSTRUCTIONS = 1_000_000
MOST_REMEMBERED = 250_000

# Instructions that change the object below their operands on the stack.
_IN_PLACE = {"APPEND", "APPENDS", "SETITEM", "SETITEMS", "ADDITEMS", "BUILD"}
# The positions of dictionary keys and set elements among an instruction's operands.
_KEYS = {"ADDITEMS": slice(1, None), "FROZENSET": slice(None)}
_KEYS |= {"SETITEM": slice(1, None, 2), "SETITEMS": slice(1, None, 2), "DICT": slice(0, None, 2)}
# Instructions without operands that make an object which can change later; numbers and text cannot.
_MUTABLE = {"EMPTY_LIST", "EMPTY_DICT", "EMPTY_SET", "GLOBAL", "EXT1", "EXT2", "EXT4", "PERSID", "BYTEARRAY8"}
_PUTS, _GETS = ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"), ("GET", "BINGET", "LONG_BINGET", "DUP")


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading; a pipe or a device could block the reader for ever.

    Raises:
        OSError: it cannot be opened, or is not a regular file.
    """
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return file


def require(holds: bool, otherwise: str) -> None:
    """Raise `pickle.UnpicklingError` with the message ``otherwise`` unless the condition holds."""
    if not holds:
        raise pickle.UnpicklingError(otherwise)


def read_plain_dict(path: Path) -> dict[Any, Any]:
    """Read the dictionary in ``path``, a pickle (``.pkl``) of any protocol, or JSON (``.json``).

    Keys and values that are Python 2 strings, that is bytes, are decoded as UTF-8; invalid bytes become lone surrogates
    (``surrogateescape``). Bytes inside nested objects are not decoded.

    Raises:
        InputError: the file cannot be read, has another ending, is damaged, names code, or holds no dictionary.
    """
    if path.suffix not in (".pkl", ".json"):
        raise InputError(f"{path}: neither .pkl nor .json; give it the ending of its format")
    load, kind = (json.loads, "JSON") if path.suffix == ".json" else (_load_pickle, "a pickle of plain data")
    try:
        with open_regular(path) as file:
            content = file.read()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path") from error
    try:
        data = load(content)
    except Exception as error:  # damaged files raise many kinds of errors
        raise InputError(
            f"{path}: not {kind} ({in_short(error)}); give the file as GroundHog wrote it, or as JSON"
        ) from error
    if not isinstance(data, dict):
        raise InputError(f"{path}: holds a {type(data).__name__}, not a dictionary; give the file that GroundHog wrote")
    return {_text(key): _text(value) for key, value in data.items()}


def check_pickle(content: bytes) -> None:
    """Check that a pickle's value is not much larger than the pickle.

    A pickle can refer to one object many times, so that nested references double its size again and again, or put an
    object into itself. Hashing, copying or comparing such a value never ends. This function follows the stack without
    building any object, and counts each part once for each reference. Instructions cost time and memoized objects cost
    memory, so both are limited to several times the needs of the largest real files.

    Raises:
        pickle.UnpicklingError: the pickle is damaged, contains itself, is nested too deeply, grows out of proportion,
            or has too many instructions or memoized objects.
    """
    stack, marks, memo = [], [], {}
    largest = REPEATED * (len(content) + 100)
    try:
        for count, (opcode, argument) in enumerate(_instructions(content)):
            if count == MOST_INSTRUCTIONS:
                raise pickle.UnpicklingError(f"it has more than {MOST_INSTRUCTIONS:,} instructions")
            # Python's unpickler allocates memory up to the index that is given.
            if opcode.name in _PUTS and (len(memo) if argument is None else argument) >= MOST_REMEMBERED:
                raise pickle.UnpicklingError(f"it remembers more than {MOST_REMEMBERED:,} objects")
            _follow(opcode, argument, stack, marks, memo)
            require(not stack or stack[-1].size <= largest, "it grows out of proportion")
    except (ValueError, LookupError) as error:
        raise pickle.UnpicklingError("it is damaged") from error


def _instructions(content: bytes) -> Iterator[tuple[pickletools.OpcodeInfo, Any]]:
    """As `pickletools.genops`, which fails at strings of Python 2 that are not ASCII."""
    file = io.BytesIO(content)
    opcode = None
    while opcode is None or opcode.name != "STOP":
        opcode = pickletools.code2op[file.read(1).decode("latin-1")]
        if opcode.name == "STRING":
            yield opcode, file.readline()
        else:
            yield opcode, None if opcode.arg is None else opcode.arg.reader(file)


class _Part:
    """An object of a pickle: how many objects it holds, itself included, how deep it is, and whether it is shared."""

    __slots__ = ("depth", "referred", "size")

    def __init__(self, inside: "list[_Part]") -> None:
        self.size, self.depth, self.referred = 1, 1, False
        self.add(inside)

    def add(self, inside: "list[_Part]") -> None:
        require(not self.referred, "it holds an object that holds itself")
        self.size += sum(part.size for part in inside)
        self.depth = max([self.depth, *(part.depth + 1 for part in inside)])
        if self.depth > DEEPEST:
            raise pickle.UnpicklingError(f"it is nested more than {DEEPEST} deep")


_LEAF = _Part([])
_LEAF.referred = True  # it is shared, so it must never change


def _follow(
    opcode: pickletools.OpcodeInfo, argument: Any, stack: list[_Part], marks: list[int], memo: dict[int, _Part]
) -> None:
    """Apply an instruction to the stack; raises IndexError or KeyError if the stack or the memo lacks an operand."""
    name, before, inside = opcode.name, opcode.stack_before, []
    if name == "MARK":
        marks.append(len(stack))
    elif name in _PUTS:
        memo[len(memo) if name == "MEMOIZE" else argument] = stack[-1]
    elif name in _GETS:
        stack.append(stack[-1] if name == "DUP" else memo[argument])
        # An object that changes after this could contain itself.
        stack[-1].referred = True
    else:
        if pickletools.markobject in before:
            start = marks.pop()
            inside = stack[start:]
            del stack[start:]
            before = before[: before.index(pickletools.markobject)]
        parts = [stack.pop() for _ in before][::-1] + inside
        keys = parts[_KEYS.get(name, slice(0, 0))]
        require(all(key.size <= LARGEST_KEY for key in keys), "it grows out of proportion")
        if name in _IN_PLACE:
            parts[0].add(parts[1:])
            stack.append(parts[0])
        else:
            is_mutable = opcode.stack_before or name in _MUTABLE
            stack.extend(_Part(parts) if is_mutable else _LEAF for _ in opcode.stack_after)


def _text(value: Any) -> Any:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def _load_pickle(content: bytes) -> Any:
    check_pickle(content)
    # Strings of Python 2 stay bytes, so that an error can name a bad one.
    return _Unpickler(io.BytesIO(content), encoding="bytes").load()


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Callable[..., Any]:
        if (module, name) == ("numpy", "dtype"):
            return NumberType
        # numpy 2 renamed the module.
        is_scalar = module in ("numpy.core.multiarray", "numpy._core.multiarray") and name == "scalar"
        require(is_scalar, f"it names {module}.{name}, which may be code, and is not followed")
        # A new function each time: a pickle can set attributes of the objects that it names.
        return lambda kind, content: kind.number(content)


class NumberType:
    """Stand-in for `numpy.dtype` in a pickle: booleans, and numbers of at most eight bytes.

    It accepts only numpy's own output; numpy's constructor trusts other values and then corrupts memory.
    """

    def __init__(self, code: bytes | str, align: bool, copy: bool) -> None:
        self.code = _text(code)
        self.order = "="
        # Without a copy, the state set below would change numpy's type for the whole program.
        is_plain = re.fullmatch("b1|[iu][1248]|f[248]", self.code) and not align and copy
        require(bool(is_plain), f"a numpy value of type {self.code!r} is no plain number")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """``(version, byte order, ...)``; the rest describes arrays and records."""
        self.order = _text(state[1])
        is_plain = self.order in ("<", ">", "|", "=") and (state[0], *state[2:]) == (3, None, None, None, -1, -1, 0)
        require(is_plain, "a numpy type is no plain number's")

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(self.order + self.code)

    def number(self, content: bytes) -> bool | int | float:
        """The number in ``content``."""
        return np.frombuffer(content, self.dtype).item()
