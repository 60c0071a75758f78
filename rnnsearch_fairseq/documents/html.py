"""Find the texts of an HTML page or fragment, and write their translations in their places.

turbohtml's tokenizer reads HTML as browsers do and tells where each token begins, in time proportional to the page.
Python's ``html.parser`` and tree-sitter take quadratic time for tags or comments without an end; lxml, html5lib and
translate-toolkit's store give no positions, so that the page would have to be written anew.

A text reaches from one tag of a block to the next. Tags inside it, and what is not translated there, are shown as tags
without attributes, since an attribute may hold any sign.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from html import escape, unescape
from itertools import accumulate
from typing import Any, NamedTuple

from rnnsearch_fairseq.documents.units import Document, Page, Place, Unit
from rnnsearch_fairseq.text.markup import LETTER

# Elements inside a text; the others begin and end texts.
INLINE = {
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font", "i",
    "img", "ins", "kbd", "mark", "math", "nobr", "q", "ruby", "s", "samp", "small", "span", "strike", "strong",
    "sub", "sup", "svg", "time", "tt", "u", "var", "wbr"
}  # fmt: skip
# What they hold is not translated: code, and what LibreTranslate leaves.
KEPT = {
    "address", "applet", "area", "audio", "canvas", "code", "embed", "iframe", "kbd", "math", "noembed",
    "noframes", "noscript", "object", "plaintext", "pre", "samp", "script", "style", "svg", "textarea", "time",
    "tt", "var", "video", "xmp"
}  # fmt: skip
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"}
# The next one ends them.
OPTIONAL_END = {"dd", "dt", "li", "optgroup", "option", "p", "tbody", "td", "tfoot", "th", "thead", "tr"}
ATTRIBUTES = {"alt", "aria-label", "placeholder", "title"}  # for readers
BLANKS = re.compile("[\t\n\f\r ]+")
SHOWN = re.compile(r"(<[^<>]*>|&[^&;\s]*;)")


class _Part(NamedTuple):
    """A tag, a text or what is kept, and how a translator sees it."""

    place: Place
    shown: str
    tag: str = ""  # "b" begins an element, "/b" ends it, "-" is a whole one, "&" a reference


def read_html(text: str) -> Document:
    """The units of an HTML page or fragment; ``Document.write`` gives it with their translations, as UTF-8."""
    page = Page(text.encode())
    return Document(page, list(html_units(page, (0, len(page.content)))))


def html_units(page: Page, place: Place) -> Iterator[Unit]:
    """The units of a part of a page."""
    parts: list[_Part] = []
    kept: _Kept | None = None
    for (start, end), token in _tokens(page, place):
        kind, name = token.type.name, token.tag or ""
        if kept:
            last = kept.find_end(kind, name, (start, end))
            if last is None:
                continue
            if kept.name in INLINE:
                parts.append(_Part((kept.start, last), f'<x id="{len(parts)}"/>', "-"))
            kept = None
            if last == end:
                continue
        if kind == "START_TAG" and _is_kept(token):
            kept = _Kept(name, start)
        elif kind == "START_TAG":
            yield from _attribute_units(page, start, end, token)
        if kind in ("TEXT", "CHARACTER_REFERENCE"):
            parts.append(_text_part((start, end), page.content[start:end].decode(), kind))
        elif name in INLINE and not kept:
            parts.append(_inline_tag((start, end), token, kind, len(parts)))
        elif kind in ("COMMENT", "PROCESSING_INSTRUCTION"):
            parts.append(_Part((start, end), f'<x id="{len(parts)}"/>', "-"))
        elif name not in INLINE:
            yield from _text_unit(page, parts)
            parts = []
    yield from _text_unit(page, parts)


def _tokens(page: Page, place: Place) -> Iterator[tuple[Place, Any]]:
    """The tokens of a part of a page, and where each stands; a tag without an end is none."""
    from turbohtml import tokenize

    # Latin-1 has a character for each byte, and HTML's signs are those of ASCII. The tokenizer reads all ends of lines
    # as "\n", and it passes over "</>".
    text = page.content[slice(*place)].decode("latin-1")
    text = text.replace("\r\n", " \n").replace("\r", "\n").replace("</>", "<!>")
    starts = [place[0], *accumulate((len(line) + 1 for line in text.split("\n")), initial=place[0])][1:]
    before: tuple[int, Any] | None = None
    for token in tokenize(text, resolve_references=False, capture_source=True):
        start = starts[token.line - 1] + token.col
        if before:
            yield (before[0], start), before[1]
        before = start, token
    if before:
        start, token = before
        yield (start, start + len(token.data if token.source is None else token.source)), token


class _Kept:
    """An element that is not translated, and the elements that are open in it."""

    def __init__(self, name: str, start: int) -> None:
        self.name, self.start = name, start
        self._open = [name]
        self._counts = Counter(self._open)

    def find_end(self, kind: str, name: str, place: Place) -> int | None:
        """Where the element ends, if it ends before or with a token."""
        if kind == "START_TAG":
            top = self._open[-1]
            if (top == name and name in OPTIONAL_END) or (top == "p" and name not in INLINE):
                self._pop()
            if not self._open:
                return place[0]
            if name not in VOID:
                self._open.append(name)
                self._counts[name] += 1
        elif kind == "END_TAG" and self._counts[name]:
            while self._pop() != name:
                pass
            return None if self._open else place[1]
        elif kind == "END_TAG" and self.name in OPTIONAL_END and name not in INLINE:
            return place[0]
        return None

    def _pop(self) -> str:
        name = self._open.pop()
        self._counts[name] -= 1
        return name


def _is_kept(token: Any) -> bool:
    """Whether what an element holds is not translated."""
    if token.tag in VOID or (token.self_closing and token.tag in ("math", "svg")):
        return False
    marked = token.attr("translate", "").lower() == "no" or "notranslate" in token.attr("class", "").split()
    return token.tag in KEPT or marked


def _text_part(place: Place, text: str, kind: str) -> _Part:
    """A text or a reference; a translator sees letters and quotation marks in place of their references."""
    if kind == "TEXT":
        return _Part(place, BLANKS.sub(" ", text))
    sign = _unescape(text)
    is_kept = sign in ("<", ">", "&", text) or sign.isspace()
    return _Part(place, f"{text.rstrip(';')};", "&") if is_kept else _Part(place, sign)


def _unescape(text: str) -> str:
    """The text with signs in the place of their references, unless one is a number that Python does not read."""
    try:
        return unescape(text)
    except ValueError:
        return text


def _inline_tag(place: Place, token: Any, kind: str, number: int) -> _Part:
    if kind == "END_TAG":
        return _Part(place, f"</{token.tag}>", f"/{token.tag}")
    attributes = f' id="{number}"' * bool(token.attrs)
    if token.tag in VOID:
        return _Part(place, f"<{token.tag}{attributes}/>", "-")
    return _Part(place, f"<{token.tag}{attributes}>", token.tag)


def _text_unit(page: Page, parts: Sequence[_Part]) -> Iterator[Unit]:
    """The unit of a text, if it has letters; blanks, comments and images around it are no part of it."""
    if not any(LETTER.search(part.shown) for part in parts if not part.tag):
        return
    inner = [number for number, part in enumerate(parts) if part.tag != "-" and part.shown != " "]
    parts = parts[inner[0] : inner[-1] + 1]
    start, end = parts[0].place[0], parts[-1].place[1]
    written = page.content[start:end]
    place = start + len(written) - len(written.lstrip()), end - len(written) + len(written.rstrip())
    source = "".join(part.shown for part in parts).strip()
    yield Unit(page.line(start), [source], [""], False, partial(_fill, page, place, source, parts))


def _fill(page: Page, place: Place, source: str, parts: Sequence[_Part], texts: Sequence[str]) -> list[str]:
    """Write the translation of a text with the tags of its source; see `Unit`."""
    left = defaultdict(list)  # the tags of each form, the first one last
    for part in reversed(parts):
        if part.tag and part.tag != "&":
            left[part.shown].append(part)
    references = {part.shown for part in parts if part.tag == "&"}
    written: list[bytes | Place] = []
    tags = []
    for piece in SHOWN.split(texts[0]):
        if left.get(piece):
            part = left[piece].pop()
            written.append(part.place)
            tags.append(part.tag)
        else:
            written.append((piece if piece in references else escape(piece, quote=False)).encode())
    if any(left.values()) or _unpaired(tags) != _unpaired([part.tag for part in parts]):
        return ["is left out, since its tags are not those of the source or out of order"]
    if texts[0] != source:
        page.replace(place, written)
    return []


def _unpaired(tags: Iterable[str]) -> list[str]:
    """The tags without a partner, with all that cross another pair."""
    opened: list[str] = []
    for tag in tags:
        if tag.startswith("/") and opened and opened[-1] == tag[1:]:
            opened.pop()
        elif tag not in ("", "&", "-"):
            opened.append(tag)
    return opened


def _attribute_units(page: Page, start: int, end: int, token: Any) -> Iterator[Unit]:
    """The units of attributes that are text; where a page names its language is kept in mind."""
    named = [name for name, value in token.attrs or () if value and _is_text(token, name)]
    languages = [name for name, _ in token.attrs or () if token.tag == "html" and name in ("lang", "xml:lang")]
    for name in [*named, *languages]:
        place = _value_place(page, start, end, name)
        if name in languages:
            page.language_places.append(place)
            continue
        source = _unescape(page.content[slice(*place)].decode().strip("\"'")).strip()
        if LETTER.search(source):
            yield Unit(page.line(start), [source], [""], False, partial(_fill_attribute, page, place, source))


def _is_text(token: Any, name: str) -> bool:
    """Whether readers see the value of an attribute."""
    if token.tag == "meta":
        kind = token.attr("name") or token.attr("property") or ""
        return name == "content" and kind.lower().rpartition(":")[2] in ("description", "title")
    button = token.tag == "input" and token.attr("type", "").lower() in ("button", "reset", "submit")
    return name in ATTRIBUTES or (name == "value" and button)


def _value_place(page: Page, start: int, end: int, name: str) -> Place:
    """Where the value of an attribute of a tag stands, with its quotation marks."""
    from turbohtml import parse_fragment

    tag = page.content[start:end].decode("latin-1").replace("\r", " ")
    shorter = re.sub("<[^\t\n\f />]+", "<x", tag, count=1)  # some elements are none outside a table
    span = parse_fragment(shorter, source_locations=True).children[0].source_location.attrs[name]
    value = shorter[span.start_offset : span.end_offset].partition("=")[2].lstrip()
    last = start + len(tag) - len(shorter) + span.end_offset
    return last - len(value), last


def _fill_attribute(page: Page, place: Place, source: str, texts: Sequence[str]) -> list[str]:
    if texts[0] != source:
        value = escape(texts[0], quote=False).replace('"', "&quot;")
        page.replace(place, [f'"{value}"'.encode()])
    return []
