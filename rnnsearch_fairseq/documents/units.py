"""What the readers of documents have in common."""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from rnnsearch_fairseq.errors import quote
from rnnsearch_fairseq.text.language import language_code

# The head of a page, for the program that builds a site: between two lines of dashes or pluses, or lines "Title: ...".
FRONT_MATTER = re.compile(
    rb"""(?ms)(?:\xef\xbb\xbf)?(?:(---|\+\+\+)[ \t]*\r?\n(?=[\w"'\[#]).*?^\1[ \t\r]*$"""
    rb"""|(?:[A-Z]\w*:[ \t][^\n]*\n){2,}(?=\r?\n))"""
)
BLANKS = re.compile("[\t\n\f\r ]+")  # of HTML and XML; XML cannot have the form feed
SHOWN = re.compile(r"(<[^<>]*>|&[^&;\s]*;|\n)")  # the form of a tag, of a reference and of a hard line break
TEMPLATE = r"\{\{[^{}\n]*\}\}|\{%[^%\n]*%\}"  # code of templates
WRONG_TAGS = "its translation lacks or adds tags, or has them in another order"
Place = tuple[int, int]  # where a part of a page begins and ends, in bytes


@dataclass(slots=True)
class Unit:
    """What is translated at a time: a message, a unit, a segment or a text of a page."""

    name: str  # where it is in the document, for messages
    sources: list[str]  # the text, or its singular and its plural
    targets: list[str]  # the translations; empty texts where there are none
    finished: bool  # the translations are not marked as fuzzy or as in need of translation or review
    fill: Callable[[Sequence[str]], str]  # writes translations, marked for review, or returns why they are not written


class Part(NamedTuple):
    """A part of a text."""

    shown: str  # as a translator sees the part
    written: str | Place  # in a translation: text, or a part of the page
    tag: str = ""  # "b" begins an element, "/b" ends it, "-" is a whole one; text has none


class Page:
    """A page in which parts are replaced. All other bytes stay as they are.

    Attributes:
        changes: maps the beginning of each part to its end and its replacement. A replacement is a list of new text and
            of other parts of the page.
        language: the language that the page names.
        declared: where the page names its language or its encoding, and what is written there.
    """

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.changes: dict[int, tuple[int, Sequence[str | Place]]] = {}
        self.language: str | None = None
        self.declared: list[tuple[Place, str]] = []
        self._last_line = 0, 1  # the beginning and the line of the last unit

    def __bytes__(self) -> bytes:
        starts = sorted(self.changes)

        def render(start: int, end: int) -> Iterator[bytes]:
            for begin in starts[bisect_left(starts, start) : bisect_left(starts, end)]:
                stop, parts = self.changes[begin]
                if begin < start or stop > end:  # inside another change, or around this part
                    continue
                yield self.content[start:begin]
                for part in parts:
                    yield from [part.encode()] if isinstance(part, str) else render(*part)
                start = stop
            yield self.content[start:end]

        return b"".join(render(0, len(self.content)))

    def make_unit(
        self, place: Place, parts: Sequence[Part], encode: Callable[[str], str], around: tuple[str, str] = ("", "")
    ) -> Unit:
        """The unit of a text; blanks around the text are no part of it.

        ``encode`` gives what is written for the text of a translation. ``around`` is written before and after it.
        """
        content = self.content[slice(*place)]
        start, end = place[1] - len(content.lstrip()), place[0] + len(content.rstrip())
        source, tags = "".join(part.shown for part in parts).strip(" "), tuple(part for part in parts if part.tag)
        last, number = self._last_line
        number += self.content.count(b"\n", last, start) - self.content.count(b"\n", start, last)
        self._last_line = start, number
        fill = partial(self._fill, (start, end), source, tags, encode, around)  # in less memory than a closure
        return Unit(f"line {number}", [source], [""], False, fill)

    def _fill(
        self, place: Place, source: str, tags: Sequence[Part], encode: Any, around: Sequence[str], texts: Sequence[str]
    ) -> str:
        if texts[0] == source:
            return ""
        if (written := place_tags(texts[0], tags, encode)) is None:
            return WRONG_TAGS
        self.changes[place[0]] = place[1], [around[0], *written, around[1]]
        return ""


class Document(NamedTuple):
    """A document and its units that may be translated."""

    store: Any  # ``bytes`` writes it
    units: Sequence[Unit]
    language: str | None = None  # of the translations; None or empty: not named
    source: str | None = None  # the language of the sources
    declare: Callable[[str], object] = str  # names the language of the translations in a document that names none

    def find_other_language(self, source: str, target: str) -> str:
        """How the document's languages differ from these languages of a model; empty if they do not."""
        sides = (self.language, "asks for", "writes", target), (self.source, "is in", "reads", source)
        for named, says, does, ours in sides:
            if named and language_code(named) != language_code(ours):
                return f"{says} {quote(repr(named))}, and the model {does} {ours}"
        return ""

    def write(self, language: str) -> bytes:
        """The document with the translations that its units took; ``language`` is their code."""
        if isinstance(self.store, Page) and self.store.changes:
            self.store.changes |= {start: (end, [what.format(language)]) for (start, end), what in self.store.declared}
        self.declare(language)
        return bytes(self.store)


def place_tags(text: str, tags: Sequence[Part], encode: Callable[[str], str]) -> list[str | Place] | None:
    """The text to write for a translation. None unless the translation has each tag exactly once, and pairs its tags as
    the source does."""
    left = defaultdict(list)  # the tags of each form, the first one last
    for tag in reversed(tags):
        left[tag.shown].append(tag)
    written, order = [], []
    for piece in SHOWN.split(text):
        if piece not in left:
            written.append(encode(piece))
        elif left[piece]:
            order.append(left[piece].pop())
            written.append(order[-1].written)
        else:  # twice
            return None
    return written if len(order) == len(tags) and _unpaired(order) == _unpaired(tags) else None


def _unpaired(tags: Iterable[Part]) -> list[str]:
    """The tags without a partner, and all tags that cross another pair."""
    opened: list[str] = []
    for _, _, tag in tags:
        if tag.startswith("/") and opened and opened[-1] == tag[1:]:
            opened.pop()
        elif tag != "-":
            opened.append(tag)
    return opened
