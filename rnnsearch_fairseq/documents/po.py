"""Read PO files (gettext)."""

import re
from collections.abc import Iterator, Sequence
from functools import partial
from io import BytesIO
from itertools import chain
from typing import Any

from translate.lang.data import languages
from translate.storage.pypo import PoWrapper, pofile

from rnnsearch_fairseq.documents.markdown import ADMONITION
from rnnsearch_fairseq.documents.units import Document, Unit
from rnnsearch_fairseq.text.piece import find_format_faults

UNWRAPPED = re.compile(rb'^(?:msg[\w\[\]]+ )?"[^"\n]{0,60} [^"\n]{80}', re.MULTILINE)
ESCAPE = re.compile(r"\\([0-7]{1,3}|.)")
CREDITS = re.compile("translator[-_]credits.*|Your (?:names|emails)")  # of GNOME and KDE: empty ones are not shown
DOUBLED = re.compile(r"\w''\w")
# Quotation marks of a program, and the fence of an admonition of mdBook or MyST, stay around a text.
SHELL = re.compile(rf'(?P<before>"(?=[^"]+"\Z)|{ADMONITION}\n)(?P<text>.*)(?P<after>"|\n[`~]{{3,}}\s*)', re.DOTALL)


def read_po(content: bytes) -> Document:
    """Read a PO file, or raise a ValueError or another error of translate-toolkit."""
    try:
        text = content.decode()
    except UnicodeDecodeError:  # pofile reads UTF-8, and writes in the encoding that the header names
        text = content.decode(pofile(BytesIO(content.decode("latin-1").encode())).encoding)
    store, is_unwrapped = pofile(BytesIO(text.encode())), UNWRAPPED.search(content) is not None
    wrapper = PoWrapper(-1)
    for message in store.units:
        # pofile gives the flags of some messages another end of line.
        message.typecomments = [f"{line.rstrip()}{store.newline}" for line in message.typecomments]
        if is_unwrapped or message.hastypecomment("no-wrap"):
            message.wrapper = wrapper
    if bytes(store).count(b"msgstr") != content.count(b"msgstr"):
        raise ValueError("messages are not laid out as usual")
    units, language = [unit for message in store.units for unit in _units(message)], store.gettargetlanguage()
    return Document(store, units, language, declare=partial(_fill_header, store))


def _fill_header(store: Any, language: str) -> None:
    """Write what a template's header leaves open: language, encoding and plural forms."""
    header = store.parseheader()
    if header.get("Language") == "":
        store.updateheader(Language=language)
    if "CHARSET" in header.get("Content-Type", ""):
        store.updateheader(Content_Type="text/plain; charset=UTF-8")
    if "INTEGER" in header.get("Plural-Forms", "") and language in languages:
        store.updateheader(Plural_Forms="nplurals={1}; plural={2};".format(*languages[language]))


def _units(message: Any) -> Iterator[Unit]:
    """The unit of a message; none if the message has no text, or is a header or obsolete."""
    sources, targets = _forms(message.source), _forms(message.target)
    flags = "".join(message.typecomments).replace(",", " ").split()
    has_format = any(flag.endswith("-format") and not flag.startswith("no-") for flag in flags)
    # In Java's MessageFormat a single apostrophe begins text without placeholders, so a text doubles its apostrophes.
    whole = "".join(sources)
    is_java = "{" in whole and "'" not in whole.replace("''", "")
    is_java = is_java and ("java-format" in flags or DOUBLED.search(whole) is not None)
    lost = _lost_escape(message)
    texts, targets = ([_unwrap(form, is_java)[1] for form in side] for side in (sources, targets))

    def fill(translations: Sequence[str]) -> str:
        if lost:
            return f"its escape {lost} would be lost"
        forms = []
        for source, text, translation in zip(sources, texts, translations):
            if has_format and (faults := find_format_faults(text, translation)):  # a program that prints it may fail
                return f"{faults[0]}, and a flag says that the message is a format"
            before, _, after = _unwrap(source, is_java)
            forms.append(before + (translation.replace("'", "''") if is_java else translation) + after)
        # The first form is the singular, unless a language has only one.
        singular = forms[-1 if len(targets) == 1 else 0]
        message.target = [singular, *[forms[-1]] * (len(targets) - 1)] if message.hasplural() else singular
        message.markfuzzy()
        return ""

    if message.istranslatable() and any(sources) and not CREDITS.fullmatch(sources[0]):
        yield Unit(f"line {message.line_number}", texts, targets, not (message.isfuzzy() or lost), fill)


def _lost_escape(message: Any) -> str:
    r"""The first escape that translate-toolkit reads as a plain character, such as ``\a`` and ``\033``; or nothing."""
    forms = message.msgstr.values() if isinstance(message.msgstr, dict) else [message.msgstr]
    signs = ESCAPE.findall("\n".join(chain(message.msgid, message.msgid_plural, *forms)))
    return next((f"\\{sign}" for sign in signs if sign not in '\\"nrt'), "")


def _forms(text: Any) -> list[str]:
    """The forms of a message's text: singular and plural, or one form."""
    return [str(form) for form in getattr(text, "strings", [text or ""])] or [""]


def _unwrap(form: str, is_java: bool) -> tuple[str, str, str]:
    """The text of a form, and what stays before and after it."""
    found = SHELL.fullmatch(form)
    before, text, after = found.group("before", "text", "after") if found else ("", form, "")
    return before, text.replace("''", "'") if is_java else text, after
