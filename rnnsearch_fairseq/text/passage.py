"""A text to translate: how it is cut into pieces, and how their translations are joined.

A text is cut at the ends of lines, also those written as ``\\n``, at the tags of blocks and the bars of tables. What
stands between a start tag and its end tag, or in the title of a link, is a piece of its own, and in the text around it
a symbol stands for the whole. But if the text inside begins with a small letter, it is no piece of its own and stays in
the sentence around it. A text of more than 40 words is cut into sentences, since a model leaves out parts of a text
that is longer than its training sentences: that of recipes/docs_en_fr loses 6 BLEU on texts of 100 words, and 26 on
texts of 160. A sentence of more than 100 words is cut into clauses, and a clause of more than 500 characters into parts
of that size, between words if it can be.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import count

from rnnsearch_fairseq.text.markup import ESCAPED_END, LETTER, MAX_SPANS, Scan, hide, scan
from rnnsearch_fairseq.text.sentences import SENTENCE_END, count_words

SENTENCE_WORDS = 40  # of a text that stays whole; from 40 to 100 words, cut or not makes no difference
PIECE_WORDS = 100  # of a sentence that is not cut into clauses, as in a training pair
PIECE_CHARACTERS = 500  # in a piece at most, each span counted as one
MAX_DEPTH = 10  # of tags inside tags, and of tags without an end that are passed over
FIRST_SYMBOL = 1000  # of what stands for elements; smaller numbers stand for the spans of a piece
ELEMENT_SYMBOL = re.compile(r"⟦\d{4,9}⟧")
BRACKETED_TAG = re.compile(r"(?:<|&lt;|\[)(/?)([a-zA-Z][\w:.-]*|\d+)[^<>\[\]]*?(/?)(?:>|&gt;|\])")
# Elements of HTML, DocBook, Mallard and forums that hold what is not translated.
CODE_TAGS = re.compile(
    "app|classname|cmd|code|codeblocks?|command|constant|envar|file|filename|function|img|input|kbd|key|literal|math"
    "|methodname|option|package|parameter|pre|samp|script|style|sys|systemitem|tt|userinput|var|varname"
)
# Classes of elements that hold code, or whose text is the name of an icon.
LEFT_CLASS = re.compile(
    r"notranslate|sig|(?:member|type)-signature|code-header|fragment|memproto|material-(?:icons|symbols)[\w-]*"
)
LEFT = re.compile(rf"""translate=["']no|class=["'](?:[^"']*\s)?(?:{LEFT_CLASS.pattern})["'\s]""")
BEGINNINGS = {"ept": "bpt", "ex": "bx", "ec": "sc", "em": "sm"}  # of elements of XLIFF that do not hold their text
ANGULAR = re.compile(r'<x id="(START|CLOSE)_(\w+)"')
BLOCK = re.compile(r"\{(?:%-?\s*|\{[#/])(\w+)")  # {% if and {{#if
# A link of RST, and alternatives in brackets, which are not cut.
TITLED = re.compile(r"`[^`\n]*\s<[^`<>\n]+>`|\([^()|\n]{0,80}\|[^()\n]{0,80}\)")
# Tags between blocks, Qt's filters, escaped ends of lines, {% else %} and {{else}}.
BREAK = re.compile(
    r"<(?:br|hr|/?(?:div|li|ol|p|td|th|tr|ul))\b[^<>]*>|;;"
    rf"|{ESCAPED_END}|\{{%-?\s*el(?:se|if)\b[^%\n]*%\}}|\{{\{{-?\s*else\b[^{{}}\n]*\}}\}}"
)
# Ends of lines and beginnings of items in lists and of headings, and what is between columns.
SEPARATOR = re.compile(
    r"(?:\A|(?<!\s)\s*\n)\s*(?:(?:[-+*>#–—·•‣◦▪●○■□☐☑→⇒]{1,6}|\(?(?:\d{1,3}|[a-zA-Z])[.)]|\w -)\s+(?=\S))?"
    r"|(?:(?<!\s)\s*)?(?<!\\)\|\s*|(?<=\S)(?:\s{2,}|\t)(?=\S)|(?<!\s)\s+\Z"
)
# Icons, a field or a directive of RST, a parameter of Doxygen, and the name of a command with a dash, before a text.
HEAD = re.compile(
    r"(?:(?::[a-z][\w+-]*(?: [\w*,.\[\]-]+){0,3}:(?=\s)|\.\. [\w-]+::|[@\\]t?param(?:\[[\w,]+\])?\s\S+"
    r"|[\u2600-\u27bf\U0001f300-\U0001faff]\ufe0f?|[a-z][\w.+-]*\s(?:\\?-{1,2}|[–—]))\s+(?=\S))*"
)
# A whole text with emphasis, but for a word that may be a name.
EMPHASIZED = re.compile(r"(\*{1,3}|__|~~)(?=[A-Z]|\S+ )([^\s*_~`](?:[^*_~`\n]*[^\s*_~`])?)\1")
# The text of an element that is a part of the sentence around it: its first word, which may follow code, is small.
INLINE = re.compile(r"(?:`[^`\n]+`\s+)?(?![A-Z\d_])\w(?!.*?(?:\n|<|\{%|\{\{))")
CODE = {"code", "quoted", "role", "myst"}  # constructs inside which nothing is cut
LABEL = re.compile(r"[A-Z][a-z]*_[a-z]+:?")  # which may be a name or, as P_ause, the label of a menu
CLAUSE = re.compile(r"(?<=[,;:])\s+")
SPAN = re.compile("\0+")
CHUNK = re.compile(
    rf"\s+|(?:[^\0]|\0+(?!\0)){{1,{PIECE_CHARACTERS}}}(?:(?=\s)|\Z)|(?:[^\0]|\0+(?!\0)){{1,{PIECE_CHARACTERS}}}"
)


