"""What the readers of documents have in common."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True)
class Unit:
    """What is translated at a time: a message of PO or TS, a unit or a segment of XLIFF, a text of a page."""

    name: str  # tells a reader where it is
    sources: list[str]  # its text, or its singular and its plural
    targets: list[str]  # its translations, empty where there are none
    finished: bool  # they are not marked as fuzzy or as in need of translation or review
    fill: Callable[[Sequence[str]], list[str]]  # write translations, marked for review; return what they do not keep
    has_format: bool = False  # it is marked as a format of a program, such as c-format


class Document(NamedTuple):
    """A document and its units that may be translated."""

    store: Any  # ``bytes`` writes it
    units: list[Unit]
    language: str | None = None  # of the translations; None: not named

    def write(self, language: str) -> bytes:
        """The document with the translations that its units took; ``language`` is their code."""
        if isinstance(self.store, Page):
            self.store.name_language(language)
        return bytes(self.store)


Place = tuple[int, int]  # where a part of a page begins and ends, in bytes


class Page:
    """A page of which parts are replaced; all the rest stays as it is, byte for byte."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.line_starts = [0, *accumulate(len(line) + 1 for line in content.split(b"\n"))][:-1]
        self.language_places: list[Place] = []  # where the page names its language
        self._changes: dict[int, tuple[int, list[bytes | Place]]] = {}  # by where they begin
        self._starts: list[int] = []

    def replace(self, place: Place, parts: Sequence[bytes | Place]) -> None:
        """Write new text and older parts of the page in the place of one part; inner parts may be replaced, too."""
        self._changes[place[0]] = place[1], list(parts)

    def name_language(self, code: str) -> None:
        """Name the language of the translations, if there are any."""
        if self._changes:
            for place in self.language_places:
                self.replace(place, [f'"{code}"'.encode()])

    def line(self, position: int) -> str:
        """The line of a position, for messages."""
        return f"line {bisect_right(self.line_starts, position)}"

    def __bytes__(self) -> bytes:
        self._starts = sorted(self._changes)
        return b"".join(self._render(0, len(self.content)))

    def _render(self, start: int, end: int) -> list[bytes]:
        """A part of the page with the changes inside it."""
        written, last = [], start
        for index in range(bisect_left(self._starts, start), bisect_left(self._starts, end)):
            begin = self._starts[index]
            stop, parts = self._changes[begin]
            if begin < last or stop > end:  # inside another change, or around this part
                continue
            written.append(self.content[last:begin])
            for part in parts:
                written += [part] if isinstance(part, bytes) else self._render(*part)
            last = stop
        return [*written, self.content[last:end]]
