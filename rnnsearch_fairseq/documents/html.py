"""Find the texts of an HTML page or fragment, and write their translations in their places.

turbohtml reads HTML as browsers do and tells where each tag and each token begins, in time proportional to the page.
``html.parser`` and tree-sitter take quadratic time; lxml, html5lib and translate-toolkit's store give no positions.

A text stands between two tags of blocks. Tags inside it, and what is not
translated there, are shown as tags without attributes, since an attribute may hold any sign.
"""

import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import accumulate, chain, islice, pairwise
from operator import itemgetter
from typing import Any
from xml.sax.saxutils import escape

from turbohtml import parse, tokenize, unescape

from rnnsearch_fairseq.documents.units import BLANKS, FRONT_MATTER, SHOWN, TEMPLATE, Document, Page, Part, Place, Unit
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.text.markup import LETTER
from rnnsearch_fairseq.text.passage import LEFT_CLASS

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
# What the tokenizer reads up to the end tag, as text; the parser closes <noscript> before, if it may not stand there.
RAW = {"iframe", "noembed", "noframes", "noscript", "plaintext", "script", "style", "textarea", "xmp"}
# Elements that HTML opens again in each block until they are closed.
REOPENED = {"a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"}
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"}
SELF_CLOSED = {*KEPT, "title"} - {*VOID, "svg", "math"}  # in XML
XML_ENCODING = re.compile(rb"""\s*<\?xml\b[^>]*\bencoding=["']([\w-]+)["']""")
MAX_OPEN = 100  # elements around another one whose end tags may end it
MAX_REOPENED = 1_000_000  # in a page
# Attributes for readers, and the names of <meta> that other sites show.
ATTRIBUTES = {
    "alt", "aria-description", "aria-label", "caption", "description", "label", "placeholder", "summary", "title"
}  # fmt: skip
META = {"description", "og:title", "og:description", "twitter:title", "twitter:description"}
NAMED = {*ATTRIBUTES, "charset", "content", "lang", "value", "xml:lang"}
TITLES = {"dt", "h1", "h2", "h3", "h4", "h5", "h6"}
NAME = re.compile(r"[a-z][\w.:-]+")
# Code of ERB, EJS and PHP, texts that Django translates itself, and code of templates.
CODE = re.compile(
    r"(?s:(?P<script><([%?])(?:(?!\2>|<[%?]).){0,50000}\2>"
    r"|\{%-? *(blocktrans(?:late)?|comment|raw|verbatim)\b(?:(?!\{%-? *\3).){0,50000}\{%-? *end\3 *-?%\}))"
    rf"|{TEMPLATE}"
)
NO_SIGNS = str.maketrans("<>\"'&", "xxxxx")


def read_html(content: bytes, is_page: bool = True) -> Document:
    """The units of an HTML page or fragment in UTF-8; ``is_page``: XML's closed tags are refused."""
    content.decode()
    page = Page(content)
    if encoding := XML_ENCODING.match(content):
        page.declared.append((encoding.span(1), "utf-8"))
    front = FRONT_MATTER.match(content)
    units = [*html_units(page, (front.end() if front else 0, len(content)), is_page)]
    return Document(page, units, source=page.language)


