"""Read documents, PO (gettext), XLIFF (1 and 2), TS (Qt), Markdown and HTML, and find those in folders.

The stores of translate-toolkit read and write PO, XLIFF and TS; only what is filled changes in a document.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

from rnnsearch_fairseq.documents.html import read_html
from rnnsearch_fairseq.documents.markdown import FENCE, read_markdown
from rnnsearch_fairseq.documents.units import Document, Unit
from rnnsearch_fairseq.errors import InputError, quote
from rnnsearch_fairseq.text.lines import check_rereadable, open_bytes
from rnnsearch_fairseq.text.markup import scan

MAX_BYTES = 1 << 26  # of a document, which is held in memory
MAX_PARTS = 100_000  # messages, lines or the like, since each takes up to 3 kB of memory
HEAD = 4096  # bytes, in which a file shows what it is
XML = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*<(?:\?xml|!DOCTYPE TS|TS|xliff|tmx)\b")
PO = re.compile(rb'^msgid[ \t]+"', re.MULTILINE)
LEFT = {".git", "node_modules"}  # folders that are no part of a site
UNWRAPPED = re.compile(rb'^(?:msg[\w\[\]]+ )?"[^"\n]{0,60} [^"\n]{80}', re.MULTILINE)
DOUBLED = re.compile(r"(?<=\w)''(?=\w)")
ELISION = re.compile(r"(?<=\w)'(?=\w)")
DAMAGE = ValueError, LookupError, TypeError, AttributeError, AssertionError, StopIteration  # from translate-toolkit


class Format(NamedTuple):
    """How documents of a kind are named and read."""

    suffixes: tuple[str, ...]
    read: Callable[[Path, bytes], Document]
    part: tuple[bytes, str]  # what stands at least once in each message, and its name
    begins: re.Pattern[bytes] | None = None  # the beginning of a file that is read so whatever its name
    bilingual: bool = True  # it holds translations beside the sources
    in_folders: bool = True


def is_document(path: Path) -> bool:
    """Whether a file is named as one that holds sources and translations; files of TypeScript are named as Qt's."""
    known = _find_format(path)
    return known is not None and known.bilingual and known.in_folders


def is_readable(path: Path) -> bool:
    """Whether a file is a document by its name or its content, which is never translated line by line."""
    return _find_format(path) is not None or (os.path.isfile(path) and _find_beginning(_read_head(path)) is not None)


def read_folder(folder: Path) -> tuple[list[Path], list[Path]]:
    """The documents of a folder, and what its translation needs beside them: all other files of a site with pages.

    Templates of PO are translated into no language.

    Raises:
        InputError: it holds no document.
    """
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and LEFT.isdisjoint(path.parts)]
    known = {path: _find_format(path) for path in paths if ".pot" not in path.suffixes}
    documents = [path for path, found in known.items() if found is not None and found.in_folders]
    if not documents:
        suffixes = ", ".join(suffix for found in FORMATS if found.in_folders for suffix in found.suffixes[:1])
        raise InputError(f"{folder}: holds no document ({suffixes}); give another folder")
    pages = any(not known[path].bilingual for path in documents)
    return documents, sorted({*paths} - {*documents}) if pages else []


def read_document(path: Path) -> Document:
    """Read a document, packed if its name ends in .gz; if it begins as XML or PO, its name does not matter.

    Raises:
        InputError: it cannot be read, is too large, or is not what its name says.
    """
    check_rereadable(path)
    with open_bytes(path) as file:
        content = file.read(MAX_BYTES + 1)
    known = _find_format(path)
    if known is None or known.bilingual:
        known = _find_beginning(content[:HEAD]) or known
    part, name = known.part
    if len(content) > MAX_BYTES or content.count(part) > MAX_PARTS:
        raise InputError(f"{path}: has more than {MAX_BYTES:,} bytes or {MAX_PARTS:,} {name}; split it")
    return known.read(path, content)


def file_suffix(path: Path) -> str:
    """The ending of a file's name in lower case, before ``.gz``."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


def _find_format(path: Path) -> Format | None:
    """The format of a file's name."""
    found = next((known for known in FORMATS if file_suffix(path) in known.suffixes), None)
    if found is not None and file_suffix(path) == ".ts" and not (path.is_file() and _find_beginning(_read_head(path))):
        return None  # TypeScript
    return found


def _find_beginning(head: bytes) -> Format | None:
    """The format of a document that begins with ``head``, if this is the beginning of XML or PO."""
    return next((known for known in FORMATS if known.begins and known.begins.search(head)), None)


def _read_head(path: Path) -> bytes:
    with open_bytes(path) as file:
        return file.read(HEAD)


def refuse_document(where: str, head: bytes) -> None:
    """Refuse a document among lines of text, which begins with ``head``."""
    if _find_beginning(head[:HEAD]):
        raise InputError(f"{where}: a document, not lines of text; give it as a file, and --output")


def _read_po(path: Path, content: bytes) -> Document:
    from translate.storage.pypo import PoWrapper, pofile

    try:
        try:
            text = content.decode()
        except UnicodeDecodeError:  # pofile reads UTF-8, and writes in the encoding that the header names
            text = content.decode(pofile(BytesIO(content.decode("latin-1").encode())).encoding)
        store = pofile(BytesIO(text.encode()))
        for message in store.units:  # pofile gives the flags of some messages another end of line
            message.typecomments = [f"{line.rstrip()}{store.newline}" for line in message.typecomments]
        written = bytes(store)
    except DAMAGE as error:
        raise InputError(f"{path}: not a PO file ({quote(error)}); mend what msgfmt --check says") from error
    if written.count(b"msgstr") != content.count(b"msgstr"):
        raise InputError(f"{path}: messages are not laid out as usual; rewrite it with msgcat")
    wrapper = PoWrapper(-1)  # which does not wrap
    for message in store.units:
        if UNWRAPPED.search(content) is not None or message.hastypecomment("no-wrap"):
            message.wrapper = wrapper
    units = [unit for message in store.units for unit in _message_units(message)]
    return Document(store, units, store.gettargetlanguage())


