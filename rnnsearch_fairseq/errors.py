"""The error that this package raises for bad input, and the parsers of its command lines."""

import argparse
import difflib
import sys
from types import TracebackType
from typing import NoReturn

MAX_MESSAGE = 700  # characters; a longer message is cut in the middle, where it quotes a file
MAX_QUOTATION = 200  # characters


class InputError(ValueError):
    """Bad input; the message is one sentence that names the file, line or option and the cure.

    It may quote untrusted text, so the message is cut, and unprintable characters are escaped. Commands print it
    without a traceback (`print_without_traceback`).
    """

    def __init__(self, message: str) -> None:
        super().__init__(in_short(message, MAX_MESSAGE))


class Parser(argparse.ArgumentParser):
    """A parser that answers a mistake in two lines: what is wrong, and the option or choice that was meant."""

    def error(self, message: str) -> NoReturn:
        """Print the mistake, and end the program with status 2."""
        known = [*self._option_string_actions, *(str(one) for action in self._actions for one in action.choices or ())]
        words = [part for word in sys.argv[1:] for part in word.split("=") if part not in known]
        # An option that is missing is reported before one that is unknown, which may be the same, misspelt.
        odd = [word for word in words if repr(word) in message or word.startswith("--")]
        meant = [near for word in odd for near in difflib.get_close_matches(word, known, n=1, cutoff=0.7)]
        hint = f"did you mean {' and '.join(meant)}? " if meant else ""
        said = in_short(message, MAX_QUOTATION if meant else MAX_MESSAGE)
        self.exit(2, f"{self.prog}: error: {said}\n{hint}{self.prog} --help says more\n")


def make_parser(doc: str | None) -> Parser:
    """A command's parser: its help begins with ``doc`` and ends in its last paragraph, an example to paste."""
    description, _, example = (doc or "").rstrip().rpartition("\n\n")  # python -OO has no docstrings
    plain = argparse.RawDescriptionHelpFormatter
    return Parser(description=description, epilog=f"example:\n{example}", formatter_class=plain)


def option(name: str) -> str:
    """The option of the command line for the field ``name`` of a configuration."""
    return "--" + name.replace("_", "-")


def count(text: str) -> int:
    """The ``type`` of an option whose value is a whole number of at least 1."""
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is too low; give at least 1")
    return int(text)


def print_without_traceback(of_interrupts: bool = True) -> None:
    """Print an `InputError` that ends this program, or that caused its end, as one line, and a Ctrl-C likewise."""
    before = sys.excepthook

    def print_or_delegate(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        first: BaseException | None = error
        while first is not None and not isinstance(first, InputError):
            first = first.__cause__ or first.__context__
        if of_interrupts and issubclass(kind, KeyboardInterrupt):
            print("\nstopped by Ctrl-C", file=sys.stderr)
        elif first is None:
            before(kind, error, trace)
        else:
            print(f"error: {first}", file=sys.stderr)

    sys.excepthook = print_or_delegate


def in_short(said: object, longest: int = MAX_QUOTATION) -> str:
    """Quote an error or a file's content in a message: on one line, with unprintable characters escaped, and cut."""
    text, half = " ".join(str(said).split()), longest // 2 - 2
    text = text if len(text) <= longest else f"{text[:half]}...{text[-half:]}"
    return escaped(text)


def escaped(text: str) -> str:
    """A text of a stranger, for a terminal: all but line ends and what is printable is escaped."""
    return "".join(
        character if character.isprintable() or character == "\n" else character.encode("unicode_escape").decode()
        for character in text
    )
