"""Read translators' documents, PO (gettext), XLIFF (1 and 2) and TS (Qt), and fill in what is not translated in them.

The stores of translate-toolkit read, change and write them; PO comes back byte for byte but for the messages filled.
"""

from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

from rnnsearch_fairseq.documents.units import Unit
from rnnsearch_fairseq.errors import InputError, in_short
from rnnsearch_fairseq.text.lines import open_bytes

MAX_BYTES = 1 << 26  # of a document, which is held in memory
MAX_UNIT_WORDS = 100  # in a training pair, and in a piece of a message that is translated at a time
DAMAGE = ValueError, LookupError, TypeError, AttributeError, AssertionError, StopIteration  # from translate-toolkit


class Document(NamedTuple):
    """A document: its store of translate-toolkit, which ``bytes`` writes, and its units that may be translated."""

    store: Any
    units: list[Unit]


def is_document(path: Path) -> bool:
    """Whether the name of a file is that of a document."""
    return path.suffix.lower() in READERS


def read_document(path: Path) -> Document:
    """Read a document.

    Raises:
        InputError: the file cannot be read, is too large, or is not what its name says.
    """
    with open_bytes(path) as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise InputError(f"{path}: has more than {MAX_BYTES:,} bytes; split it")
    return READERS[path.suffix.lower()](path, content)


def _read_po(path: Path, content: bytes) -> Document:
    from translate.storage.pypo import pofile

    try:
        store = pofile(BytesIO(content))
        written = bytes(store)
    except DAMAGE as error:
        raise InputError(f"{path}: not a PO file ({in_short(error)}); mend what msgfmt --check says") from error
    if written.count(b"msgstr") != content.count(b"msgstr"):
        raise InputError(f"{path}: messages are not laid out as usual; rewrite it with msgcat")
    messages = [
        unit for unit in store.units if not unit.isheader() and not unit.isobsolete() and any(_forms(unit.source))
    ]
    return Document(store, [*map(_po_unit, messages)])


def _po_unit(message: Any) -> Unit:
    sources, targets = _forms(message.source), _forms(message.target)

    def fill(texts: Sequence[str]) -> None:
        # The first form is the singular, unless a language has only one.
        message.target = [texts[-1 if number or len(targets) == 1 else 0] for number in range(len(targets))]
        message.markfuzzy()

    return Unit(sources, targets, not message.isfuzzy(), fill)


def _forms(text: Any) -> list[str]:
    """The forms of a message's text, of which it has one if it has no plural forms."""
    return [str(form) for form in getattr(text, "strings", [text or ""])]


def _read_xml(path: Path, content: bytes) -> Document:
    from lxml import etree
    from translate.storage.ts2 import tsfile
    from translate.storage.xliff import Xliff1File
    from translate.storage.xliff2 import Xliff2File

    from rnnsearch_fairseq.documents.xliff import xliff_units

    try:
        _, root = next(etree.iterparse(BytesIO(content), ["start"], resolve_entities=False, no_network=True))
        name = etree.QName(root).localname
        if name == "TS":
            store, read = tsfile(BytesIO(content)), _ts_units
        elif name == "xliff":
            store_type = Xliff2File if root.get("version", "").startswith("2") else Xliff1File
            store, read = store_type(BytesIO(content)), xliff_units
            store.XMLindent = {"max_level": 0, "toplevel": False}  # the blanks between elements stay as they are
        else:
            raise ValueError(f"its first element is {name}")
        return Document(store, [unit for element in store.units for unit in read(element)])
    except etree.XMLSyntaxError as error:
        raise not_well_formed(path, error) from error
    except DAMAGE as error:
        raise InputError(
            f"{path}: neither XLIFF nor TS ({in_short(error) or 'incomplete'}); export it again"
        ) from error


def not_well_formed(path: Path, error: Any) -> InputError:
    """The error for a file that a parser of XML refuses."""
    return InputError(f"{path}, line {error.lineno}: not well-formed XML ({in_short(error)}); export it again")


def _ts_units(message: Any) -> Iterator[Unit]:
    sources, targets = _forms(message.source), _forms(message.target) or [""]

    def fill(texts: Sequence[str]) -> None:
        message.target = [texts[0]] * len(targets) if message.hasplural() else texts[0]
        message.markfuzzy()

    if message.istranslatable() and any(sources):
        yield Unit(sources, targets, not message.isreview(), fill)


READERS = {".po": _read_po, ".pot": _read_po, **dict.fromkeys((".xlf", ".xliff", ".ts"), _read_xml)}
