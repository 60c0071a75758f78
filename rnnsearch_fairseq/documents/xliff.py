"""Read XLIFF and TS files; the tags in a text are a part of it."""

import re
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from functools import partial
from io import BytesIO
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from lxml import etree
from translate.misc.xml_helpers import clear_content, parse_xml
from translate.storage.ts2 import tsfile
from translate.storage.xliff import Xliff1File
from translate.storage.xliff2 import Xliff2File

from rnnsearch_fairseq.documents.units import WRONG_TAGS, Document, Part, Unit, place_tags

UNFINISHED = "new", "initial", "needs-"  # how those states of XLIFF begin that ask for a translator
CODE = {"x", "ph", "bpt", "ept", "it", "bx", "ex", "sc", "ec", "cp", "sm", "em"}  # elements that hold no text
NAMESPACE = re.compile(r' xmlns(?::[\w.-]+)?="[^"]*"')
BLANKS = re.compile("[\t\n\r ]+")


class _QtFile(tsfile):
    def serialize(self, out: BytesIO) -> None:
        """Write the file with empty elements of bytes as Qt does."""
        super().serialize(written := BytesIO())
        out.write(written.getvalue().replace(b"></byte>", b"/>"))


def read_xml(content: bytes) -> Document:
    """Read an XLIFF or TS file, or raise an error of lxml or translate-toolkit."""
    root = parse_xml(content)
    name = etree.QName(root).localname
    if name == "TS":
        store = _QtFile(BytesIO(content))
        units = list(_ts_units(store.document.getroot()))
    elif name == "xliff":
        store = (Xliff2File if root.get("version", "").startswith("2") else Xliff1File)(BytesIO(content))
        units = [unit for element in store.units for unit in _xliff_units(element)]
    else:
        raise ValueError(f"its first element is {name}")
    store.XMLindent = {"max_level": 0, "toplevel": False}  # the blanks between elements stay as they are
    return Document(store, units, store.gettargetlanguage())


def _ts_units(root: Any) -> Iterator[Unit]:
    """The units of a TS file; what is written is one text for all forms of a number and all lengths that are empty."""
    for message in root.iter("message"):
        source, translation = message.find("source"), message.find("translation")
        if translation is None and source is not None:
            translation = etree.SubElement(message, "translation", type="unfinished")
        if source is None or translation.get("type") in ("vanished", "obsolete"):
            continue
        text, tags = _read(source, True)
        forms = [*translation.iter("numerusform", "lengthvariant")] or [translation]
        targets = [_read(form, True)[0] for form in forms]
        empty = [form for form, target in zip(forms, targets) if not target]
        finished = translation.get("type") != "unfinished"
        fill = partial(_fill, tags, lambda empty=empty: empty, partial(translation.set, "type", "unfinished"))
        if text.strip():
            yield Unit(f"line {source.sourceline}", [text], targets if all(targets) else [""], finished, fill)


def _xliff_units(unit: Any) -> Iterator[Unit]:
    """The unit of a ``<trans-unit>`` or ``<segment>``, or the units of its segments (``<mrk mtype="seg">``)."""
    kept = unit.xmlelement.xpath("ancestor-or-self::*/@translate")[-1:] == ["no"] or _is_locked(unit.xmlelement)
    if unit.source_dom is None or kept:
        return
    locked = {segment.get("id") for segment in unit.xmlelement.iter("{*}seg") if _is_locked(segment)}
    source, target = unit.source_dom, unit.target_dom
    segmented = unit.xmlelement.find(unit.namespaced("seg-source"))
    segments, places = _segments(segmented), _segments(target)
    if not segments or (not places and target is not None and "".join(target.itertext()).strip()):
        yield _xliff_unit(unit, source, target, lambda: [_target(unit, source)])
        return

    def place(number: str) -> list[Any]:
        if number not in places:
            places.update(_copy_segments(segmented, _target(unit, segmented)))
        return [places[number]]

    for number, segment in segments.items():
        if number not in locked:
            yield _xliff_unit(unit, segment, places.get(number), partial(place, number))


def _is_locked(element: Any) -> bool:
    """Whether a translator may not change a unit of memoQ and Phrase or a segment of Trados."""
    return any(name.endswith("locked") and value.lower() in ("locked", "true") for name, value in element.items())


def _segments(element: Any) -> dict[str, Any]:
    """The segments of a source or a target, by their numbers."""
    marks = [] if element is None else element.iter("{*}mrk")
    return {mark.get("mid"): mark for mark in marks if mark.get("mtype") == "seg"}


def _xliff_unit(unit: Any, source: Any, target: Any, place: Callable[[], list[Any]]) -> Unit:
    preserve = source.xpath("ancestor-or-self::*/@xml:space")[-1:] == ["preserve"]
    (text, tags), (translation, target_tags) = _read(source, preserve), _read(target, preserve)
    state = (unit.xmlelement if unit.rootNode == "segment" or target is None else unit.target_dom).get("state") or ""
    finished = not state.startswith(UNFINISHED)
    # Tools for translators write the source itself, or tags alone, before there is a translation.
    is_blank = translation.split() == " ".join(tag.shown for tag in target_tags).split()

    def mark() -> None:
        unit.target_dom.attrib.pop("state-qualifier", None)
        (unit.markfuzzy if unit.rootNode == "segment" else unit.markreviewneeded)()

    translation = "" if is_blank or (translation == text and not finished) else translation
    return Unit(f"line {source.sourceline}", [text], [translation], finished, partial(_fill, tags, place, mark))


def _read(element: Any, preserve: bool) -> tuple[str, list[Part]]:
    """The text of an element, and the tags in it; a run of blanks is one blank, unless ``preserve``."""
    parts = [] if element is None else [*_parts(element)]
    text = "".join(part.shown if preserve or part.tag else BLANKS.sub(" ", part.shown) for part in parts)
    return text if preserve else text.strip(" "), [part for part in parts if part.tag]


def _parts(element: Any) -> Iterator[Part]:
    yield Part(element.text or "", "")
    for child in element:
        xml = NAMESPACE.sub("", etree.tostring(child, encoding="unicode", with_tail=False))
        begin = xml.partition(">")[0]
        name = begin[1:].partition(" ")[0]
        if child.tag is etree.Entity:
            yield Part(xml, xml, "-")
        elif not isinstance(child.tag, str):  # a comment
            pass
        elif begin.endswith("/") or etree.QName(child).localname in CODE or child.get("translate") == "no":
            yield Part(f"{begin.rstrip('/')}/>", xml, "-")
        else:
            yield Part(f"{begin}>", f"{begin}>", name)
            yield from _parts(child)
            yield Part(f"</{name}>", f"</{name}>", f"/{name}")
        yield Part(child.tail or "", "")


def _target(unit: Any, source: Any) -> Any:
    """The target of a unit, which is made behind its source where there is none."""
    if unit.target_dom is None:
        source.addnext(etree.Element(unit.namespaced("target"), nsmap=unit.xmlelement.nsmap))
    return unit.target_dom


def _copy_segments(segmented: Any, target: Any) -> dict[str, Any]:
    """Write all segments into a target, empty but for those that are in it; return them by their numbers."""
    places, copy = _segments(target), deepcopy(segmented)
    for number, segment in _segments(copy).items():
        _replace_inside(segment, places.get(number, ()))
    _replace_inside(target, copy)
    return _segments(target)


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
        names = "".join(f" xmlns{(name and f':{name}') or ''}={quoteattr(uri)}" for name, uri in element.nsmap.items())
        _replace_inside(element, etree.fromstring(f"<target{names}>{''.join(written)}</target>"))
    mark()
    return ""
