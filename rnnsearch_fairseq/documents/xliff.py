"""The units of XLIFF and TS files, with their tags as a part of the text."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from functools import partial
from typing import Any
from xml.sax.saxutils import escape, quoteattr, unescape

from lxml import etree
from translate.misc.xml_helpers import clear_content

from rnnsearch_fairseq.documents.units import Unit

NO_TAGS = "has no tags, since they were not those of the source or out of order"
UNFINISHED = "new", "initial", "needs-"  # how those states of XLIFF begin that ask for a translator
# Comments; text in CDATA; elements that are code or are not translated, as a whole; other tags; entities.
INLINE = re.compile(
    r"<!--.*?-->|<!\[CDATA\[(?P<text>.*?)\]\]>"
    r"|<(?P<code>(?:[\w.-]+:)?(?:x|ph|bpt|ept|it|bx|ex|sc|ec|cp|sm|em)(?=[\s/>])|[\w:.-]+(?=\s[^<>]*\btranslate=\"no\"))"
    r"[^<>]*(?:/>|(?<!/)>.*?</(?P=code)>)|<[^<>]*>|&(?!(?:amp|lt|gt);)[^&;]*;",
    re.DOTALL,
)
INSIDE = re.compile(r"<[^<>]*?(?:/>|>(.*)</[^<>]*>)", re.DOTALL)  # an element
NAMESPACE = re.compile(r' xmlns(?::[\w.-]+)?="[^"]*"')
BLANKS = re.compile("[\t\n\r ]+")
MARKUP = re.compile("(<[^<>]*>|&[^&;]*;)")


def ts_units(root: Any) -> Iterator[Unit]:
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
        finished = translation.get("type") != "unfinished"
        fill = partial(_fill_ts, translation, [form for form, target in zip(forms, targets) if not target], tags)
        if text.strip():
            yield Unit(f"line {source.sourceline}", [text], targets if all(targets) else [""], finished, fill)


def _fill_ts(
    translation: Any, forms: Sequence[Any], tags: Sequence[tuple[str, str]], texts: Sequence[str]
) -> list[str]:
    translation.set("type", "unfinished")
    written = [_write(form, texts[0], tags) for form in forms]
    return [] if all(written) else [NO_TAGS]


def xliff_units(unit: Any) -> Iterator[Unit]:
    """The unit of a ``<trans-unit>`` or ``<segment>``, or the units of its segments (``<mrk mtype="seg">``)."""
    kept = unit.xmlelement.xpath("ancestor-or-self::*/@translate")[-1:] == ["no"] or _is_locked(unit.xmlelement)
    if unit.source_dom is None or kept:
        return
    locked = {segment.get("id") for segment in unit.xmlelement.iter("{*}seg") if _is_locked(segment)}
    source, target = unit.source_dom, unit.target_dom
    segmented = unit.xmlelement.find(unit.namespaced("seg-source"))
    segments = {} if segmented is None else _segments(segmented)
    places = {} if target is None else _segments(target)
    if not segments or (not places and target is not None and "".join(target.itertext()).strip()):
        yield _unit(unit, source, target, partial(_target, unit, source))
        return

    def place(number: str) -> Any:
        if number not in places:
            places.update(_copy_segments(segmented, _target(unit, segmented)))
        return places[number]

    for number, segment in segments.items():
        if number in locked:
            continue
        yield _unit(unit, segment, places.get(number), partial(place, number))


def _is_locked(element: Any) -> bool:
    """Whether a translator may not change a unit of memoQ and Phrase or a segment of Trados."""
    return any(name.endswith("locked") and value.lower() in ("locked", "true") for name, value in element.items())


def _segments(element: Any) -> dict[str, Any]:
    """The segments of a source or a target, by their numbers."""
    return {mark.get("mid"): mark for mark in element.iter("{*}mrk") if mark.get("mtype") == "seg"}


def _unit(unit: Any, source: Any, target: Any, place: Callable[[], Any]) -> Unit:
    preserve = source.xpath("ancestor-or-self::*/@xml:space")[-1:] == ["preserve"]
    text, tags = _read(source, preserve)
    translation, _ = ("", []) if target is None else _read(target, preserve)
    state = (unit.xmlelement if unit.rootNode == "segment" or target is None else unit.target_dom).get("state") or ""
    finished = not state.startswith(UNFINISHED)
    # Tools for translators write the source itself, or tags alone, before there is a translation.
    if not MARKUP.sub("", translation).strip() or (translation == text and not finished):
        translation = ""

    def fill(texts: Sequence[str]) -> list[str]:
        written = _write(place(), texts[0], tags)
        unit.target_dom.attrib.pop("state-qualifier", None)
        mark = unit.markfuzzy if unit.rootNode == "segment" else unit.markreviewneeded
        mark()
        return [] if written else [NO_TAGS]

    return Unit(f"line {source.sourceline}", [text], [translation], finished, fill)


def _read(element: Any, preserve: bool) -> tuple[str, list[tuple[str, str]]]:
    """The text of an element and the tags in it, as they stand in the text and as they are written.

    A run of blanks is one blank, unless they are to be preserved.
    """
    inside = INSIDE.fullmatch(etree.tostring(element, encoding="unicode", with_tail=False))[1] or ""
    parts, tags, last = [], [], 0
    for token in [*INLINE.finditer(inside), None]:
        text = unescape(inside[last : token.start() if token else None])
        parts.append(text if preserve else BLANKS.sub(" ", text))
        if token is None:
            break
        last = token.end()
        if token["text"] or token[0].startswith("<!"):
            parts.append(token["text"] or "")
            continue
        written = NAMESPACE.sub("", token[0])
        tags.append((f"{written.partition('>')[0].rstrip('/')}/>" if token["code"] else written, written))
        parts.append(tags[-1][0])
    text = "".join(parts)
    return text if preserve else text.strip(" "), tags


def _target(unit: Any, source: Any) -> Any:
    """The target of a unit, which is made behind its source where there is none."""
    if unit.target_dom is None:
        source.addnext(etree.Element(unit.namespaced("target"), nsmap=unit.xmlelement.nsmap))
    return unit.target_dom


def _copy_segments(segmented: Any, target: Any) -> dict[str, Any]:
    """Write all segments into a target, empty but for those that are in it; return them by their numbers."""
    places, copy = _segments(target), deepcopy(segmented)
    for number, segment in _segments(copy).items():
        clear_content(segment)
        if number in places:
            segment.text = places[number].text
            segment.extend(list(places[number]))
    clear_content(target)
    target.text = copy.text
    target.extend(list(copy))
    return _segments(target)


def _write(element: Any, text: str, tags: Sequence[tuple[str, str]]) -> bool:
    """Write a translation with the tags of its source; without tags if they are others or not well-formed: false."""
    left = defaultdict(list)  # the tags of each text, the first one last
    for shown, written in reversed(tags):
        left[shown].append(written)
    parts = MARKUP.split(text)
    xml = "".join(left[part].pop() if left.get(part) else escape(part) for part in parts)
    names = "".join(f" xmlns{(name and f':{name}') or ''}={quoteattr(uri)}" for name, uri in element.nsmap.items())
    clear_content(element)
    try:
        new = None if any(left.values()) else etree.fromstring(f"<target{names}>{xml}</target>")
    except etree.XMLSyntaxError:
        new = None
    if new is None:
        shown = {shown for shown, _ in tags}
        element.text = "".join(part for part in parts if part not in shown)
    else:
        element.text = new.text
        element.extend(list(new))
    return new is not None
