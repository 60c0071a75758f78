"""The formats of documents: PO (gettext), XLIFF (1 and 2), TS (Qt), Markdown and HTML."""

import re
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from rnnsearch_fairseq.documents.units import Document
from rnnsearch_fairseq.errors import InputError, quote
from rnnsearch_fairseq.text.lines import check_rereadable, open_bytes

MAX_BYTES = 1 << 26  # of a document, which is held in memory
HEAD = 4096  # bytes, in which a file shows what it is
XML = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*<(?:\?xml|!DOCTYPE TS|TS|xliff|tmx)\b")
PO = re.compile(rb'^msgid[ \t]+"', re.MULTILINE)
# What the readers raise for a damaged file, most of it from translate-toolkit.
DAMAGE = ValueError, LookupError, TypeError, AttributeError, AssertionError, StopIteration, SyntaxError


class Format(NamedTuple):
    """How documents of a kind are named and read."""

    name: str
    suffixes: tuple[str, ...]
    reader: str  # a module of this folder and its function; lines of text are translated without importing any
    begin: re.Pattern[bytes] | None = None  # a file that begins so has this format, whatever its name
    bilingual: bool = True  # the document holds translations beside the sources


XML_ENDINGS = (".xlf", ".xliff", ".sdlxliff", ".mqxliff", ".mxliff", ".ts")
FORMATS = (
    Format("PO", (".po", ".pot"), "po:read_po", PO),
    Format("XLIFF or TS", XML_ENDINGS, "xliff:read_xml", XML),
    Format("Markdown", (".md", ".markdown"), "markdown:read_markdown", bilingual=False),
    Format("MDX", (".mdx",), "markdown:read_mdx", bilingual=False),
    Format("HTML", (".html", ".htm"), "html:read_html", bilingual=False),
)


def is_document(path: Path) -> bool:
    """Whether a file is PO, XLIFF or Qt's TS, which hold sources and translations; ``.ts`` may also be TypeScript."""
    known = find_format(path)
    return known is not None and known.bilingual


def find_format(path: Path) -> Format | None:
    """The format of a file's name; None for a file of TypeScript."""
    suffix = file_suffix(path)
    known = next((known for known in FORMATS if suffix in known.suffixes), None)
    return None if suffix == ".ts" and path.exists() and find_beginning(path) is None else known


def find_beginning(file: Path | bytes) -> Format | None:
    """The format of a file or of its first bytes, if it begins as XML or PO."""
    if isinstance(file, Path):
        with open_bytes(file) as opened:
            file = opened.read(HEAD)
    return next((known for known in FORMATS if known.begin and known.begin.search(file[:HEAD])), None)


def read_document(path: Path) -> Document:
    """Read a document, packed if its name ends in .gz; if it begins as XML or PO, its name does not matter.

    Raises:
        InputError: it cannot be read, is too large, or is not what its name says.
    """
    check_rereadable(path)
    with open_bytes(path) as file:
        content = file.read(MAX_BYTES + 1)
    known = find_format(path)
    if known is None or known.bilingual:
        known = find_beginning(content) or known
    if len(content) > MAX_BYTES:
        raise InputError(f"{path}: has more than {MAX_BYTES:,} bytes; split it")
    module, function = known.reader.split(":")
    read = getattr(import_module(f"rnnsearch_fairseq.documents.{module}"), function)
    try:
        document = read(content)
        *_, language, folder, _ = ("", "", *path.absolute().parts)
        # Django leaves the language of a catalog empty.
        return document._replace(language=language) if folder == "LC_MESSAGES" and not document.language else document
    except UnicodeDecodeError as error:
        number = content.decode(errors="replace").partition("\ufffd")[0].count("\n") + 1
        raise InputError(f"{path}, line {number}: not text in UTF-8; convert the file with iconv") from error
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except DAMAGE as error:
        if not known.bilingual:  # its reader is our own
            raise
        raise InputError(f"{path}: not {known.name} ({quote(error) or 'incomplete'}); repair it") from error


def file_suffix(path: Path) -> str:
    """The ending of a file's name in lower case, before ``.gz``."""
    return Path(path.name.lower().removesuffix(".gz")).suffix
