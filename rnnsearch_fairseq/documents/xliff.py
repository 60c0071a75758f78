"""The units of XLIFF files, with their tags as a part of the text."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from itertools import groupby
from typing import Any, NamedTuple
from xml.sax.saxutils import quoteattr

from lxml import etree
from translate.misc.xml_helpers import clear_content

from rnnsearch_fairseq.documents.units import Unit

UNFINISHED = "new", "initial", "needs-"  # how those states of XLIFF begin that ask for a translator
CODE = "x", "ph", "bpt", "ept", "it", "bx", "ex", "sc", "ec", "cp", "sm", "em"  # elements that hold no text
BLANKS = re.compile("[\t\n\r ]+")
TAG = re.compile("(<[^<>]*>|&[^&;]*;)")


class Tag(NamedTuple):
    """A tag inside a unit, as it stands in the unit's text; or an element that is code, or an entity, as a whole."""

    text: str
    node: Any
    kind: str  # "start", "end" or "whole"


def xliff_units(unit: Any) -> Iterator[Unit]:
    """The unit of a ``<trans-unit>`` or ``<segment>``, or the units of its segments (``<mrk mtype="seg">``).

    Args:
        unit: of translate-toolkit's stores of XLIFF 1 and 2.
    """
    if unit.source_dom is None or unit.xmlelement.xpath("ancestor-or-self::*/@translate")[-1:] == ["no"]:
        return
    source, target = unit.source_dom, unit.target_dom
    segmented = unit.xmlelement.find(unit.namespaced("seg-source"))
    segments = {} if segmented is None else _segments(segmented)
    places = {} if target is None else _segments(target)
    if segments and (places or target is None or not "".join(target.itertext()).strip()):
        for number, segment in segments.items():

            def segment_place(number: str = number) -> Any:
                if number not in places:
                    places.update(_copy_segments(segmented, _target(unit, segmented)))
                return places[number]

            yield _unit(unit, segment, places.get(number), segment_place)
    else:
        yield _unit(unit, source, target, lambda: _target(unit, source))


def _segments(element: Any) -> dict[str, Any]:
    """The segments of a source or a target, by their numbers."""
    return {mark.get("mid"): mark for mark in element.iter("{*}mrk") if mark.get("mtype") == "seg"}


def _unit(unit: Any, source: Any, target: Any, place: Callable[[], Any]) -> Unit:
    preserve = unit.xmlelement.xpath("ancestor-or-self::*/@xml:space")[-1:] == ["preserve"]
    parts, translated = _parts(source, preserve), [] if target is None else _parts(target, preserve)
    text, translation = _text(parts), _text(translated)
    state = (unit.xmlelement if unit.rootNode == "segment" or target is None else unit.target_dom).get("state") or ""
    finished = not state.startswith(UNFINISHED)
    # Tools for translators write the source itself, or tags alone, before there is a translation.
    if not any(part.strip() for part in translated if isinstance(part, str)) or (translation == text and not finished):
        translation = ""

    def fill(texts: Sequence[str]) -> list[str]:
        tags = [part for part in parts if isinstance(part, Tag)]
        written = _write(place(), texts[0], tags)
        unit.target_dom.attrib.pop("state-qualifier", None)
        mark = unit.markfuzzy if unit.rootNode == "segment" else unit.markreviewneeded
        mark()
        return [] if written else ["has no tags, since they were not those of the source or out of order"]

    return Unit(f"line {source.sourceline}", [text], [translation], finished, fill)


def _parts(element: Any, preserve: bool) -> list[str | Tag]:
    """The text and the tags inside an element; a run of blanks is one blank, unless they are to be preserved."""
    parts = [*_walk(element)]
    if not preserve:
        parts = [BLANKS.sub(" ", part) if isinstance(part, str) else part for part in parts]
        parts[0] = parts[0].lstrip(" ")
        parts[-1] = parts[-1].rstrip(" ")
    return parts


def _walk(element: Any) -> Iterator[str | Tag]:
    yield element.text or ""
    for child in element:
        if child.tag is etree.Entity:
            yield Tag(child.text, child, "whole")
        elif isinstance(child.tag, str):  # no comment
            name = etree.QName(child).localname
            values = "".join(f" {etree.QName(key).localname}={quoteattr(value)}" for key, value in child.items())
            if name in CODE or child.get("translate") == "no":
                yield Tag(f"<{name}{values}/>", child, "whole")
            else:
                yield Tag(f"<{name}{values}>", child, "start")
                yield from _walk(child)
                yield Tag(f"</{name}>", child, "end")
        yield child.tail or ""


def _text(parts: Sequence[str | Tag]) -> str:
    return "".join(part.text if isinstance(part, Tag) else part for part in parts)


def _target(unit: Any, source: Any) -> Any:
    """The target of a unit, which is made behind its source where there is none."""
    if unit.target_dom is None:
        _insert_after(source, etree.Element(unit.namespaced("target"), nsmap=unit.xmlelement.nsmap))
    return unit.target_dom


def _copy_segments(segmented: Any, target: Any) -> dict[str, Any]:
    """Copy the segments that a target lacks, without their texts; return all by their numbers."""
    places, copy = _segments(target), deepcopy(segmented)
    segments = _segments(copy)
    for segment in segments.values():
        clear_content(segment)
    if not places:
        clear_content(target)
        target.text = copy.text
    target.extend(list(copy) if not places else [segments[number] for number in segments.keys() - places.keys()])
    return {**segments, **places}


def _insert_after(element: Any, new: Any) -> None:
    """Insert an element behind another one, with the same blanks before it."""
    before = element.getprevious()
    blanks = (element.getparent().text if before is None else before.tail) or ""
    tail = element.tail
    element.addnext(new)
    element.tail, new.tail = blanks if not blanks.strip() else "", tail


def _write(element: Any, text: str, tags: Sequence[Tag]) -> bool:
    """Write a translation with the tags of its source; without tags if they are others or not well-formed: false."""
    left = defaultdict(list)  # the tags of each text, the first one last
    for tag in reversed(tags):
        left[tag.text].append(tag)
    pieces = [left[piece].pop() if left.get(piece) else piece for piece in TAG.split(text)]
    clear_content(element)
    if not any(left.values()) and _build(element, pieces):
        return True
    clear_content(element)
    element.text = "".join(piece for piece in pieces if isinstance(piece, str))
    return False


def _build(element: Any, pieces: Iterable[str | Tag]) -> bool:
    """Put text and elements into an empty element; false if an end tag has another start tag before it, or none."""
    inside, last = [element], None
    for text, group in groupby(pieces, lambda piece: isinstance(piece, str)):
        if text:
            joined = "".join(group)
            if last is None:
                inside[-1].text = joined
            else:
                last.tail = joined
            continue
        for tag in group:
            if tag.kind == "whole":
                last = deepcopy(tag.node)
                last.tail = None
                inside[-1].append(last)
            elif tag.kind == "start":
                inside.append(etree.SubElement(inside[-1], tag.node.tag, tag.node.attrib, tag.node.nsmap))
                last = None
            else:
                last = inside.pop()
                if not inside or last.tag != tag.node.tag:
                    return False
    return len(inside) == 1