def html_units(page: Page, place: Place, is_page: bool = False) -> Iterator[Unit]:
    """The units of a part of a page; ``is_page``: of a whole page, in which XML's closed tags are refused."""
    # Latin-1 has a character for each byte, and HTML's signs are those of ASCII. turbohtml reads all ends of lines as
    # "\n", and its tokenizer passes over "</>".
    text = page.content[slice(*place)].decode("latin-1")
    text = text.replace("\r\n", " \n").replace("\r", "\n").replace("</>", "<!>")
    text = CODE.sub(_hide_code, text).replace("<%", "<?")
    _check_tags(text, is_page)
    kept, last = dict[int, int](), 0  # where elements that are not translated begin and end
    # Elements that do not matter here are left out, since each takes memory.
    found = parse(text, source_locations=True).iter_elements()
    found = (element for element in found if _is_kept(element) or not NAMED.isdisjoint(element.attrs))
    starts = ((element.source_location.start_tag.start_offset, element) for element in found if _has_place(element))
    for start, element in sorted(starts, key=itemgetter(0)):
        if start >= last and _is_kept(element):
            kept[start] = last = _find_end(element, len(text))
        elif start >= last:
            yield from _attribute_units(page, place[0], element)
    parts: list[Part] = []
    last, is_raw, block = 0, False, ""
    for start, end, token in _tokens(text):
        if start < last:
            continue
        last = kept.get(start, end)
        where, name, kind = (place[0] + start, place[0] + last), token.tag or "", token.type.name
        is_whole = kind in ("COMMENT", "PROCESSING_INSTRUCTION") or (is_raw and kind == "TEXT")
        if is_whole or (start in kept and name in INLINE):
            parts.append(Part(f'<x id="{len(parts)}"/>', where, "-"))
        elif kind in ("TEXT", "CHARACTER_REFERENCE"):
            around = text[start - 1 : start] + text[last : last + 1]
            parts.append(_text_part(where, page.content[slice(*where)].decode(), kind, around))
        elif name in INLINE and kind == "END_TAG":
            parts.append(Part(f"</{name}>", where, f"/{name}"))
        elif name in INLINE:
            attributes, end = f' id="{len(parts)}"' * bool(token.attrs), "/" * (name in VOID)
            parts.append(Part(f"<{name}{attributes}{end}>", where, "-" if end else name))
        else:
            yield from _text_units(page, parts, block)
            is_first = block == "tr" and name in ("td", "th")  # a name, if it is a word in small letters
            parts, block = [], "dt" if is_first else name * (kind == "START_TAG" and start not in kept)
        is_raw = kind == "START_TAG" and name in RAW and last == end
    yield from _text_units(page, parts, block)


def _hide_code(found: re.Match[str]) -> str:
    """Code of a template as text without HTML's signs, or as an instruction, which is as long."""
    plain = found[0].translate(NO_SIGNS)
    return f"<?{plain[2:-1]}>" if found["script"] else plain


def _check_tags(text: str, is_page: bool) -> None:
    """Refuse tags that would fill the memory, and a tag such as ``<title/>`` that would hold the rest of a whole page.

    If an element is not closed, the parser opens it again in each later block. For each further ``<html>`` or
    ``<body>`` tag, it copies the attributes of all earlier ones.
    """
    opened, reopened, merged = Counter[str](), 0, 0
    for start, _, token in _tokens(text):
        name, kind = token.tag or "", token.type.name
        if is_page and kind == "START_TAG" and token.self_closing and name in SELF_CLOSED:
            line = text.count("\n", 0, start) + 1
            raise InputError(f"line {line}: HTML does not close <{name}/>, as XML does; write <{name}></{name}>")
        if name in REOPENED:
            opened[name] = max(0, opened[name] + (1 if kind == "START_TAG" else -1))
        elif kind == "START_TAG" and name in ("html", "body"):
            merged += len(token.attrs)
            reopened += merged
        elif kind == "START_TAG" and name not in INLINE:
            reopened += opened.total()
    if reopened > MAX_REOPENED:
        raise InputError("too many tags of HTML, such as <b> or <body>, are not closed; close them")


def _has_place(node: Any) -> bool:
    """Whether a node is an element with a tag in the page."""
    return getattr(node, "source_location", None) is not None


def _find_end(element: Any, end: int) -> int:
    """The place where an element ends. An element without an end tag ends where the next element of its kind begins, or
    where an element around it ends."""
    location = element.source_location
    if location.end_tag or not element.children:
        return (location.end_tag or location.start_tag).end_offset
    around = filter(_has_place, islice(element.ancestors, MAX_OPEN))
    ends = [other.source_location.end_tag.start_offset for other in around if other.source_location.end_tag]
    starts = (other.source_location.start_tag.start_offset for other in filter(_has_place, element.following))
    return min([*ends[:1], next(starts, end)])


def _tokens(text: str) -> Iterator[tuple[int, int, Any]]:
    """Where each token begins and ends, and the token; a tag without an end is none."""
    starts = [*accumulate((len(line) + 1 for line in text.split("\n")), initial=0)]
    tokens = tokenize(text, resolve_references=False, capture_source=True)
    located = ((starts[token.line - 1] + token.col, token) for token in tokens)
    for (start, token), (end, _) in pairwise(chain(located, [(None, None)])):
        yield start, start + len(token.source or token.data) if end is None else end, token


