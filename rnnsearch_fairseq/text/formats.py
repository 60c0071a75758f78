"""Read translators' documents, PO (gettext) and XLIFF (1 and 2), and fill in what is not translated in them.

A unit is what is translated at a time: a message of PO, a ``<trans-unit>`` of XLIFF 1 or a ``<segment>`` of XLIFF 2.
Only the units that are filled change; every other byte stays. Tags inside a unit of XLIFF are part of its text.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from xml.parsers import expat
from xml.sax.saxutils import escape

from rnnsearch_fairseq.errors import InputError, in_short
from rnnsearch_fairseq.text.lines import unescaped

MOST_BYTES = 1 << 26  # of a document, which is held in memory

# A message of PO that is not obsolete.
ENTRY = re.compile(
    rb"(?P<comments>(?:^#(?!~)[^\n]*\n)*)"
    rb"(?P<message>(?:^(?:msgctxt|msgid|msgid_plural)%(line)s(?:^%(line)s)*)+)"
    rb"(?:^msgstr(?:\[\d+\])?%(line)s(?:^%(line)s)*)+" % {b"line": rb'[ \t]*"[^\n]*(?:\n|\Z)'},
    re.MULTILINE,
)
# The start of a unit of XLIFF, or a whole part of one. Comments and the like match without a name.
ELEMENT = re.compile(
    rb"<!--.*?-->|<\?.*?\?>|<!\[CDATA\[.*?\]\]>|"
    rb"<(?P<prefix>(?:[\w.-]+:)?)(?:(?P<unit>trans-unit|segment)(?=[\s/>])%(attributes)s>|"
    rb"(?P<name>source|seg-source|target)(?=[\s/>])(?P<attributes>%(attributes)s)"
    rb"(?:/>|>(?P<content>(?:<!\[CDATA\[.*?\]\]>|.)*?)</(?P=prefix)(?P=name)\s*>))"
    % {b"attributes": rb"""(?:[^>"']|"[^"]*"|'[^']*')*?"""},
    re.DOTALL,
)
CONTENT = re.compile(r"<!\[CDATA\[(?P<plain>.*?)\]\]>|(?P<tag><[^>]*>)|(?P<escaped>[^<]+)", re.DOTALL)
STATE = re.compile(rb"""\s+(?:state(?:-qualifier)?|approved)\s*=\s*("[^"]*"|'[^']*')""")
UNFINISHED = ("new", "initial", "needs-")  # how those states of XLIFF begin that ask for a translator


class Unit(NamedTuple):
    """A unit of a document; ``sources`` are its text, or the singular and the plural of a message with plural forms.

    ``targets`` are its translations, empty where there are none, and ``finished`` unless they are marked as fuzzy or as
    in need of translation or review. ``write`` gives the bytes for ``start`` to ``end`` anew, from other translations.
    """

    sources: list[str]
    targets: list[str]
    finished: bool
    start: int
    end: int
    write: Callable[[Sequence[str]], bytes]


def is_document(path: Path) -> bool:
    """Whether the name of a file is that of a document."""
    return path.suffix.lower() in READERS


def read_document(path: Path) -> tuple[bytes, list[Unit]]:
    """Return the content of a document, and its units that may be translated.

    Raises:
        InputError: the file cannot be read, is too large, or is not what its name says.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path") from error
    if len(content) > MOST_BYTES:
        raise InputError(f"{path}: has more than {MOST_BYTES:,} bytes; split it")
    return content, READERS[path.suffix.lower()](path, content)


def fill(content: bytes, units: Sequence[Unit], translations: Mapping[int, Sequence[str]]) -> bytes:
    """The document with translations of some of its ``units``, given by their numbers."""
    parts, place = [], 0
    for number in sorted(translations):
        parts += [content[place : units[number].start], units[number].write(translations[number])]
        place = units[number].end
    return b"".join([*parts, content[place:]])


def _read_po(path: Path, content: bytes) -> list[Unit]:
    from translate.storage.pypo import pofile

    try:
        store = pofile.parsestring(content)
    except (ValueError, LookupError) as error:
        raise InputError(f"{path}: not a PO file ({in_short(error)}); mend what msgfmt --check says") from error
    entries = [*ENTRY.finditer(content)]
    messages = [unit for unit in store.units if unit.msgid and not unit.isobsolete()]
    if len(entries) != len(messages):
        raise InputError(f"{path}: messages are not laid out as usual; rewrite it with msgcat")
    return [
        Unit(
            _forms(message.source),
            _forms(message.target),
            not message.isfuzzy(),
            *entry.span(),
            lambda texts, entry=entry, message=message: _write_po(path, store.encoding, entry, message, texts),
        )
        for entry, message in zip(entries, messages)
        if not message.isheader()
    ]


def _forms(text: Any) -> list[str]:
    return [str(form) for form in getattr(text, "strings", [text])]


def _write_po(path: Path, encoding: str, entry: re.Match[bytes], message: Any, texts: Sequence[str]) -> bytes:
    numbers = range(len(_forms(message.target)))
    # The first form is the singular, unless a language has only one.
    message.target = [texts[-1 if number or len(numbers) == 1 else 0] for number in numbers]
    comments = entry["comments"]
    if not message.isfuzzy():
        comments, flags = re.subn(rb"(?m)^#,", b"#, fuzzy,", comments, count=1)
        comments += b"" if flags else f"#, fuzzy{message.newline}".encode()
    try:
        translated = re.search("^msgstr.*", str(message), re.MULTILINE | re.DOTALL)[0].encode(encoding)
    except UnicodeEncodeError as error:
        character = error.object[error.start]
        raise InputError(f"{path}: {encoding} lacks {character!r}; rewrite it with msgconv -t UTF-8") from error
    return comments + entry["message"] + translated


@contextmanager
def xml_errors(path: Path) -> Iterator[None]:
    """Raise an InputError for what is wrong with the XML of a file."""
    try:
        yield
    except SyntaxError as error:
        raise InputError(
            f"{path}, line {error.lineno}: not well-formed XML ({in_short(error.msg)}); export it again"
        ) from error


def _read_xliff(path: Path, content: bytes) -> list[Unit]:
    from translate.misc.xml_helpers import parse_xml

    with xml_errors(path):
        root = parse_xml(content)
    places = [place for place in ELEMENT.finditer(content) if place["unit"] or place["name"]]
    elements = [*root.iter("{*}trans-unit", "{*}segment", "{*}source", "{*}seg-source", "{*}target")]
    if len(places) != len(elements) or (root.getroottree().docinfo.encoding or "UTF-8").upper() != "UTF-8":
        raise InputError(f"{path}: not XLIFF in UTF-8; export it again")
    units: list[tuple[Any, dict[str, re.Match[bytes]]]] = []
    for place, element in zip(places, elements):
        if place["unit"]:
            units.append((element, {"unit": place}))
        elif units and element.getparent() is units[-1][0]:
            units[-1][1].setdefault(place["name"].decode(), place)
    return [
        _xliff_unit(element, parts)
        for element, parts in units
        if "source" in parts and element.xpath("string((ancestor-or-self::*/@translate)[last()])") != "no"
    ]


def _xliff_unit(element: Any, parts: Mapping[str, re.Match[bytes]]) -> Unit:
    source, target = (_text(parts[name]["content"]) if name in parts else "" for name in ("source", "target"))
    state = element.xpath("string(@state | *[local-name() = 'target']/@state)")
    finished = not state.startswith(UNFINISHED)
    if target == source and not finished:  # as tools for translators write it before the translation
        target = ""
    unit, end = parts["unit"], (parts.get("target") or parts.get("seg-source") or parts["source"]).end()
    return Unit([source], [target], finished, unit.start(), end, lambda texts: _write_xliff(parts, end, texts[0]))


def _write_xliff(parts: Mapping[str, re.Match[bytes]], end: int, text: str) -> bytes:
    unit, source, target = parts["unit"], parts["source"], parts.get("target")
    tag, attributes, prefix = STATE.sub(b"", unit[0]), b"", source["prefix"]
    between = unit.string[unit.end() : target.start() if target else end]
    if target:
        attributes = STATE.sub(b"", target["attributes"]).rstrip()
    else:
        indent = re.search(rb"\r?\n[ \t]*\Z", unit.string[: source.start()])
        between += indent[0] if indent else b""
    if unit["unit"] == b"segment":
        name = unit["prefix"] + unit["unit"]
        tag = tag.replace(name, name + b' state="initial"', 1)
    else:
        attributes += b' state="needs-review-translation"'
    written = _xml(text, CONTENT.finditer((source["content"] or b"").decode()))
    return b"%s%s<%btarget%b>%b</%btarget>" % (tag, between, prefix, attributes, written.encode(), prefix)


def _text(content: bytes | None) -> str:
    """The text of an element of XML; tags in it stay."""
    parts = CONTENT.finditer((content or b"").decode())
    return "".join(part["plain"] or part["tag"] or unescaped(part["escaped"] or "") for part in parts)


def _xml(text: str, source: Iterator[re.Match[str]]) -> str:
    """A translation as XML, with the tags of its source; without tags if it has not the same."""
    tags = [part["tag"] for part in source if part["tag"]]
    parts = re.split(f"({'|'.join(map(re.escape, tags)) or '(?!)'})", text)
    written = "".join(part if number % 2 else escape(part) for number, part in enumerate(parts))
    try:
        expat.ParserCreate().Parse(f"<a>{written}</a>", True)
    except expat.ExpatError:
        tags = []
    return written if sorted(tags) == sorted(parts[1::2]) else escape("".join(parts[::2]))


READERS = {".po": _read_po, ".pot": _read_po, ".xlf": _read_xliff, ".xliff": _read_xliff}
