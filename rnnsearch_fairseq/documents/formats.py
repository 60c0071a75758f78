"""Read documents, PO (gettext), XLIFF (1 and 2), TS (Qt) and Markdown, and fill in what is not translated in them.

The stores of translate-toolkit read, change and write them; PO comes back byte for byte but for the messages filled.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

from rnnsearch_fairseq.documents.html import read_html
from rnnsearch_fairseq.documents.units import Document, Unit
from rnnsearch_fairseq.errors import InputError, quote
from rnnsearch_fairseq.text.lines import check_rereadable, open_bytes
from rnnsearch_fairseq.text.markup import list_spans

MAX_BYTES = 1 << 26  # of a document, which is held in memory
HEAD = 4096  # bytes, in which a file shows what it is
XML = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*<(?:\?xml|!DOCTYPE TS|TS|xliff|tmx)\b")
PO = re.compile(rb'^msgid[ \t]+"', re.MULTILINE)
MAX_CONTEXT = 10_000  # messages in a context of TS, each of which lxml looks for among all
# What extensions of Markdown have at the beginning of a line, and translate-toolkit takes for words of a paragraph.
EXTENSION = re.compile(
    r"^([ >\t]*)((?::{3,}|!!!|\?\?\?|\[!\w+\]|import .*['\"];?$|export (?:const|default)\b).*|: +)", re.MULTILINE
)
KEPT = re.compile(r"<!--⟦(\d+)⟧-->(\n[ >\t]*)?")
ESCAPED_BAR = "\ue000"  # a private character, since translate-toolkit does not escape bars in tables again
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


class _Page:
    """A page of Markdown; front matter, code, addresses and the signs of extensions stay as they are."""

    def __init__(self, content: bytes) -> None:
        text = content.decode()
        self.newline = "\r\n" if "\r\n" in text else "\n"
        text = text.replace("\r\n", "\n")
        self.mark = text[: text.startswith("\ufeff")]
        begin, fence, rest = text.removeprefix(self.mark).partition("\n+++\n")
        if begin.startswith("+++\n"):  # front matter of TOML
            self.mark, text = f"{self.mark}{begin}{fence}", rest
        self.kept: list[str] = []
        self.text = EXTENSION.sub(self._keep, text.removeprefix(self.mark).replace(r"\|", ESCAPED_BAR))
        self.translations: dict[str, str] = {}

    def _keep(self, found: re.Match[str]) -> str:
        """A comment in the place of a sign: it ends a paragraph, too; a text may follow a sign with a blank."""
        self.kept.append(found[2])
        return f"{found[1]}<!--⟦{len(self.kept) - 1}⟧-->" + f"\n{found[1]}" * found[2].endswith(" ")

    def _restore(self, found: re.Match[str]) -> str:
        sign = self.kept[int(found[1])]
        return sign if sign.endswith(" ") else sign + (found[2] or "")

    def parse(self) -> Any:
        """The page as translate-toolkit reads it, with the translations that there are."""
        from translate.storage.markdown import MarkdownFile

        return MarkdownFile(
            BytesIO(self.text.encode()),
            callback=lambda text: self.translations.get(text, text),
            extract_code_blocks=False,
            extract_frontmatter=False,
            no_placeholders=True,
        )

    def fill(self, source: str, texts: Sequence[str]) -> list[str]:
        """Take a translation of a text; see `Unit`."""
        self.translations[source] = texts[0]
        return []

    def __bytes__(self) -> bytes:
        text = self.parse().filesrc.rstrip("\n") + "\n" * self.text.endswith("\n")
        text = KEPT.sub(self._restore, text).replace(ESCAPED_BAR, r"\|")
        return (self.mark + text).replace("\n", self.newline).encode()


def _read_markdown(path: Path, content: bytes) -> Document:
    try:
        page = _Page(content)
        sources = dict.fromkeys(unit.source for unit in page.parse().units)
    except (*DAMAGE, RecursionError) as error:
        raise InputError(f"{path}: not a page of Markdown ({quote(error)}); convert it to UTF-8") from error
    named = enumerate(sources, 1)
    return Document(page, [Unit(f"text {n}", [source], [""], False, partial(page.fill, source)) for n, source in named])


def _read_html(path: Path, content: bytes) -> Document:
    try:
        return read_html(content.decode())
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 ({quote(error)}); convert it with iconv") from error


BEGINNINGS = {XML: _read_xml, PO: _read_po}
BILINGUAL = {
    **dict.fromkeys((".po", ".pot"), _read_po),
    **dict.fromkeys((".xlf", ".xliff", ".sdlxliff", ".mqxliff", ".mxliff"), _read_xml),
}
READERS = {**BILINGUAL, ".tmx": _read_xml, ".md": _read_markdown, ".markdown": _read_markdown}
READERS |= {".html": _read_html, ".htm": _read_html}