class Passage:
    """A text, cut into parts.

    Attributes:
        text: the whole.
        pieces: the texts that are translated, those inside elements last.
        has_inline: an element stays in the sentence around it.
        has_plural: the text has an ICU message with forms for numbers or cases; the forms are not translated.
    """

    def __init__(
        self, text: str, cut: bool = True, inline: bool = True, depth: int = 0, symbols: Iterator[str] | None = None
    ) -> None:
        """Cut the text.

        Args:
            cut: else the text is one piece.
            inline: elements may stay in the sentence around them.
            depth: the number of elements around the text, which share ``symbols``.
        """
        self.text, self.has_inline, self.has_plural = text, False, False
        if symbols is None:
            numbers = (int(symbol[0][1:-1]) for symbol in ELEMENT_SYMBOL.finditer(text))
            symbols = map("⟦{}⟧".format, count(max(numbers, default=FIRST_SYMBOL - 1) + 1))
        # An element's start tag, the passage in it, and its end tag, for the symbol in its place.
        self._elements: dict[str, tuple[str, Passage, str]] = {}
        self._parts = self._cut(inline, depth, symbols) if cut else [(text, True)]
        inside = [piece for _, passage, _ in self._elements.values() for piece in passage.pieces]
        self.pieces = [part for part, is_translated in self._parts if is_translated] + inside

    def join(self, translations: Sequence[str]) -> str:
        """The text with the translation of each piece in its place."""
        following = iter(translations)
        whole = "".join(next(following) if is_translated else part for part, is_translated in self._parts)
        inside = {
            symbol: start + passage.join([next(following) for _ in passage.pieces]) + end
            for symbol, (start, passage, end) in self._elements.items()
        }
        return ELEMENT_SYMBOL.sub(lambda symbol: inside.get(symbol[0], symbol[0]), whole)

    def describe(self, text: str) -> str:
        """A text about a piece, with the source of each element in the place of its symbol."""
        for symbol, (start, passage, end) in self._elements.items():
            text = passage.describe(text.replace(symbol, start + passage.text + end))
        return text

    def _cut(self, inline: bool, depth: int, symbols: Iterator[str]) -> list[tuple[str, bool]]:
        """The parts of the text, and whether each is translated; elements in the text become passages."""
        text, found, parts, last = self.text, scan(self.text), [], 0
        self.has_plural = any(name == "plural" for name, _, _ in found.constructs)
        for start, first, after, end, is_inline in sorted(find_elements(found)) if depth < MAX_DEPTH else ():
            if inline and is_inline:
                self.has_inline = True
            elif start >= last:  # not inside another element
                symbol = next(symbols)
                passage = Passage(text[first:after], True, inline, depth + 1, symbols)
                self.has_inline |= passage.has_inline
                self._elements[symbol] = text[start:first], passage, text[after:end]
                parts += [text[last:start], symbol]
                last = end
        if parts:
            text = "".join([*parts, text[last:]])
            found = scan(text)
        hidden = hide(text, [(start, end) for name, start, end in found.constructs if name in CODE])
        hidden = BREAK.sub(lambda sign: "\n" * len(sign[0]), TITLED.sub(lambda link: "\0" * len(link[0]), hidden))
        hidden = hide(hidden, (scan(hidden) if "\n" in hidden else found).kept)
        parts = _split(text, hidden, found.hidden, 0, len(text), [SEPARATOR, SENTENCE_END, CLAUSE])
        return [piece for part in parts for piece in _without_frame(*part)]


