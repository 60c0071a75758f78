"""Read translators' documents, PO (gettext) and XLIFF (1 and 2), and fill in what is not translated in them.

A unit is what is translated at a time: a message of PO, a ``<trans-unit>`` of XLIFF 1 or a ``<segment>`` of XLIFF 2.
Only the units that are filled change; every other byte stays. Tags inside a unit of XLIFF are part of its text.
"""

import codecs
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.parsers import expat
from xml.sax.saxutils import escape

from rnnsearch_fairseq.errors import InputError, in_short
from rnnsearch_fairseq.text.lines import open_bytes, unescaped

MOST_BYTES = 1 << 26  # of a document, which is held in memory

# A message of PO that is not obsolete.
ENTRY = re.compile(
    rb"(?P<comments>(?:^#(?!~)[^\n]*\n)*)"
    rb"(?P<message>(?:^(?:msgctxt|msgid|msgid_plural)%(line)s(?:^%(line)s)*)+)"
    rb"(?:^msgstr(?:\[\d+\])?%(line)s(?:^%(line)s)*)+" % {b"line": rb'[ \t]*"[^\n]*(?:\n|\Z)'},
    re.MULTILINE,
)
INSIDE = r"""(?:[^>"']|"[^"]*"|'[^']*')*"""  # of a tag of XML: a value in quotation marks may hold >
# A unit of XLIFF: its source and, directly after it, its target. One whose target stands elsewhere is passed over.
UNIT = re.compile(
    rb"<!--.*?-->|(?P<tag><(?P<prefix>(?:[\w.-]+:)?)(?P<name>trans-unit|segment)(?=[\s>])%(any)s(?<!/)>)(?P<gap>%(gap)s)"
    rb"(?P<source><(?P=prefix)source(?=[\s>])%(any)s(?<!/)>(?P<text>%(text)s)</(?P=prefix)source\s*>"
    rb"(?:%(gap)s<(?P=prefix)seg-source[\s>]%(text)s</(?P=prefix)seg-source\s*>)?)(?:(?P<between>%(gap)s)"
    rb"<(?P=prefix)target(?=[\s/>])(?P<attributes>%(any)s)(?:/>|>(?P<target>%(text)s)</(?P=prefix)target\s*>)"
    rb"|(?!(?:(?!</?(?P=prefix)(?:trans-unit|segment|alt-trans)\b).)*<(?P=prefix)target\b))"
    % {
        b"any": f"{INSIDE}?".encode(),  # as short as possible
        b"gap": rb"(?:\s|<!--.*?-->)*",
        b"text": rb"(?:<!\[CDATA\[.*?\]\]>|(?!</?(?P=prefix)(?:(?:seg-)?source|target)\b).)*",
    },
    re.DOTALL,
)
CONTENT = re.compile(rf"<!\[CDATA\[(?P<plain>.*?)\]\]>|<!--.*?-->|(?P<tag><{INSIDE}>)|(?P<escaped>[^<]+)", re.DOTALL)
STATE = re.compile(rb"""\s+(state(?:-qualifier)?|approved)\s*=\s*["']([^"']*)["']""")
MAX_UNIT_WORDS = 100  # in a training pair, and in a piece of a message that is translated at a time
UNFINISHED = (b"new", b"initial", b"needs-")  # how those states of XLIFF begin that ask for a translator


class Unit(NamedTuple):
    """A unit of a document; ``sources`` are its text, or the singular and the plural of a message with plural forms.

    ``targets`` are its translations, empty where there are none, and ``finished`` unless they are marked as fuzzy or as
    in need of translation or review. ``write`` gives, from other translations, the new bytes from ``start`` to ``end``.
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
    with open_bytes(path) as file:
        content = file.read(MOST_BYTES + 1)
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
        cure = "delete its byte order mark" if content.startswith(codecs.BOM_UTF8) else "rewrite it with msgcat"
        raise InputError(f"{path}: messages are not laid out as usual; {cure}")
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


def not_well_formed(path: Path, error: Any) -> InputError:
    """The error for a file that a parser of XML refuses."""
    return InputError(f"{path}, line {error.lineno}: not well-formed XML ({in_short(error)}); export it again")


def _read_xliff(path: Path, content: bytes) -> list[Unit]:
    translatable, inherited, parser = set(), ["yes"], expat.ParserCreate()

    def start(name: str, attributes: dict[str, str]) -> None:
        inherited.append(attributes.get("translate", inherited[-1]))
        if inherited[-1] != "no":
            translatable.add(parser.CurrentByteIndex)

    parser.StartElementHandler, parser.EndElementHandler = start, lambda name: inherited.pop()
    try:
        parser.Parse(content.decode().encode(), True)
    except expat.ExpatError as error:
        raise not_well_formed(path, error) from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not in UTF-8; export it again") from error
    return [_xliff_unit(place) for place in UNIT.finditer(content) if place.start() in translatable]


def _xliff_unit(place: re.Match[bytes]) -> Unit:
    source, target = _text(place["text"]), _text(place["target"])
    state = dict(STATE.findall(place["tag"] + (place["attributes"] or b""))).get(b"state", b"")
    if source == target and state.startswith(UNFINISHED):  # as tools for translators write it before the translation
        target = ""
    finished = not state.startswith(UNFINISHED)
    return Unit([source], [target], finished, *place.span(), lambda texts: _write_xliff(place, texts[0]))


def _write_xliff(place: re.Match[bytes], text: str) -> bytes:
    tag, name, gap, prefix = STATE.sub(b"", place["tag"]), place["name"], place["gap"], place["prefix"]
    between = place["between"] if place["between"] is not None else gap if not gap.strip() else b""
    attributes = STATE.sub(b"", place["attributes"] or b"").rstrip()
    if name == b"segment":
        tag = tag.replace(name, b'segment state="initial"', 1)
    else:
        attributes += b' state="needs-review-translation"'
    written = _xml(text, place["text"].decode()).encode()
    target = [b"<", prefix, b"target", attributes, b">", written, b"</", prefix, b"target>"]
    return b"".join([tag, gap, place["source"], between, *target])


def _text(content: bytes | None) -> str:
    """The text of an element of XML; tags in it stay."""
    parts = CONTENT.finditer((content or b"").decode())
    return "".join(part["plain"] or part["tag"] or unescaped(part["escaped"] or "") for part in parts)


def _xml(text: str, source: str) -> str:
    """A translation as XML, with the tags of its source; without tags if it has not the same."""
    tags = [part["tag"] for part in CONTENT.finditer(source) if part["tag"]]
    parts = re.split(f"({'|'.join(map(re.escape, tags)) or '(?!)'})", text)
    written = "".join(part if number % 2 else escape(part) for number, part in enumerate(parts))
    try:
        expat.ParserCreate().Parse(f"<a>{written}</a>", True)
    except expat.ExpatError:
        tags = []
    return written if sorted(tags) == sorted(parts[1::2]) else escape("".join(parts[::2]))


READERS = {".po": _read_po, ".pot": _read_po, ".xlf": _read_xliff, ".xliff": _read_xliff}
