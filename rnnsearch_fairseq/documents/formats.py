"""Read documents, PO (gettext), XLIFF (1 and 2), TS (Qt) and Markdown, and fill in what is not translated in them.

The stores of translate-toolkit read, change and write them; PO comes back byte for byte but for the messages filled.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from rnnsearch_fairseq.documents.html import read_html
from rnnsearch_fairseq.documents.markdown import has_attribute_lists, read_markdown
from rnnsearch_fairseq.documents.units import Document, Unit
from rnnsearch_fairseq.errors import InputError, quote
from rnnsearch_fairseq.text.lines import check_rereadable, open_bytes
from rnnsearch_fairseq.text.markup import list_spans

MAX_BYTES = 1 << 26  # of a document, which is held in memory
HEAD = 4096  # bytes, in which a file shows what it is
XML = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*<(?:\?xml|!DOCTYPE TS|TS|xliff|tmx)\b")
PO = re.compile(rb'^msgid[ \t]+"', re.MULTILINE)
MAX_CONTEXT = 10_000  # messages in a context of TS, each of which lxml looks for among all
DAMAGE = ValueError, LookupError, TypeError, AttributeError, AssertionError, StopIteration  # from translate-toolkit


def is_document(path: Path) -> bool:
    """Whether a file is named as one that holds sources and translations; files of TypeScript are named as Qt's."""
    return file_suffix(path) in BILINGUAL or (file_suffix(path) == ".ts" and _begins_as_document(path))


def is_readable(path: Path) -> bool:
    """Whether a file is a document by its name or its content, which is never translated line by line."""
    return file_suffix(path) in READERS or _begins_as_document(path)


def read_document(path: Path) -> Document:
    """Read a document, packed if its name ends in .gz; if it begins as XML or PO, its name does not matter.

    Raises:
        InputError: it cannot be read, is too large, or is not what its name says.
    """
    check_rereadable(path)
    with open_bytes(path) as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise InputError(f"{path}: has more than {MAX_BYTES:,} bytes; split it")
    return (_find_reader(content[:HEAD]) or READERS[file_suffix(path)])(path, content)


def file_suffix(path: Path) -> str:
    """The ending of a file's name in lower case, before ``.gz``."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


def _find_reader(head: bytes) -> Callable[[Path, bytes], Document] | None:
    """The reader of a document that begins with ``head``, if this is the beginning of XML or PO."""
    return next((reader for begins, reader in BEGINNINGS.items() if begins.search(head)), None)


def _begins_as_document(path: Path) -> bool:
    if not os.path.isfile(path):
        return False
    with open_bytes(path) as file:
        return _find_reader(file.read(HEAD)) is not None


def refuse_document(where: str, head: bytes) -> None:
    """Refuse a document among lines of text, which begins with ``head``."""
    if _find_reader(head[:HEAD]):
        raise InputError(f"{where}: a document, not lines of text; give it as a file, and --output")


def _read_po(path: Path, content: bytes) -> Document:
    from translate.storage.pypo import pofile

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
    units = [unit for message in store.units for unit in _message_units(message, message.line_number)]
    return Document(store, units, store.gettargetlanguage())


def _message_units(message: Any, line: int) -> Iterator[Unit]:
    """The unit of a message of PO or TS; none if it has no text, or is a header or obsolete."""
    sources, targets = _forms(message.source), _forms(message.target)

    def fill(texts: Sequence[str]) -> list[str]:
        # The first form is the singular, unless a language has only one. "One file of %2$s" is no format of gettext's.
        spans = list_spans(sources[0])
        incomplete = "$" in "".join(spans) and Counter(spans) != Counter(list_spans(sources[-1]))
        singular = texts[-1 if incomplete or len(targets) == 1 else 0]
        message.target = [singular, *[texts[-1]] * (len(targets) - 1)] if message.hasplural() else texts[0]
        message.markfuzzy()
        return ["is that of the plural, since gettext allows no %2$ without %1$"] * incomplete

    if message.istranslatable() and any(sources):
        flags = "".join(getattr(message, "typecomments", [])).replace(",", " ").split()
        has_format = any(flag.endswith("-format") and not flag.startswith("no-") for flag in flags)
        yield Unit(f"line {line}", sources, targets, not message.isfuzzy(), fill, has_format)


def _forms(text: Any) -> list[str]:
    """The forms of a message's text, of which it has one if it has no plural forms."""
    return [str(form) for form in getattr(text, "strings", [text or ""])] or [""]


def _read_xml(path: Path, content: bytes) -> Document:
    from lxml import etree
    from translate.misc.xml_helpers import parse_xml
    from translate.storage.ts2 import tsfile
    from translate.storage.xliff import Xliff1File
    from translate.storage.xliff2 import Xliff2File

    from rnnsearch_fairseq.documents.xliff import xliff_units

    try:
        root = parse_xml(content)
        name = etree.QName(root).localname
        if name == "TS":
            if max(map(len, root), default=0) > MAX_CONTEXT:
                raise ValueError(f"a context has more than {MAX_CONTEXT:,} messages")
            store = tsfile(BytesIO(content))
            units = [unit for one in store.units for unit in _message_units(one, one.xmlelement.sourceline)]
        elif name == "xliff":
            store = (Xliff2File if root.get("version", "").startswith("2") else Xliff1File)(BytesIO(content))
            store.XMLindent = {"max_level": 0, "toplevel": False}  # the blanks between elements stay as they are
            units = [unit for element in store.units for unit in xliff_units(element)]
        else:
            raise ValueError(f"its first element is {name}")
        return Document(store, units, store.gettargetlanguage())
    except (etree.XMLSyntaxError, *DAMAGE) as error:
        raise InputError(f"{path}: not XLIFF or TS ({quote(error) or 'incomplete'}); export it again") from error


def _read_page(path: Path, content: bytes) -> Document:
    try:
        text = content.decode()
        return (
            read_html(text)
            if file_suffix(path) in (".html", ".htm")
            else read_markdown(content, has_attribute_lists(path))
        )
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 ({quote(error)}); convert it with iconv") from error


BEGINNINGS = {XML: _read_xml, PO: _read_po}
BILINGUAL = {
    **dict.fromkeys((".po", ".pot"), _read_po),
    **dict.fromkeys((".xlf", ".xliff", ".sdlxliff", ".mqxliff", ".mxliff"), _read_xml),
}
READERS = {**BILINGUAL, ".tmx": _read_xml, **dict.fromkeys((".md", ".markdown", ".html", ".htm"), _read_page)}