def _is_kept(element: Any) -> bool:
    """Whether what an element holds is not translated."""
    is_left = any(map(LEFT_CLASS.fullmatch, element.attrs.get("class", ())))
    return element.tag in KEPT or is_left or element.attrs.get("translate", "").lower() == "no"


def _text_part(place: Place, text: str, kind: str, around: str) -> Part:
    """A text or a reference; ``around``: the characters before and after it.

    A translator sees letters, quotation marks, ``&`` alone and blanks between letters in place of references.
    """
    if kind == "TEXT":
        return Part(BLANKS.sub(" ", text), place)
    sign = unescape(text)
    if sign.isspace() and len(around) == 2 and around.isalpha():
        return Part(" ", place)
    is_kept = sign in ("<", ">", "\ufffd", text) or sign.isspace() or (sign == "&" and not around[1:].isspace())
    return Part(f"{text.rstrip(';')};" if is_kept else sign, place)


def _text_units(page: Page, parts: list[Part], block: str) -> Iterator[Unit]:
    """The unit of a text, if it has letters; blanks, comments and images around it are no part of it.

    A heading or a term of one word in small letters is a name.
    """
    if block in TITLES and NAME.fullmatch("".join(part.shown for part in parts if not part.tag).strip()):
        return
    if any(LETTER.search(part.shown) for part in parts if not part.tag and not SHOWN.fullmatch(part.shown)):
        inner = [number for number, part in enumerate(parts) if part.tag != "-" and part.shown != " "]
        parts = parts[inner[0] : inner[-1] + 1]
        yield page.make_unit((parts[0].written[0], parts[-1].written[1]), parts, _encode)


def _encode(text: str, quote: bool = False) -> str:
    """Text as HTML; a reference stays, and so do the signs in code of templates. ``quote``: it is an attribute."""
    if not quote and text.startswith("&") and SHOWN.fullmatch(text):
        return text
    parts, last, entities = [], 0, {'"': "&quot;"} if quote else {}
    for code in CODE.finditer(text):
        parts += [escape(text[last : code.start()], entities), code[0]]
        last = code.end()
    return "".join([*parts, escape(text[last:], entities)])


def _is_name(attribute: str, value: str) -> bool:
    """Whether the value is a name, as in label="Yarn" and title="starlight-blog"."""
    is_one_word = NAME.fullmatch(value) is not None and not value.isalpha()
    return (attribute == "label" and " " not in value) or (attribute == "title" and is_one_word)


def _attribute_units(page: Page, first: int, element: Any) -> Iterator[Unit]:
    """The units of attributes that readers see, in a part of a page that begins at ``first``.

    Where the page declares its language or encoding is added to ``page.declared``.
    """
    shown, declared = {*ATTRIBUTES}, {"charset": '"utf-8"'} if element.tag == "meta" else {}
    if element.tag == "html":
        declared = dict.fromkeys(("lang", "xml:lang"), '"{}"')
    elif element.tag == "meta" and element.attrs.get("http-equiv", "").lower() == "content-type":
        declared = {"content": '"text/html; charset=utf-8"'}
    if element.tag == "input" and element.attrs.get("type", "").lower() in ("button", "reset", "submit"):
        shown.add("value")
    if element.tag == "meta" and META & {str(element.attrs.get(key)).lower() for key in ("name", "property")}:
        shown.add("content")
    for name, span in element.source_location.attrs.items():
        value, end = element.attrs[name], first + span.end_offset
        written = page.content[first + span.start_offset : end].partition(b"=")[2].lstrip()
        place, text = (end - len(written), end), written.decode()
        if value and name in declared and "utf-8" not in value.lower() and not CODE.search(text):
            page.declared.append((place, declared[name]))
            if element.tag == "html":
                page.language = value
        elif name in shown and value and not _is_name(name, value):
            source = unescape(text[1:-1] if text[0] in "\"'" else text).strip()
            if LETTER.search(CODE.sub("", source)):
                yield page.make_unit(place, [Part(source, place)], partial(_encode, quote=True), ('"', '"'))
