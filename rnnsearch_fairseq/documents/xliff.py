"""Read XLIFF and TS files; the tags in a text are a part of it."""

import re
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from functools import partial
from html import unescape
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from lxml import etree
from translate.misc.xml_helpers import clear_content, parse_xml

from rnnsearch_fairseq.documents.units import BLANKS, SHOWN, WRONG_TAGS, Document, Part, Unit, place_tags
from rnnsearch_fairseq.errors import InputError, quote
from rnnsearch_fairseq.text.language import language_code

UNFINISHED = "new", "initial", "needs-"  # how those states of XLIFF begin that ask for a translator
CODE = {"x", "ph", "bpt", "ept", "it", "bx", "ex", "sc", "ec", "cp", "sm", "em"}  # elements that hold no text
DECLARATION = re.compile(r"\ufeff?(?:<\?xml[^>]*\?>\s*)?")
REFERENCE = re.compile("&(?:apos|quot|#x(?:a0|20(?:0.|2[89f]|5f)));")  # of Qt: quotation marks and blanks


class XmlFile:
    """An XML file, written with the declaration, the ends of lines and the references that it had."""

    def __init__(self, content: bytes) -> None:
        self.root = parse_xml(content)
        self.encoding = self.root.getroottree().docinfo.encoding or "utf-8"
        text = content.decode(self.encoding)
        self.line_end = "\r\n" if "\r\n" in text else "\n"
        self.declaration, self.tail = DECLARATION.match(text)[0], text[len(text.rstrip()) :]
        self.references = {unescape(name): name for name in REFERENCE.findall(text)}

    def __bytes__(self) -> bytes:
        if self.root.tag == "TS":  # Qt writes <a></a>, and some signs as references
            for element in self.root.iter("*"):
                if not element.text and not len(element) and element.tag not in ("byte", "location"):
                    element.text = ""
        xml = etree.tostring(self.root.getroottree(), encoding="unicode")
        if self.root.tag == "TS":
            written = str.maketrans(self.references)
            xml = re.sub(">[^<]+", lambda text: text[0].translate(written), xml)
        whole = self.declaration + xml.replace("\n", self.line_end) + self.tail
        return whole.encode(self.encoding, "xmlcharrefreplace")


def read_xml(content: bytes) -> Document:
    """Read an XLIFF or TS file, or raise an error of lxml or translate-toolkit."""
    store = XmlFile(content)
    root, name = store.root, etree.QName(store.root).localname
    if name not in ("TS", "xliff"):
        cure = "give the .po file that translate-toolkit or itstool makes of it"
        raise InputError(f"neither XLIFF nor TS, since its first element is {quote(name)}; {cure}")
    if next(root.iter(etree.Entity), None) is not None:
        raise ValueError("it defines entities")
    read_units = _ts_units if name == "TS" else _xliff_units
    units = [unit for element in root.iter("message", "{*}trans-unit", "{*}segment") for unit in read_units(element)]
    # An XLIFF 1 file may hold files of several languages.
    files = [root, *root.iter("{*}file")]
    source, target = (
        ", ".join(dict.fromkeys(language_code(code) for file in files for name in names if (code := file.get(name))))
        for names in (("sourcelanguage", "srcLang", "source-language"), ("language", "trgLang", "target-language"))
    )
    return Document(store, units, target, source)


def _ts_units(message: Any) -> Iterator[Unit]:
    """The unit of a message. One translation is written into all plural forms and all length variants that are
    empty."""
    source, translation = message.find("source"), message.find("translation")
    if source is None or (translation is not None and translation.get("type") in ("vanished", "obsolete")):
        return
    if translation is None:
        translation = etree.SubElement(message, "translation", type="unfinished")
    text, tags = _read(source, True)
    forms = [*translation.iter("numerusform", "lengthvariant")] or [translation]
    targets = [_read(form, True)[0] for form in forms]
    empty = [form for form, target in zip(forms, targets) if not target]
    finished = translation.get("type") != "unfinished"
    fill = partial(_fill, tags, lambda: empty, partial(translation.set, "type", "unfinished"))
    if text.strip():
        yield Unit(f"line {source.sourceline}", [text], targets if all(targets) else [""], finished, fill)


def _xliff_units(element: Any) -> Iterator[Unit]:
    """The unit of a ``<trans-unit>`` or ``<segment>``, or the units of its segments (``<mrk mtype="seg">``)."""
    source, target, segmented = (element.find(f"{{*}}{name}") for name in ("source", "target", "seg-source"))
    if source is None or element.xpath("ancestor-or-self::*/@translate")[-1:] == ["no"] or _is_locked(element):
        return
    segments, places = _segments(segmented), _segments(target)
    if not segments or (not places and target is not None and "".join(target.itertext()).strip()):
        yield _xliff_unit(element, source, target, lambda: [_target(element, source)])
        return

    def place(number: str) -> list[Any]:
        if number not in places:  # write all segments; those without a translation are empty
            whole, copy = _target(element, segmented), deepcopy(segmented)
            for other, copied in _segments(copy).items():
                _replace_inside(copied, places.get(other, ()))
            _replace_inside(whole, copy)
            places.update(_segments(whole))
        return [places[number]]

    locked = {segment.get("id") for segment in element.iter("{*}seg") if _is_locked(segment)}
    for number, segment in segments.items():
        if number not in locked:
            yield _xliff_unit(element, segment, places.get(number), partial(place, number))


