"""The error that this package raises for bad input, and how messages quote text."""

from typing import Any

MAX_MESSAGE = 700  # characters; a longer message is cut in the middle, where it quotes a file
MAX_QUOTATION = 200  # characters


class InputError(ValueError):
    """Bad input; the message is one sentence that names the file, line or option and the cure.

    It may quote untrusted text, so it is cut and escaped. Commands print it without a traceback.
    """

    def __init__(self, message: str) -> None:
        super().__init__(quote(message, MAX_MESSAGE))


def quote(value: object, max_length: int = MAX_QUOTATION) -> str:
    """Quote text in a message: on one line, with unprintable characters escaped, and cut in the middle."""
    text, half = " ".join(str(value).split()), max_length // 2 - 2
    return escaped(text if len(text) <= max_length else f"{text[:half]}...{text[-half:]}")


def find_cause(error: BaseException | None, kind: type[BaseException]) -> Any:
    """The first error of this kind among an error, its cause, the cause's cause, and so on; None if there is none."""
    while error is not None and not isinstance(error, kind):
        error = error.__cause__ or error.__context__
    return error


def escaped(text: str) -> str:
    """Escape untrusted text for a terminal: every character but line ends and printable ones."""
    return "".join(
        character if character.isprintable() or character == "\n" else character.encode("unicode_escape").decode()
        for character in text
    )