def _without_frame(part: str, is_translated: bool) -> list[tuple[str, bool]]:
    """A part of a text, cut once more: its beginning (such as the mark of a list item), and signs of emphasis around
    the whole part, become parts of their own."""
    if not is_translated:
        return [(part, False)]
    head = HEAD.match(part)[0]
    match = EMPHASIZED.fullmatch(part, len(head))
    sign, inner = match.groups() if match else ("", part[len(head) :])
    return [(head + sign, False), (inner, True), (sign, False)]


def find_elements(found: Scan) -> Iterator[tuple[int, int, int, int, bool]]:
    """Elements of HTML and XML with an end tag, links of Markdown, and blocks of templates.

    Yields where an element begins, the text in it, its end tag, and where that ends, and whether the element is a part
    of the sentence around it.
    """
    text, opened = found.text, list[tuple[str, int, int]]()
    for construct, begin, stop in found.constructs:
        name, begins = _role(construct, text[begin:stop])
        if begins:
            opened.append((name, begin, stop))
            continue
        for back, (other, start, first) in enumerate(reversed(opened[-MAX_DEPTH:]), 1):
            if name and name == other:
                del opened[-back:]
                # The title of a link such as [title][] is its target.
                code = CODE_TAGS.fullmatch(name) or text.startswith("][]", begin) or LEFT.search(text, start, first)
                stays = not (code or text[start] in "!{" or text.strip() == text[start:stop])
                is_inline = stays and INLINE.match(text, first, begin) is not None
                yield start, *((stop, stop) if code else (first, begin)), stop, is_inline
                break


def shape(found: Scan) -> list[tuple[str, str, bool, int]]:
    """The start tag and the end tag of each element, whether it has text, and how many elements are around it."""
    shapes, text, elements = [], found.text, [*find_elements(found)]
    for start, first, after, end, _ in elements:
        depth = sum(begin < start < stop for begin, *_, stop, _ in elements)
        shapes.append((text[start:first], text[after:end], text[first:after].strip() != "", depth))
    return sorted(shapes)


def _role(construct: str, span: str) -> tuple[str, bool]:
    """The name of the element that a construct begins or ends, and whether it begins; "" if it does neither."""
    if construct in ("link", "address"):
        return "[", construct == "link"
    if block := BLOCK.match(span):
        return f"%{block[1].removeprefix('end')}", not (block[1].startswith("end") or span.startswith("{{/"))
    tag = BRACKETED_TAG.fullmatch(span) if construct in ("tag", "entity", "bracket") else None
    if tag and (angular := ANGULAR.match(span)):
        return angular[2], angular[1] == "START"
    if tag and tag[3]:
        begin = BEGINNINGS.get(tag[2], tag[2])
        return (f"<{begin}", begin == tag[2]) if begin in BEGINNINGS.values() else ("", False)
    return (tag[2], not tag[1]) if tag else ("", False)


def _split(
    text: str, hidden: str, words: str, start: int, end: int, patterns: Sequence[re.Pattern[str]]
) -> Iterator[tuple[str, bool]]:
    """Split a part of a text at the first pattern; split results that are too long, or full of spans, at the next.

    Args:
        hidden: the text without what is not split.
        words: the text without what is not translated.
    """
    pattern, *finer = patterns
    for first, after in [*(match.span() for match in pattern.finditer(hidden, start, end)), (end, end)]:
        longest = SENTENCE_WORDS if pattern is SEPARATOR else PIECE_WORDS
        is_wide = len(SPAN.sub(" ", words[start:first])) > PIECE_CHARACTERS
        spans = {text[span.start() : span.end()] for span in SPAN.finditer(words, start, first)}
        if finer and (is_wide or count_words(text[start:first]) > longest or len(spans) > MAX_SPANS):
            yield from _split(text, hidden, words, start, first, finer)
        else:
            chunks = [chunk.span() for chunk in CHUNK.finditer(words, start, first)] if is_wide else [(start, first)]
            for begin, stop in chunks:
                has_letter = LETTER.search(words, begin, stop) or LABEL.fullmatch(text, begin, stop)
                yield text[begin:stop], has_letter is not None
        yield text[first:after], False
        start = after