def _is_locked(element: Any) -> bool:
    """Whether a translator may not change a unit of memoQ and Phrase or a segment of Trados."""
    return any(name.endswith("locked") and value.lower() in ("locked", "true") for name, value in element.items())


def _segments(element: Any) -> dict[str, Any]:
    """The segments of a source or a target, by their numbers."""
    marks = [] if element is None else element.iter("{*}mrk")
    return {mark.get("mid"): mark for mark in marks if mark.get("mtype") == "seg"}


def _xliff_unit(element: Any, source: Any, target: Any, place: Callable[[], list[Any]]) -> Unit:
    preserve = source.xpath("ancestor-or-self::*/@xml:space")[-1:] == ["preserve"]
    (text, tags), (translation, _) = _read(source, preserve), _read(target, preserve)
    is_segment, whole = etree.QName(element).localname == "segment", element.find("{*}target")
    text = text if text.strip() else ""
    finished = not (element if is_segment or whole is None else whole).get("state", "").startswith(UNFINISHED)
    # Tools for translators write the source itself, or tags alone, before there is a translation.
    if not SHOWN.sub("", translation).strip() or (translation == text and not finished):
        translation = ""

    def mark() -> None:
        marked = element if is_segment else element.find("{*}target")
        marked.set("state", "initial" if is_segment else "needs-review-translation")
        marked.attrib.pop("state-qualifier", None)
        if "approved" in element.attrib:
            element.set("approved", "no")

    return Unit(f"line {source.sourceline}", [text], [translation], finished, partial(_fill, tags, place, mark))


def _read(element: Any, preserve: bool) -> tuple[str, list[Part]]:
    """The text of an element, and the tags in it; a run of blanks is one blank, unless ``preserve``."""
    parts = [] if element is None else [*_parts(element)]
    text = "".join(part.shown if preserve or part.tag else BLANKS.sub(" ", part.shown) for part in parts)
    return text, [part for part in parts if part.tag]


def _parts(element: Any) -> Iterator[Part]:
    yield Part(element.text or "", "")
    for child in element:
        begin, sign, rest = etree.tostring(child, encoding="unicode", with_tail=False).partition(">")
        for name in _names(element):  # lxml writes all that are in scope into the first tag
            begin = begin.replace(name, "")
        xml = begin + sign + rest
        name = begin[1:].partition(" ")[0]
        if not isinstance(child.tag, str):  # a comment
            pass
        elif begin.endswith("/") or etree.QName(child).localname in CODE or _is_kept(child):
            yield Part(f"{begin.rstrip('/')}/>", xml, "-")
        else:
            yield Part(f"{begin}>", f"{begin}>", name)
            yield from _parts(child)
            yield Part(f"</{name}>", f"</{name}>", f"/{name}")
        yield Part(child.tail or "", "")


def _names(element: Any) -> list[str]:
    """The declarations of the namespaces of an element."""
    return [f" xmlns{':' * bool(name)}{name or ''}={quoteattr(uri)}" for name, uri in element.nsmap.items()]


def _is_kept(element: Any) -> bool:
    """Whether a mark of XLIFF 1, XLIFF 2 or ITS says that the text of an element must not be translated."""
    attributes = {etree.QName(name).localname: value for name, value in element.items()}
    return attributes.get("translate") == "no" or attributes.get("mtype") == "protected"


def _target(element: Any, source: Any) -> Any:
    """The target of a unit, which is made behind its source where there is none."""
    if element.find("{*}target") is None:
        source.addnext(etree.Element(element.find("{*}source").tag.replace("source", "target"), nsmap=element.nsmap))
        source.getnext().tail = source.tail
    return element.find("{*}target")


def _replace_inside(element: Any, other: Any) -> None:
    """Put the text and the children of another element into an element, or nothing in place of them."""
    clear_content(element)
    element.text = getattr(other, "text", None)
    element.extend(list(other))


def _fill(tags: Sequence[Part], place: Callable[[], list[Any]], mark: Callable[[], Any], texts: Sequence[str]) -> str:
    """Write a translation into elements; see `Unit`."""
    written = place_tags(texts[0], tags, escape)
    if written is None:
        return WRONG_TAGS
    for element in place():
        made = f"<target{''.join(_names(element))}>{''.join(written)}</target>"
        _replace_inside(element, etree.fromstring(made))
    mark()
    return ""
