"""What the readers of documents have in common."""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

SHOWN = re.compile(r"(<[^<>]*>|&[^&;\s]*;|\n)")  # the form of a tag, of a reference and of a hard line break


@dataclass(frozen=True, slots=True)
class Unit:
    """What is translated at a time: a message of PO or TS, a unit or a segment of XLIFF, a text of a page."""

    name: str  # where it is in the document, for messages
    sources: list[str]  # the text, or its singular and its plural
    targets: list[str]  # the translations; empty texts where there are none
    finished: bool  # the translations are not marked as fuzzy or as in need of translation or review
    fill: Callable[[Sequence[str]], list[str]]  # writes translations, marked for review, and returns their faults
    has_format: bool = False  # the message is marked as a format of a program, such as c-format


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


class Part(NamedTuple):
    """A part of a text of a page, and how a translator sees it."""

    place: Place
    shown: str
    tag: str = ""  # "b" begins an element, "/b" ends it, "-" is a whole one; text has none
    written: bytes = b""  # takes the place of the tag where the text is translated; empty: the tag stays


class Page:
    """A page of which parts are replaced; all the rest stays as it is, byte for byte."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.line_starts = [0, *accumulate(len(line) + 1 for line in content.split(b"\n"))][:-1]
        self.language_places: list[Place] = []  # where the page names its language
        self._changes: dict[int, tuple[int, Sequence[bytes | Place]]] = {}  # by where they begin
        self._starts: list[int] = []

    def unit(self, place: Place, source: str, write: Callable[[str], Sequence[bytes | Place] | None]) -> Unit:
        """The unit of a part of the page.

        ``write`` turns a translation into new text and older parts of the page, in which other units may be; it returns
        None if the translation must not be written.
        """
        name = f"line {bisect_right(self.line_starts, place[0])}"
        return Unit(name, [source], [""], False, partial(self._fill, place, source, write))

    def text_unit(self, parts: Sequence[Part], encode: Callable[[str], str], before: str = "") -> Unit:
        """The unit of a text with tags; ``before`` is written before its translation, and not shown."""
        start, end = parts[0].place[0], parts[-1].place[1]
        content = self.content[start:end]
        place = start + len(content) - len(content.lstrip()), end - len(content) + len(content.rstrip())
        source = "".join(part.shown for part in parts).strip(" ")
        tags = tuple(part for part in parts if part.tag)  # a page has many texts, so only this is kept of the parts
        return self.unit(place, source, partial(_write, tags, encode, before))

    def _fill(
        self, place: Place, source: str, write: Callable[[str], Sequence[bytes | Place] | None], texts: Sequence[str]
    ) -> list[str]:
        """Write the translation of a unit; see `Unit`."""
        if texts[0] == source:
            return []
        parts = write(texts[0])
        if parts is None:
            return ["is left out, since its tags are not those of the source or out of order"]
        self._changes[place[0]] = place[1], parts
        return []

    def name_language(self, code: str) -> None:
        """Name the language of the translations, if there are any."""
        if self._changes:
            self._changes |= {start: (end, [f'"{code}"'.encode()]) for start, end in self.language_places}

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


def _write(
    parts: Sequence[Part], encode: Callable[[str], str], before: str, text: str
) -> Sequence[bytes | Place] | None:
    """The parts of a translation; none if it does not have each tag once, and in pairs as the source."""
    left = defaultdict(list)  # the tags of each form, the first one last
    for part in reversed(parts):
        left[part.shown].append(part)
    written: list[bytes | Place] = [before.encode()]
    tags = []
    for piece in SHOWN.split(text):
        if left.get(piece):
            part = left[piece].pop()
            written.append(part.written or part.place)
            tags.append(part.tag)
        elif piece in left:  # twice
            return None
        else:
            written.append(encode(piece).encode())
    pairs_differ = _unpaired(tags) != _unpaired([part.tag for part in parts])
    return None if any(left.values()) or pairs_differ else written


def _unpaired(tags: Iterable[str]) -> list[str]:
    """The tags without a partner, and all tags that cross another pair."""
    opened: list[str] = []
    for tag in tags:
        if tag.startswith("/") and opened and opened[-1] == tag[1:]:
            opened.pop()
        elif tag != "-":
            opened.append(tag)
    return opened
