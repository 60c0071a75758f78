"""Find the texts of an HTML page or fragment, and write their translations in their places.

turbohtml's tokenizer reads HTML as browsers do and tells where each token begins, in time proportional to the page.
``html.parser`` and tree-sitter take quadratic time; lxml, html5lib and translate-toolkit's store give no positions.

A text reaches from one tag of a block to the next. Tags inside it, and what is not translated there, are shown as tags
without attributes, since an attribute may hold any sign.
"""

import re
from collections.abc import Iterable, Iterator
from html import escape
from itertools import accumulate, chain, pairwise
from typing import Any

from turbohtml import parse_fragment, tokenize, unescape

from rnnsearch_fairseq.documents.units import SHOWN, Document, Page, PageUnit, Part, Place
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
# Elements whose end tag may be missing. An element of a row ends where the next element of the row begins, unless a
# list is open between the two; for items of lists, unless a list or a block is. A paragraph ends where a block begins.
ITEMS = {"dd", "dt", "li"}
ROWS = {"li"}, {"dd", "dt"}, {"option"}, {"td", "th"}, {"tr"}, {"tbody", "thead"}, {"h1", "h2", "h3", "h4", "h5", "h6"}
CLOSED = {name: row | {"p"} for row in ROWS for name in row}
LISTS = {"dl", "menu", "ol", "select", "table", "ul"}
MAX_OPEN = 100  # open elements that a tag may end
ATTRIBUTES = {"alt", "aria-label", "placeholder", "title"}  # for readers
BLANKS = re.compile("[\t\n\f\r ]+")


def read_html(content: bytes) -> Document:
    """The units of an HTML page or fragment in UTF-8."""
    content.decode()
    page = Page(content)
    return Document(page, [*html_units(page, (0, len(content)))])


def html_units(page: Page, place: Place) -> Iterator[PageUnit]:
    """The units of a part of a page."""
    parts: list[Part] = []
    for (start, end), kind, token in _merge_kept(_tokens(page, place)):
        name = token.tag or ""
        if kind == "START_TAG":
            yield from _attribute_units(page, start, end, token)
        if kind in ("TEXT", "CHARACTER_REFERENCE"):
            parts.append(_text_part((start, end), page.content[start:end].decode(), kind))
        elif kind in ("COMMENT", "PROCESSING_INSTRUCTION") or (kind == "KEPT" and name in INLINE):
            parts.append(Part(f'<x id="{len(parts)}"/>', (start, end), "-"))
        elif name in INLINE:
            parts.append(_inline_tag((start, end), token, kind, len(parts)))
        else:
            yield from _text_unit(page, parts)
            parts = []
    yield from _text_unit(page, parts)


def _merge_kept(tokens: Iterable[tuple[Place, Any]]) -> Iterator[tuple[Place, str, Any]]:
    """Yield each token with its place and kind; for an element that is not translated, its start tag as "KEPT"."""
    opened: list[str] = []
    kept: tuple[int, int, Any] | None = None  # the number of elements around it, where it begins, and its start tag
    for (start, end), token in tokens:
        kind = token.type.name
        if kind in ("START_TAG", "END_TAG"):
            _close(opened, token.tag, kind == "END_TAG")
        if kept and len(opened) <= kept[0]:
            _, kept_start, first = kept
            kept = None
            if kind == "END_TAG" and token.tag == first.tag:
                yield (kept_start, end), "KEPT", first
                continue
            yield (kept_start, start), "KEPT", first
        if kind == "START_TAG" and token.tag not in VOID and not (token.self_closing and token.tag in ("math", "svg")):
            if not kept and _is_kept(token):
                kept = len(opened), start, token
            opened.append(token.tag)
        if not kept:
            yield (start, end), kind, token


def _close(opened: list[str], name: str, is_end: bool) -> None:
    """Remove the elements from ``opened`` that end with a tag, as browsers do."""
    closed = {name} if is_end else CLOSED.get(name, {"p"} if _is_block(name) else ())
    for place in reversed(range(len(opened))[-MAX_OPEN:]):
        element = opened[place]
        if element in closed:
            del opened[place:]
            if element == name or is_end:
                break
        elif not is_end and (element in LISTS or (name in ITEMS and _is_block(element) and element != "div")):
            break


