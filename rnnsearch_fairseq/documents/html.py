"""Find the texts of an HTML page or fragment, and write their translations in their places.

turbohtml's tokenizer reads HTML as browsers do and tells where each token begins, in time proportional to the page.
Python's ``html.parser`` and tree-sitter take quadratic time for tags or comments without an end; lxml, html5lib and
translate-toolkit's store give no positions, so that the page would have to be written anew.

A text reaches from one tag of a block to the next. Tags inside it, and what is not translated there, are shown as tags
without attributes, since an attribute may hold any sign.
"""

import re
from collections.abc import Iterator, Sequence
from html import escape, unescape
from itertools import accumulate
from typing import Any

from rnnsearch_fairseq.documents.units import SHOWN, Document, Page, Part, Place, Unit
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
ATTRIBUTES = {"alt", "aria-label", "placeholder", "title"}  # for readers
BLANKS = re.compile("[\t\n\f\r ]+")


def read_html(text: str) -> Document:
    """The units of an HTML page or fragment; ``Document.write`` gives it with their translations, as UTF-8."""
    page = Page(text.encode())
    return Document(page, list(html_units(page, (0, len(page.content)))))


def html_units(page: Page, place: Place) -> Iterator[Unit]:
    """The units of a part of a page.

    An element that is not translated reaches to its end tag; without one, it reaches to the end of the page.
    """
    parts: list[Part] = []
    kept, kept_start, depth = "", 0, 0
    for (start, end), token in _tokens(page, place):
        kind, name = token.type.name, token.tag or ""
        if depth:
            depth += (name == kept) * ((kind == "START_TAG") - (kind == "END_TAG"))
            if not depth and kept in INLINE:
                parts.append(_whole((kept_start, end), len(parts)))
            continue
        if kind == "START_TAG" and _is_kept(token):
            kept, kept_start, depth = name, start, 1
        elif kind == "START_TAG":
            yield from _attribute_units(page, start, end, token)
        if kind in ("TEXT", "CHARACTER_REFERENCE"):
            parts.append(_text_part((start, end), page.content[start:end].decode(), kind))
        elif name in INLINE and not depth:
            parts.append(_inline_tag((start, end), token, kind, len(parts)))
        elif kind in ("COMMENT", "PROCESSING_INSTRUCTION"):
            parts.append(_whole((start, end), len(parts)))
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


def _is_kept(token: Any) -> bool:
    """Whether what an element holds is not translated."""
    if token.tag in VOID or (token.self_closing and token.tag in ("math", "svg")):
        return False
    marked = token.attr("translate", "").lower() == "no" or "notranslate" in token.attr("class", "").split()
    return token.tag in KEPT or marked


def _text_part(place: Place, text: str, kind: str) -> Part:
    """A text or a reference; a translator sees letters and quotation marks in place of their references."""
    if kind == "TEXT":
        return Part(place, BLANKS.sub(" ", text))
    sign = _unescape(text)
    return Part(place, f"{text.rstrip(';')};" if sign in ("<", ">", "&", text) or sign.isspace() else sign)


def _unescape(text: str) -> str:
    """The text with signs in the place of their references, unless one is a number that Python does not read."""
    try:
        return unescape(text)
    except ValueError:
        return text


def _whole(place: Place, number: int) -> Part:
    """What is kept inside a text."""
    return Part(place, f'<x id="{number}"/>', "-")


def _inline_tag(place: Place, token: Any, kind: str, number: int) -> Part:
    if kind == "END_TAG":
        return Part(place, f"</{token.tag}>", f"/{token.tag}")
    attributes = f' id="{number}"' * bool(token.attrs)
    if token.tag in VOID:
        return Part(place, f"<{token.tag}{attributes}/>", "-")
    return Part(place, f"<{token.tag}{attributes}>", token.tag)


def _text_unit(page: Page, parts: Sequence[Part]) -> Iterator[Unit]:
    """The unit of a text, if it has letters; blanks, comments and images around it are no part of it."""
    references = {part.shown for part in parts if not part.tag and SHOWN.fullmatch(part.shown)}
    if not any(LETTER.search(part.shown) for part in parts if not part.tag and part.shown not in references):
        return
    inner = [number for number, part in enumerate(parts) if part.tag != "-" and part.shown != " "]
    parts = parts[inner[0] : inner[-1] + 1]
    yield page.text_unit(parts, lambda text: text if text in references else escape(text, quote=False))


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
            yield page.unit(place, source, _write_attribute)


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


def _write_attribute(text: str) -> list[bytes]:
    value = escape(text, quote=False).replace('"', "&quot;")
    return [f'"{value}"'.encode()]
