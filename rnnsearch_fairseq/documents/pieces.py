"""Cut a message into the texts that are translated one by one, and put their translations together again.

What stands between a start tag and its end tag, in the title of a link or in a branch of an ICU message is translated
by itself; in the text around it, a symbol stands for the whole. So what belongs together stays together.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from rnnsearch_fairseq.documents.formats import MAX_UNIT_WORDS
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.text.markup import ANY_SPAN, MAX_SPANS, find_spans, has_letter, hide_spans
from rnnsearch_fairseq.text.scripts import count_words

MAX_CHARACTERS = 100_000  # in a message
MAX_DEPTH = 10  # of tags inside tags
FIRST_SYMBOL = 1000  # smaller numbers are the model's
SYMBOL = re.compile(r"⟦\d{4,}⟧")
TAG = re.compile(r"<(/?)([a-zA-Z][\w:.-]*|\d+)[^<>]*?(/?)>")
CODE_TAGS = "code", "kbd", "math", "pre", "samp", "script", "style", "tt", "var"  # what they hold is not translated
ENDS = {"bpt": "ept", "bx": "ex", "sc": "ec"}  # of elements of XLIFF that begin and end without holding text
ANGULAR = re.compile(r'<x id="(START|CLOSE)_(\w+)"')
BLOCK = re.compile(r"\{(?:%-?\s*|\{[#/])(\w+)")  # {% if and {{#if
TITLED = re.compile(r"`[^`\n]*\s<[^`<>\s]+>`")  # a link of RST, which is not cut
TITLED_ROLE = re.compile(r"\{[\w:+-]{1,40}\}`([^`<>\n]+)\s<[^`<>\s]+>`")
BREAK = re.compile(r"<(?:br|hr|/?(?:div|li|ol|p|td|th|tr|ul))\b[^<>]*>")
ICU = re.compile(r"\{\s?\w+\s?,\s?(?:plural|select|selectordinal),")
BEGINNING = re.compile(r"(?:[-*+>•]|#{1,6}|\(?\w[.)]|\w -)\s+")  # of an item in a list, or of a heading
COLUMN = re.compile(r"(?<=\S)(?:\s{2,}|\t|\|)(?=\S)")
SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[^\W\d_a-zß-ÿ]|[`:*(\0])")
CLAUSE = re.compile(r"(?<=[,;:])\s+")

Range = tuple[int, int]


class Piece(NamedTuple):
    """A part of a message: its text, whether it is translated, and the pieces for which symbols in it stand."""

    text: str
    translated: bool = False
    inside: Mapping[str, Sequence["Piece"]] = {}


def cut(message: str, depth: int = 0) -> list[Piece]:
    """Cut a message into pieces; those that are not translated are blanks, signs and code.

    Raises:
        InputError: it has too many characters, or an ICU message in it does not end.
    """
    if len(message) > MAX_CHARACTERS:
        raise InputError(f"it has {len(message):,} characters, and at most {MAX_CHARACTERS:,} are read")
    parts, elements, last = [], {}, 0
    for start, end, inner in _elements(message) if depth < MAX_DEPTH else ():
        symbol = f"⟦{FIRST_SYMBOL + len(elements)}⟧"
        parts += [message[last:start], symbol]
        last, elements[symbol] = end, []
        for first, after in inner:
            elements[symbol] += [Piece(message[start:first]), *cut(message[first:after], depth + 1)]
            start = after
        elements[symbol].append(Piece(message[start:end]))
    pieces = []
    for text, translated in _lines("".join([*parts, message[last:]])):
        inside = {symbol: elements[symbol] for symbol in SYMBOL.findall(text) if symbol in elements}
        pieces.append(Piece(text, translated and has_letter(text), inside))
    return pieces


def texts(pieces: Sequence[Piece]) -> Iterator[str]:
    """The texts that are translated."""
    for piece in pieces:
        if piece.translated:
            yield piece.text
        for inside in piece.inside.values():
            yield from texts(inside)


def join(pieces: Sequence[Piece], translate: Callable[[str], str] = str) -> str:
    """The message of the pieces, with each text translated."""

    def with_inside(piece: Piece) -> str:
        text = translate(piece.text) if piece.translated else piece.text
        joined = {symbol: join(pieces, translate) for symbol, pieces in piece.inside.items()}
        return SYMBOL.sub(lambda symbol: joined.get(symbol[0], symbol[0]), text)

    return "".join(map(with_inside, pieces))


def _elements(message: str) -> Iterator[tuple[int, int, list[Range]]]:
    """Where an element begins and ends that is in no other one, and where the texts in it do."""
    titled = ((role.start(), role.end(), [role.span(1)]) for role in TITLED_ROLE.finditer(message))
    found, last = [*titled, *_icu_messages(message), *_paired(message)], 0
    for start, end, inner in sorted(found, key=lambda element: (element[0], -element[1])):
        if start >= last:
            yield start, end, inner
            last = end


def _icu_messages(message: str) -> Iterator[tuple[int, int, list[Range]]]:
    message = TAG.sub(lambda tag: "\0" * len(tag[0]), message)  # an attribute may hold such a message
    ends, opened = {}, []
    for brace in re.finditer("[{}]", message):
        if brace[0] == "{":
            opened.append(brace.start())
        elif opened:
            ends[opened.pop()] = brace.start()
    last = 0
    for begin in ICU.finditer(message):
        if begin.start() < last:
            continue
        if begin.start() not in ends:
            raise InputError("an ICU message in it does not end")
        last = ends[begin.start()] + 1
        inner, place = [], message.find("{", begin.end(), last)
        while place >= 0:
            inner.append((place + 1, ends[place]))
            place = message.find("{", ends[place], last)
        yield begin.start(), last, inner


def _paired(message: str) -> Iterator[tuple[int, int, list[Range]]]:
    """Elements of HTML and XML with an end tag, links of Markdown, and blocks of templates."""
    opened: list[tuple[str, int, int]] = []
    places = defaultdict(list)  # in ``opened``, of the tags of each name
    for match in ANY_SPAN.finditer(message):
        name, begins = _role(match[0])
        if begins:
            places[name].append(len(opened))
            opened.append((name, match.start(), match.end()))
        elif name and places[name]:
            place = places[name][-1]
            for other, _, _ in opened[place:]:
                places[other].pop()
            _, start, first = opened[place]
            del opened[place:]
            code = name in CODE_TAGS or match[0] == "][]"  # the title of such a link is its target
            yield start, match.end(), [] if code else [(first, match.start())]


def _role(span: str) -> tuple[str, bool]:
    """The name of what a span begins, or else ends; the name is empty if it does neither."""
    if span in ("[", "![") or span.startswith("]"):
        return "[", span.endswith("[")
    if block := BLOCK.match(span):
        return f"%{block[1].removeprefix('end')}", not (block[1].startswith("end") or span.startswith("{{/"))
    tag = TAG.fullmatch(span)
    if tag and (angular := ANGULAR.match(span)):
        return angular[2], angular[1] == "START"
    if tag and tag[3]:
        return ENDS.get(tag[2], tag[2] if tag[2] in ENDS.values() else ""), tag[2] in ENDS
    return (tag[2], not tag[1]) if tag else ("", False)


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """The lines, columns and long lines' sentences of a text, which are translated, and what is between them."""
    whole = TITLED.sub(lambda link: "\0" * len(link[0]), text)
    hidden, start = hide_spans(BREAK.sub(lambda tag: "\n" * len(tag[0]), whole)), 0
    for number, line in enumerate(hidden.split("\n")):
        if number:
            yield text[start - 1], False
        end = start + len(line)
        body = start + len(line) - len(line.lstrip())
        beginning = BEGINNING.match(hidden, body, end)
        body = beginning.end() if beginning else body
        after = start + len(line.rstrip())
        yield text[start:body], False
        yield from _split(text, hidden, min(body, after), after, [COLUMN, SENTENCE, CLAUSE])
        yield text[max(body, after) : end], False
        start = end + 1


def _split(
    text: str, hidden: str, start: int, end: int, patterns: Sequence[re.Pattern[str]]
) -> Iterator[tuple[str, bool]]:
    """Split a part of a text at the first pattern, and what is still too long, or has too many spans, at the next."""
    pattern, *finer = patterns
    for match in [*pattern.finditer(hidden, start, end), None]:
        last = match.start() if match else end
        part = text[start:last]
        if finer and (count_words(part) > MAX_UNIT_WORDS or len(find_spans(part)) == MAX_SPANS):
            yield from _split(text, hidden, start, last, finer)
        else:
            yield part, True
        if match:
            yield match[0] if "\0" not in match[0] else text[match.start() : match.end()], False
            start = match.end()