def _is_block(name: str) -> bool:
    return name not in INLINE and name not in KEPT and name not in VOID


def _tokens(page: Page, place: Place) -> Iterator[tuple[Place, Any]]:
    """The tokens of a part of a page, and where each stands; a tag without an end is none."""
    # Latin-1 has a character for each byte, and HTML's signs are those of ASCII. The tokenizer reads all ends of lines
    # as "\n", and it passes over "</>".
    text = page.content[slice(*place)].decode("latin-1")
    text = text.replace("\r\n", " \n").replace("\r", "\n").replace("</>", "<!>")
    starts = [*accumulate((len(line) + 1 for line in text.split("\n")), initial=place[0])]
    tokens = tokenize(text, resolve_references=False, capture_source=True)
    located = ((starts[token.line - 1] + token.col, token) for token in tokens)
    for (start, token), (end, _) in pairwise(chain(located, [(None, None)])):
        yield (start, start + len(token.source or token.data) if end is None else end), token


def _is_kept(token: Any) -> bool:
    """Whether what an element holds is not translated."""
    marked = token.attr("translate", "").lower() == "no" or "notranslate" in token.attr("class", "").split()
    return token.tag in KEPT or marked


def _text_part(place: Place, text: str, kind: str) -> Part:
    """A text or a reference; a translator sees letters and quotation marks in place of their references."""
    if kind == "TEXT":
        return Part(BLANKS.sub(" ", text), place)
    sign = unescape(text)
    return Part(f"{text.rstrip(';')};" if sign in ("<", ">", "&", text) or sign.isspace() else sign, place)


def _inline_tag(place: Place, token: Any, kind: str, number: int) -> Part:
    if kind == "END_TAG":
        return Part(f"</{token.tag}>", place, f"/{token.tag}")
    attributes, end = f' id="{number}"' * bool(token.attrs), "/" * (token.tag in VOID)
    return Part(f"<{token.tag}{attributes}{end}>", place, "-" if end else token.tag)


def _text_unit(page: Page, parts: list[Part]) -> Iterator[PageUnit]:
    """The unit of a text, if it has letters; blanks, comments and images around it are no part of it."""
    if any(LETTER.search(part.shown) for part in parts if not part.tag and not SHOWN.fullmatch(part.shown)):
        inner = [number for number, part in enumerate(parts) if part.tag != "-" and part.shown != " "]
        parts = parts[inner[0] : inner[-1] + 1]
        yield PageUnit(page, (parts[0].written[0], parts[-1].written[1]), parts, _encode)


def _encode(text: str) -> str:
    """Text as HTML; a reference stays."""
    return text if text.startswith("&") and SHOWN.fullmatch(text) else escape(text, quote=False)


def _attribute_units(page: Page, start: int, end: int, token: Any) -> Iterator[PageUnit]:
    """The units of attributes that readers see; where a page names its language is kept in mind."""
    is_button = token.tag == "input" and token.attr("type", "").lower() in ("button", "reset", "submit")
    for name, value in token.attrs or ():
        if token.tag == "html" and name in ("lang", "xml:lang"):
            page.languages.append(_value_place(page, start, end, name))
        elif value and LETTER.search(value) and (name in ATTRIBUTES or (is_button and name == "value")):
            place = _value_place(page, start, end, name)
            source = unescape(page.content[slice(*place)].decode().strip("\"'")).strip()
            yield PageUnit(page, place, [Part(source, place)], _encode_value, ('"', '"'))


def _value_place(page: Page, start: int, end: int, name: str) -> Place:
    """Where the value of an attribute of a tag stands, with its quotation marks."""
    tag = page.content[start:end].decode("latin-1").replace("\r", " ")
    shorter = re.sub("<[^\t\n\f />]+", "<x", tag, count=1)  # some elements are none outside a table
    span = parse_fragment(shorter, source_locations=True).children[0].source_location.attrs[name]
    value = shorter[span.start_offset : span.end_offset].partition("=")[2].lstrip()
    last = start + len(tag) - len(shorter) + span.end_offset
    return last - len(value), last


def _encode_value(text: str) -> str:
    return escape(text, quote=False).replace('"', "&quot;")
