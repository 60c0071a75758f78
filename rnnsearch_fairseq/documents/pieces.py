"""Cut a message into the texts that are translated one by one, and put their translations together again.

What stands between a start tag and its end tag or in the title of a link is translated by itself; in the text around
it, a symbol stands for the whole. So what belongs together stays together.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.text.markup import ANY_SPAN, MAX_SPANS, find_spans, has_letter, hide_spans
from rnnsearch_fairseq.text.sentences import SENTENCE_END, count_words

MAX_CHARACTERS = 100_000  # in a message
MAX_WORDS = 100  # in a piece that is translated at a time, as in a training pair
MAX_DEPTH = 10  # of tags inside tags, and of tags without an end that are passed over
FIRST_SYMBOL = 1000  # smaller numbers are the model's
SYMBOL = re.compile(r"⟦\d{4,}⟧")
TAG = re.compile(r"(?:<|&lt;|\[)(/?)([a-zA-Z][\w:.-]*|\d+)[^<>\[\]]*?(/?)(?:>|&gt;|\])")
# What they hold is not translated.
CODE_TAGS = "code", "codeblock", "codeblocks", "img", "kbd", "math", "pre", "samp", "script", "style", "tt", "var"
ENDS = {"bpt": "ept", "bx": "ex", "sc": "ec", "sm": "em"}  # of elements of XLIFF that do not hold their text
ANGULAR = re.compile(r'<x id="(START|CLOSE)_(\w+)"')
BLOCK = re.compile(r"\{(?:%-?\s*|\{[#/])(\w+)")  # {% if and {{#if
TITLED = re.compile(r"`[^`\n]*\s<[^`<>\n]+>`")  # a link of RST, which is not cut
# Tags between blocks; labels of footnotes; the numbers for which a form of Symfony's is.
BREAK = re.compile(
    r"<(?:br|hr|/?(?:div|li|ol|p|td|th|tr|ul))\b[^<>]*>|^\[\^\w+\]:"
    r"|(?:^(?=[^|\n]*\|)|(?<=\|))(?:\{\d+\}|[\[\]]-?[\w*]+,[\w*]+[\[\]])",
    re.MULTILINE,
)
ICU = re.compile(r"\{\s?\w+\s?,\s?(?:plural|select|selectordinal),")
# Ends of lines and beginnings of items in lists and of headings, and what is between columns.
SEPARATOR = re.compile(
    r"(?:\A|(?<!\s)\s*\n)\s*(?:(?:[-*+>•]|#{1,6}|\(?\w[.)]|\w -)\s+)?|(?:(?<!\s)\s*)?\|\s*|(?<=\S)(?:\s{2,}|\t)(?=\S)"
    r"|(?<!\s)\s+\Z"
)
CLAUSE = re.compile(r"(?<=[,;:])\s+")


class Piece(NamedTuple):
    """A part of a message, and whether it is translated."""

    text: str
    translated: bool = False


Message = dict[str, list[Piece]]  # the pieces for which each symbol stands; the message itself has no symbol


def cut(message: str) -> Message:
    """Cut a message into pieces; those that are not translated are blanks, signs and code."""
    if len(message) > MAX_CHARACTERS:
        raise InputError(f"it has {len(message):,} characters, and at most {MAX_CHARACTERS:,} are read")
    if symbol := SYMBOL.search(message):
        raise InputError(f"it has {symbol[0]}, which stands for markup in translation")
    if ICU.search(TAG.sub("", message)):  # an attribute may hold such a message
        raise InputError("it has ICU's plural or select; translate its forms by hand")
    elements: Message = {}
    return {"": _cut(message, elements), **elements}


def _cut(text: str, elements: Message, depth: int = 0) -> list[Piece]:
    """The pieces of a text; those of what is inside it go into ``elements``."""
    parts, last = [], 0
    for start, first, after, end in sorted(_paired(text)) if depth < MAX_DEPTH else ():
        if start < last:
            continue  # inside another element
        symbol = f"⟦{FIRST_SYMBOL + len(elements)}⟧"
        parts += [text[last:start], symbol]
        last, elements[symbol] = end, (pieces := [])
        pieces += [Piece(text[start:first]), *_cut(text[first:after], elements, depth + 1), Piece(text[after:end])]
    text = "".join([*parts, text[last:]])
    hidden = BREAK.sub(lambda tag: "\n" * len(tag[0]), TITLED.sub(lambda link: "\0" * len(link[0]), text))
    return [*_split(text, hide_spans(hidden), 0, len(text), [SEPARATOR, SENTENCE_END, CLAUSE])]


def list_texts(message: Message) -> Iterator[str]:
    """The texts that are translated."""
    yield from (piece.text for piece in chain.from_iterable(message.values()) if piece.translated)


def join(message: Message, translate: Callable[[str], str] = str, symbol: str = "") -> str:
    """The message of the pieces, with each text translated."""
    text = "".join(translate(piece.text) if piece.translated else piece.text for piece in message[symbol])
    return SYMBOL.sub(lambda found: join(message, translate, found[0]) if found[0] in message else found[0], text)


def _paired(message: str) -> Iterator[tuple[int, int, int, int]]:
    """Elements of HTML and XML with an end tag, links of Markdown, and blocks of templates.

    Yields where an element begins, the text in it, its end tag, and where that ends.
    """
    opened: list[tuple[str, int, int]] = []
    for match in ANY_SPAN.finditer(message):
        is_target = match[0].startswith("<") and message.startswith("`", match.end())
        name, begins = ("`", False) if is_target else _role(match[0])
        if begins:
            opened.append((name, *match.span()))
            continue
        for back, (other, start, first) in enumerate(reversed(opened[-MAX_DEPTH:]), 1):
            if name == other:
                del opened[-back:]
                # The title of a link such as [title][] is its target.
                code = name in CODE_TAGS or match[0] == "][]" or 'translate="no"' in message[start:first]
                after = match.end() + (name == "`")  # the sign that ends a role comes after the target
                yield start, *((after, after) if code else (first, match.start())), after
                break


def _role(span: str) -> tuple[str, bool]:
    """The name of what a span begins, or else ends; the name is empty if it does neither."""
    if span.endswith("}`"):
        return "`", True
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


def _split(text: str, hidden: str, start: int, end: int, patterns: Sequence[re.Pattern[str]]) -> Iterator[Piece]:
    """Split a part of a text at the first pattern, and what is still too long, or has too many spans, at the next.

    Args:
        hidden: the text without what is not split.
    """
    pattern, *finer = patterns
    for first, after in [*(match.span() for match in pattern.finditer(hidden, start, end)), (end, end)]:
        part = text[start:first]
        if finer and (count_words(part) > MAX_WORDS or len(find_spans(part)) == MAX_SPANS):
            yield from _split(text, hidden, start, first, finer)
        else:
            yield Piece(part, has_letter(part))
        yield Piece(text[first:after])
        start = after
