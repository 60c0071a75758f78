"""Parsers of command lines, options that are fields of a dataclass, and messages without a traceback."""

import argparse
import difflib
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import field, fields
from numbers import Integral, Real
from types import TracebackType
from typing import Any, NoReturn

from rnnsearch_fairseq.errors import MAX_MESSAGE, InputError, find_cause, quote

MAX_VALUE = 1_000_000  # of an option that is a number, where its description has no other bound


class Parser(argparse.ArgumentParser):
    """A parser that answers a mistake in two lines: what is wrong, and the most similar option or choice."""

    def error(self, message: str) -> NoReturn:
        """Print the mistake, and end the program with status 2."""
        choices = [str(choice) for action in self._actions for choice in action.choices or ()]
        known = [*self._option_string_actions, *choices]
        words = [part for word in sys.argv[1:] for part in word.split("=") if part not in known]
        # argparse reports a missing option first, although it may be misspelt and therefore also unknown.
        odd = [word for word in words if repr(word) in message or word.startswith("-")]
        similar = [near for word in odd for near in difflib.get_close_matches(word, known, n=1, cutoff=0.7)]
        hint = f"did you mean {' and '.join(similar)}? " if similar else ""
        self.exit(2, f"{self.prog}: error: {quote(message, MAX_MESSAGE)}\n{hint}{self.prog} --help says more\n")


def make_parser(doc: str | None) -> Parser:
    """Make the parser of a command from its module's docstring, whose last paragraph is an example."""
    description, _, example = (doc or "").rstrip().rpartition("\n\n")  # python -OO has no docstrings
    plain = argparse.RawDescriptionHelpFormatter
    return Parser(description=description, epilog=f"example:\n{example}", formatter_class=plain)


def count(text: str, least: int = 1) -> int:
    """The ``type`` of an option whose value is a whole number of at least ``least``, and of at most nine digits."""
    if not re.fullmatch("[0-9]{1,9}", text) or int(text) < least:
        raise argparse.ArgumentTypeError(f"{quote(repr(text))}: give a whole number from {least} to 999,999,999")
    return int(text)


def option(name: str) -> str:
    """The option of the command line for the field ``name`` of a configuration."""
    return "--" + name.replace("_", "-")


def command_options(values: Mapping[str, Any]) -> list[str]:
    """The words of a command line for the fields of a configuration: true is the option alone, and false is none."""
    words: list[str] = []
    for name, value in values.items():
        if str(value).startswith("-"):  # argparse takes -1e-05 for an option
            words.append(f"{option(name)}={value}")
        elif value is not False:
            words += [option(name)] if value is True else [option(name), str(value)]
    return words


def described(default: Any, text: str, **limits: Any) -> Any:
    """A field of a dataclass of options, with a default, a help text and limits.

    Limits are ``choices`` or, for a number, ``least`` (default: 0) and ``most`` (default: a million).
    """
    return field(default=default, metadata={"help": text, **limits})


def check_fields(config: Any, name: Callable[[str], str] = option) -> None:
    """Raise an InputError if a value has a wrong type or is outside its limits. The message calls the field
    ``name(field)``."""
    for member in fields(config):
        value, kind, limits = getattr(config, member.name), member.type, member.metadata
        if "choices" in limits:
            fits, expected = value in limits["choices"], f"one of {', '.join(map(str, limits['choices']))}"
        elif kind in (int, float):
            least, most = limits.get("least", 0), limits.get("most", MAX_VALUE)
            is_number = isinstance(value, Integral if kind is int else Real) and not isinstance(value, bool)
            fits = is_number and least <= value <= most
            expected = f"a {'whole ' * (kind is int)}number from {least:,} to {most:,}"
        else:
            fits, expected = isinstance(value, kind), "true or false" if kind is bool else "a text or none"
        if not fits:
            raise InputError(f"{name(member.name)} is {quote(repr(value))}; give {expected}")


def print_without_traceback(of_interrupts: bool = True) -> None:
    """Print an uncaught `InputError`, or an error that it caused, and Ctrl-C as one line without a traceback."""
    before = sys.excepthook

    def print_or_delegate(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if of_interrupts and issubclass(kind, KeyboardInterrupt):
            print("\nstopped by Ctrl-C", file=sys.stderr)
        elif (first := find_cause(error, InputError)) is not None:
            print(f"error: {first}", file=sys.stderr)
        else:
            before(kind, error, trace)

    sys.excepthook = print_or_delegate


def program(main: Callable[[], Any]) -> Callable[[], Any]:
    """Decorate ``main``, the last function of a module: if ``python -m`` started the module, run it (no tracebacks)."""
    if main.__module__ == "__main__":
        print_without_traceback()
        sys.exit(main())
    return main