def _message_units(message: Any) -> Iterator[Unit]:
    """The unit of a message of PO; none if it has no text, or is a header or obsolete."""
    sources, targets = _forms(message.source), _forms(message.target)
    flags = "".join(message.typecomments).replace(",", " ").split()
    shell = _Shell(sources, "java-format" in flags)

    def fill(texts: Sequence[str]) -> list[str]:
        texts = [shell.wrap(text) for text in texts]
        # The first form is the singular, unless a language has only one. "One file of %2$s" is no format of gettext's.
        spans = scan(sources[0]).spans
        incomplete = "$" in "".join(spans) and Counter(spans) != Counter(scan(sources[-1]).spans)
        singular = texts[-1 if incomplete or len(targets) == 1 else 0]
        message.target = [singular, *[texts[-1]] * (len(targets) - 1)] if message.hasplural() else texts[0]
        message.markfuzzy()
        return ["is that of the plural, since gettext allows no %2$ without %1$"] * incomplete

    if message.istranslatable() and any(sources):
        has_format = any(flag.endswith("-format") and not flag.startswith("no-") for flag in flags)
        texts = [[shell.unwrap(text) for text in side] for side in (sources, targets)]
        yield Unit(f"line {message.line_number}", *texts, not message.isfuzzy(), fill, has_format)


class _Shell:
    """What is around the text of a message or written in other words there, and stays.

    That is quotation marks of a program, the fence of an admonition of mdBook or MyST, and the apostrophes of Java's
    MessageFormat, which are doubled, since one alone begins what is no format.
    """

    def __init__(self, sources: Sequence[str], java: bool) -> None:
        first, text = sources[0].partition("\n")[0], sources[0]
        self._before = self._after = ""
        if len(text) > 2 and all(form[:1] == form[-1:] == '"' and form.count('"') == 2 for form in sources):
            self._before = self._after = '"'
        elif (fence := FENCE.fullmatch(first.encode())) and text.rstrip().endswith(end := "\n" + fence[1].decode()):
            self._before, self._after = f"{first}\n", text[text.rindex(end) :]
        whole = "".join(sources)
        self._java = "{" in whole and (java or DOUBLED.search(whole) is not None)
        self._all = self._java and "'" not in whole.replace("''", "")

    def unwrap(self, text: str) -> str:
        """The text of a form."""
        if text.startswith(self._before) and text.endswith(self._after):
            text = text[len(self._before) : len(text) - len(self._after)]
        return text.replace("''", "'") if self._all else text

    def wrap(self, text: str) -> str:
        """The form of a text."""
        if self._java:
            text = text.replace("'", "''") if self._all else ELISION.sub("''", text)
        return f"{self._before}{text}{self._after}"


def _forms(text: Any) -> list[str]:
    """The forms of a message's text, of which it has one if it has no plural forms."""
    return [str(form) for form in getattr(text, "strings", [text or ""])] or [""]


def _read_xml(path: Path, content: bytes) -> Document:
    from lxml import etree
    from translate.misc.xml_helpers import parse_xml
    from translate.storage.ts2 import tsfile
    from translate.storage.xliff import Xliff1File
    from translate.storage.xliff2 import Xliff2File

    from rnnsearch_fairseq.documents.xliff import ts_units, xliff_units

    class QtFile(tsfile):
        def serialize(self, out: BytesIO) -> None:
            """Write the file with empty elements of bytes as Qt does."""
            super().serialize(written := BytesIO())
            out.write(written.getvalue().replace(b"></byte>", b"/>"))

    try:
        root = parse_xml(content)
        name = etree.QName(root).localname
        if name == "TS":
            store = QtFile(BytesIO(content))
            units = list(ts_units(store.document.getroot()))
        elif name == "xliff":
            store = (Xliff2File if root.get("version", "").startswith("2") else Xliff1File)(BytesIO(content))
            units = [unit for element in store.units for unit in xliff_units(element)]
        else:
            raise ValueError(f"its first element is {name}")
        store.XMLindent = {"max_level": 0, "toplevel": False}  # the blanks between elements stay as they are
        return Document(store, units, store.gettargetlanguage())
    except (etree.XMLSyntaxError, *DAMAGE) as error:
        raise InputError(f"{path}: not XLIFF or TS ({quote(error) or 'incomplete'}); export it again") from error


def _read_markdown(path: Path, content: bytes) -> Document:
    _decode(path, content)
    return read_markdown(content)


def _read_html(path: Path, content: bytes) -> Document:
    return read_html(_decode(path, content))


def _decode(path: Path, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 ({quote(error)}); convert it with iconv") from error


FORMATS = (
    Format((".po", ".pot"), _read_po, (b"msgid", "messages"), PO),
    Format((".xlf", ".xliff", ".sdlxliff", ".mqxliff", ".mxliff"), _read_xml, (b"</source", "messages"), XML),
    Format((".ts",), _read_xml, (b"<source", "messages")),
    Format((".tmx",), _read_xml, (b"<seg", "segments"), in_folders=False),
    Format((".md", ".markdown"), _read_markdown, (b"\n", "lines"), bilingual=False),
    Format((".html", ".htm"), _read_html, (b"</", "end tags"), bilingual=False),
)
