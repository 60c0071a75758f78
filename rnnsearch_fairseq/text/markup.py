"""Markup in text: what a translation must keep as it is.

A token is a run without white space. Plain text is words, numbers, punctuation, quotation marks, brackets and dashes.
Every other token is kept whole, up to the bracket that closes it, but without the sentence's punctuation around it. So
a path, an option, an address, a name with capitals inside or the syntax of an unknown format needs no pattern.
``TABLE`` lists what this rule cannot see: constructs with blanks or text inside, and placeholders that touch a word.
Names that the model has never read are kept, too.

What is kept is a span. While a model translates, a numbered symbol stands for each span: ⟦1⟧ for the first, ⟦2⟧ for the
second, and one symbol for equal spans. Spans that touch, or have only one blank or sign between them, are joined to one
span. Quotation marks around a span belong to it. The model reads the beginning of a titled role as text.

The time that the patterns take is proportional to the length of the text, because no pattern has a repetition of text
with which the pattern can begin.
"""

import re
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from functools import cache, lru_cache
from itertools import chain
from mimetypes import MimeTypes
from typing import Any, NamedTuple

from rnnsearch_fairseq.text.sentences import UNSPACED

EMPHASIS = frozenset(["b", "em", "i", "strong", "u"])  # tags of HTML
MAX_SPANS = 9  # of a text; later ones stay text
SYMBOLS = [f"⟦{number}⟧" for number in range(1, MAX_SPANS + 1)]
LABELS = "abbr|dfn|emphasis|guilabel|index|menuselection|strong|sub|sup|term|title"  # roles whose text is translated
CODE_ROLES = "attr|class|const|data|envvar|exc|func|macro|member|meth|mod|obj|option|type|var"
ROLE = r"(?::[a-zA-Z][\w.+-]{0,40}){1,3}:"
ESCAPED_END = r"(?<!\b[A-Za-z]:)\\(?:r\\n|[nt])(?![a-z])"  # an end of a line or a tab, but not in C:\new
BRACKETS = "b|i|u|s|center|code|codeblocks?|color|font|img|kbd|list|quote|size|url"
# printf's and its relatives': %(name)s, %name, %1$-8.2lf, %1, %<PRIu64>, %%.
DIRECTIVE = r"""%\(\w[^()]{0,40}\)[\#0\ +-]{0,3}[\d.]{0,5}[a-zA-Z] | %[a-z][a-z_]{3,}\d?\b
    | %(?:\d{1,2}\$)?[\#0+'*\d$.-]{0,12}(?:hh?|ll?|[Lqjzt])?[a-zA-Z@]
    | %L?[1-9]\d?(?!\d) | %\d{0,3}<\w+>[a-zA-Z]{0,2} | %%(?:[a-z]\b)?"""
# git add [-v] [<file>]: a command of three words at most, and no comma and no two words side by side behind it.
USAGE = r"""\A[a-z][\w.-]*(?:\ [a-z][\w-]*){0,2}\ (?![^\n]*,\ )(?!(?:[^\n]*\ )?[a-z]{2,}\ [a-z]{2,}(?:\ |$))
    (?=[^\n]*\[[<-])[^\n]*\Z"""
SCRIPT = r"<%(?:[^%<]|<(?!%)|%(?!>))*%>"  # of ERB and EJS
# $x^2$, and x = 2 * y.
FORMULA = r"""(?<![\w$])\${1,2}(?=[^$\n]*[\\^_=])[^$\s](?:[^$\n]*[^$\s])?\${1,2}(?![\w({])
    | (?<![\w.])(?:[a-zA-Z]\w?|\d+(?:\.\d+)*)(?:\ [*+=^]{1,2}\ (?:[a-zA-Z]\w?|\d+(?:\.\d+)*))+(?!\w)"""


def nested(depth: int) -> str:
    """A pattern of text with balanced braces, which may be nested ``depth`` deep."""
    return rf"(?:[^{{}}]|\{{{nested(depth - 1)}\}})*" if depth else r"[^{}]*"


# KEPT: a span; tokens end at it. SHOWN: likewise, but the model reads the span as text. PART: a span inside a plain
# word, and otherwise a part of the token, which is the span. BOUNDARY: no span, but tokens end at it.
KEPT, SHOWN, PART, BOUNDARY = "KEPT", "SHOWN", "PART", "BOUNDARY"
# Name, kind and pattern of each construct. Where two match, the first is taken. recipes/docs_en_fr/EVIDENCE says how
# often each construct occurs, and how often translators keep it.
TABLE = [
    ("symbol", KEPT, r"⟦\d+⟧"),
    ("format", KEPT, r"\A(?:(?P<letter>[a-zA-Z])(?P=letter){0,4}(?:[\s/.,:-]+|\Z)){2,12}\Z"),  # of a date: h:mm a
    ("quantity", KEPT, r"\A\d+(?:\.\d+)?(?!st|nd|rd|th)[a-zA-Z]{1,3}\Z"),  # a text such as 2s
    ("usage", KEPT, USAGE),
    ("prompt", KEPT, r"(?m:^\$\ (?=[^\n]*(?:[/=|&_<>]|\s-|\.\w))[a-z./][^\n]*)"),  # a command with a sign of code
    ("code", KEPT, r"```(?:[^`]|`(?!``))*``` | ``(?:[^`]|`(?!`))+``"),
    ("role", KEPT, rf"(?!:(?:{LABELS}):){ROLE}`[^`<>]+` | :(?:[a-z]+:)?(?:{CODE_ROLES}):`[^\s`<>]+\s*<[^`<>]+>`"),
    ("myst", KEPT, r"\{[\w:+-]{1,40}\}`(?:[^`<>]+`|(?=[^`<>]+<[^`<>]+>`))"),  # a role of MyST
    ("title", SHOWN, rf":(?:{LABELS}):` | {ROLE}`(?=[^`<>]+<[^`<>]+>`)"),
    ("target", KEPT, r"(?<=[^\s`<>])\s*<(?!a\d+>)[^<>`\n]+>(?=`)"),
    ("reference", KEPT, r"(?<![\w`:}])`[^`<>\s](?:[^`<>\n]*[^`<>\s])?`__?(?![\w`])"),
    # Not behind the target of a link, but behind <a0>, with which a link of Markdown begins (documents/markdown.py).
    ("quoted", KEPT, r"(?<![\w)`:])(?<!(?<!<a\d)(?<!<a\d\d)>)`(?!_{0,2}\s)[^`\n]+`(?![`_])"),
    ("link", KEPT, r"!?\[(?=!\[|[^\[\]\n]{1,200}\](?:\(|\[))"),
    ("address", KEPT, r"""\](?:\((?:\{\{[^{}\n]*\}\}|\{(?!\{)|[^()\s{])*(?:\s"[^"\n]*")?\)|\[[^\[\]\n]{0,60}\])"""),
    ("note", KEPT, r"\[\^\w+\] | !?\[\[[^\[\]\n]{1,200}\]\]"),
    ("tag", KEPT, rf"</?[a-zA-Z][^\s<>]*(?=\s?/?>|\s[^<>=]*=)[^<>]*> | {SCRIPT} | <(?:!--|[%?])[^<>]*> | </?\d+/?>"),
    ("bold", KEPT, r"'{3}"),  # of MediaWiki
    ("entity", KEPT, r"&lt;[/?!]?[a-zA-Z][^\n<>&]{0,99}&gt; | &(?:amp;)*(?:[a-zA-Z]\w{1,30}|\#[xX]?[0-9a-fA-F]{1,7});"),
    ("bracket", KEPT, rf"\[/?(?:{BRACKETS})(?:=[^\[\]\n]*)?\](?!\()"),
    ("template", KEPT, r"\{\{\{?[^{}]*\}\}\}? | \{[%#$][^{}]*\}"),
    ("plural", KEPT, rf"\{{\s?\w+\s?,\s?(?:plural|select|selectordinal|choice),{nested(5)}\}}"),
    ("object", KEPT, rf"""\{{\s*["'][^"'{{}}\n]{{1,60}}["']\s?:{nested(5)}\}}"""),  # of JSON or Python
    ("brace", PART, r"[$\#%@]?\{\ ?\w*(?:[.\[!:|,$@-][^{}]{0,40})?\ ?\}"),
    ("directive", PART, DIRECTIVE),
    ("macro", KEPT, r"(?<![\w>])[A-Z]<(?!/[a-zA-Z][\w.:-]*>)(?:[^<>\n]|[A-Z]<[^<>\n]*>)*>"),  # POD's X<text>
    ("call", KEPT, r"\$(?:[a-zA-Z_]\w*)?\([^()\n]{1,200}\)"),
    ("formula", KEPT, FORMULA),
    ("substitution", KEPT, r"(?<![\w|])\|[^|\s](?:[^|\n]{0,60}[^|\s])?\|(?![\w|])"),
    ("escape", BOUNDARY, rf"\\(?:\s-?|[`*|\"']) | (?<=[`*|])\\ | (?<=[`>])-(?=[a-z]) | {ESCAPED_END}"),
    ("emphasis", BOUNDARY, r"(?<![\w*\\])\*{1,3}(?=[^\s*]) | (?<=[^\s*\\])\*{1,3}(?![\w*])"),
    ("bar", BOUNDARY, r"\|"),
]
CONSTRUCT = re.compile("|".join(f"(?P<{name}>{pattern})" for name, _, pattern in TABLE), re.VERBOSE)
PROSE = {"tag", "entity", "escape", "emphasis", "bar"}  # constructs that text for readers may have
KINDS = {name: kind for name, kind, _ in TABLE}
# A run without white space, or without a character of a script that has no blanks between words.
TOKEN = re.compile(rf"[^\s\u3000-\u303f\uff01-\uff65{UNSPACED.pattern[1:-1]}]+")
# Most words, which need no closer look.
WORD = re.compile(r"[(\"'“«]?(?:[A-Z]?[a-z]+|[A-Z]+)(?:['’-][A-Za-z]?[a-z]+)*[)\"'”»]?[.,;:!?]?")
LINE_END = re.compile("[\n\r]")
# Signs of the sentence before and after a token. `_trim` also removes a bracket without its pair in the token, and a
# pair around the token.
TRIMMED = "\"'`“”„‟‘’‚‛«»‹›–—―…,;?¿¡\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff"
LEADING = re.compile(rf"(?!(['\"])[^'\"\s]+\1[(\[/])[{TRIMMED})\]]|[:!](?![\w:+-])")
TRAILING = re.compile(rf"(?:['’]s|[{TRIMMED}.:!]|(?<=[^\W_])[(\[<\\~])\Z")
PAIRS = {"(": ")", "[": "]", "<": ">", "{": "}"}
OPENING = {closing: opening for opening, closing in PAIRS.items()}
ASCII_LETTER = re.compile("[a-zA-Z]")
LETTER = re.compile(r"[^\W\d_]")
# Letters and signs of sentences, but for what is code: a sign or a bracket right after a letter, and dashes.
PLAIN = re.compile(
    r"""(?!.*?(?:[^\W\d_](?:[.;!?…]+[^\W\d_]|[(\[<])|[:,][^\W\d_]*[:,]|--))
    (?:[^\W\d_]|['’ʼ.,;:!?…()\[\]<>«»“”"‘`‐‑‒–—―-])+""",
    re.VERBOSE,
)
INNER_CAPITAL = re.compile(
    r"(?<![^\W_])(?![A-Z]{2,}s(?![^\W_])|[A-Za-z]B(?![^\W_]))"
    r"(?:[a-z]+[A-Z]|[A-Z]+[a-z]+[A-Z]|[A-Z]{2,}[a-z])[a-zA-Z0-9]*"
)
BEGINNING = re.compile(r"--?[a-zA-Z]|[.:!@#$~][\w/]")  # of an option, a hidden file, a name with a sign in front
PATH = re.compile(r"(?i:dir|home|path|root|url)[^\w\s]*/\w")  # {docdir}/examples, but not {price}/month
CAPITALIZED = re.compile(r"[A-Z](?:[a-z]|\b)")
HYPHENED = re.compile(r"\w+(?:-\w+)*")
ENDING = re.compile(r"(?<=\w\w)\((?:s|es|ies|e|x)\)")  # file(s)
# 1, e.g., 50%, $1,000, _Open, E&xit, 64-bit, layer-2, 10-20, 2nd, 20ms, 5V and 4GB are plain.
NUMBER = re.compile(
    r"""\d{1,2} | (?:[^\W\d_]{1,2}\.)+[^\W\d_]{0,2} | \d+(?:[.,]\d+)*% | [$€£¥](?:\d{2,}[\d.,]*|\d[\d.,]+)
    | [&_][A-Z][a-z’'-]+ | [A-Z][a-z]*&[a-z]+ | \d+(?:-[a-z]+)+ | [a-z]+(?:-[a-z]+)*-\d{1,3}
    | \d{1,3}(?:[-–]|\.\.)\d{1,3} | \d+(?:[.,]\d+)?(?:[a-zè]{1,3}|[kMGmµ]?(?:V|A|W|B|Hz)|[KMGT]B(?:/s)?)""",
    re.VERBOSE,
)
# A word with a capital inside a sentence, or that is somebody's or does something; in capitals; with an accent; or in
# small letters, if it is alone in a text or between tags.
NAME = re.compile(
    r"\b(?:(?<=[a-z,)\0] )[A-Z][^\W\d_A-Z]{3,}|[A-Z]{4,}|(?![a-zß-ÿ])(?=[a-zA-Z]*[^\W\d_a-zA-Z])[^\W\d_]{3,}"
    r"|(?:\A|(?<=\0))[a-z]{4,}(?=\Z|\0)"
    r"|[A-Z][a-z]{2,}(?:[a-rt-z](?=['’]s\b| (?:will|can)\b)|[a-z](?= (?:is|has|was|does)\b)))\b"
)
SYMBOL = re.compile(r"(\s?)(⟦\d+⟧)")
RUN = re.compile(r"\w+|[^\w\s]+")
BETWEEN = re.compile(r"[^\w,;]?")  # joins two spans
QUOTES = {"'": "'", "`": "'", '"': '"', "“": "”", "‘": "’", "«": "»"}
MARKS = ("Mn", "Mc", "Me", "Cf")  # Unicode's categories of what belongs to the letter before it
SIGNS = ("So", "Sm")  # and of signs that models do not know
PUNCTUATION = frozenset(".,;:!?'\"()[]-–—*_`")
MAX_EXTENSION = 80  # characters up to a closing bracket


class Scan(NamedTuple):
    """A text and what is found in it: places, each a start and an end, in order."""

    text: str
    kept: list[tuple[int, int]]  # all spans that a translation must keep
    masked: list[tuple[int, int]]  # those for which a symbol stands; the model reads the others as text
    constructs: list[tuple[str, int, int]]  # the constructs of TABLE with their names

    @property
    def spans(self) -> list[str]:
        """The spans that a translation must keep, before any are joined, as often as they occur."""
        return [self.text[start:end] for start, end in self.kept]

    @property
    def hidden(self) -> str:
        """The text with each character inside a span replaced by a null character."""
        return hide(self.text, self.kept)

    def mask(self) -> tuple[str, list[str]]:
        """The text with symbols for its spans, and the different spans in the order of their numbers."""
        joined = _join(self.text, self.masked)
        spans = [*dict.fromkeys(self.text[start:end] for start, end in joined)][:MAX_SPANS]
        return replace(self.text, joined, dict(zip(spans, SYMBOLS)).get), spans


def known_characters(symbols: Sequence[str]) -> set[str]:
    """The characters that a model can read: ASCII, and what occurs in the symbols of its source vocabulary.

    If less than a hundredth of the symbols contain letters that are not Latin, the model cannot read these letters. A
    model that has met "中文" somewhere cannot read Chinese.
    """
    characters = set(chain(map(chr, range(128)), *symbols))
    foreign = set(filter(_is_foreign, characters))
    are_rare = 100 * sum(not foreign.isdisjoint(symbol) for symbol in symbols) < len(symbols)
    return characters - foreign if are_rare else characters


def has_code(text: str) -> bool:
    """Whether a text has markup that occurs only in programs and documentation."""
    return any(found.lastgroup not in PROSE for found in CONSTRUCT.finditer(text))


def scan(
    text: str,
    known: Container[str] | None = None,
    terms: re.Pattern[str] | None = None,
    words: Container[str] | None = None,
) -> Scan:
    """Find what a translation must keep.

    Args:
        known: the characters that the model can read; None: all.
        terms: a user's words that are kept, too.
        words: the words that the model knows, in small letters; names that are no such words are kept. None: all.
    """
    kept, shown, placeholders, segments, constructs, last = [], set(), [], [], [], 0
    for found in CONSTRUCT.finditer(text):
        kind, (start, end) = KINDS[found.lastgroup], found.span()
        constructs.append((found.lastgroup, start, end))
        if kind is PART:
            placeholders.append((start, end))
            continue
        segments.append((last, start))
        last = end
        if kind is not BOUNDARY:
            kept.append((end - len(found[0].lstrip()), end))
        if kind is SHOWN:
            shown.add(kept[-1])
    shadow = replace(text, placeholders, lambda part: "x" * len(part))
    for start, end in [*segments, (last, len(text))]:
        kept += _judge_tokens(text, shadow, start, end, placeholders)
    if known is not None and not text.isascii():
        kept += _find_unknown(hide(text, sorted(kept)), known)
    if terms is not None:
        kept += [term.span() for term in terms.finditer(hide(text, sorted(kept)))]
    if words is not None and not text.isupper():
        names = [name.span() for name in NAME.finditer(hide(text, sorted(kept))) if name[0].lower() not in words]
        if len({text[start:end] for start, end in kept + names}) <= MAX_SPANS:  # there are symbols for all
            kept += names
    kept.sort()
    return Scan(text, kept, [place for place in kept if place not in shown], constructs)


def hide(text: str, places: Sequence[tuple[int, int]]) -> str:
    """The text with each character in these places replaced by a null character."""
    return replace(text, places, lambda span: "\0" * len(span))


def mask(text: str, spans: Sequence[str], *what: Any) -> str:
    """Replace each of the ``spans`` in ``text`` by its symbol; other markup stays. For ``what``, see `scan`."""
    return replace(text, _joined_and_single(text, *what), dict(zip(spans, SYMBOLS)).get)


def mask_pair(source: str, target: str, *what: Any) -> tuple[str, str]:
    """Replace the spans that both sides have equally often by symbols, numbered as they stand in ``source``.

    If the target lacks a joined span, its parts are compared one by one. For ``what``, see `scan`.
    """
    places = [_joined_and_single(side, *what) for side in (source, target)]
    ours, theirs = (Counter(side[a:b] for a, b in found) for side, found in zip((source, target), places))
    equal, last = {}, 0
    for start, end in places[0]:
        if start >= last and ours[span := source[start:end]] == theirs[span]:
            equal[span], last = None, end
    symbols = dict(zip(equal, SYMBOLS))
    return replace(source, places[0], symbols.get), replace(target, places[1], symbols.get)


def unmask(text: str, spans: Sequence[str]) -> str:
    """Put the ``spans`` in the place of their symbols; a symbol without a span stays."""
    numbered = dict(zip(SYMBOLS, spans))
    return SYMBOL.sub(lambda symbol: symbol[1] + numbered.get(symbol[2], symbol[2]), text)


def _judge_tokens(
    text: str, shadow: str, start: int, end: int, placeholders: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """The places that are kept in a segment without constructs, but for placeholders.

    Args:
        shadow: the text with letters in the place of placeholders.
    """
    while token := TOKEN.search(shadow, start, end):
        first, start = token.span()
        inside = placeholders[bisect_left(placeholders, (first,)) : bisect_left(placeholders, (start,))]
        if not inside and WORD.fullmatch(text, first, start):
            continue
        first, after = _trim(shadow, first, start)
        if inside:
            followed = any(CAPITALIZED.match(text, stop, after) for _, stop in inside)
            if not PATH.search(text, first, after) and (followed or not _judge(shadow[first:after])):
                yield from inside  # the rest of the token is a plain word
            else:
                yield min(first, inside[0][0]), max(after, inside[-1][1])
        elif closing := _find_closing(text, first, after, end):
            yield first, closing
            start = max(start, closing)
        else:
            for a, b in _judge(text[first:after]):
                bracketed = text[first + a - 1 : first + a] == "[" and text[first + b : first + b + 1] == "]"
                yield first + a - bracketed, first + b + bracketed


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    """Where a token begins and ends without the punctuation of the sentence around it."""
    counts = Counter(text[start:end])
    while start < end:
        first, last = text[start], text[end - 1]
        if first in "([<" and (counts[first] != counts[PAIRS[first]] or (counts[first] == 1 and last == PAIRS[first])):
            counts[first] -= 1
            start += 1
        elif found := LEADING.match(text, start, end):
            counts[first] -= 1
            start = found.end()
        elif last in ")]>" and counts[last] != counts[OPENING[last]]:
            counts[last] -= 1
            end -= 1
        elif not first == last == ":" and (found := TRAILING.search(text, max(start, end - 2), end)):
            end = found.start()
        else:
            break
    return start, end


def _find_closing(text: str, start: int, end: int, limit: int) -> int:
    """Where a bracket closes that opens inside a token, after its first character; 0: inside the token, or nowhere."""
    place = next((place for place in range(start + 1, end) if text[place] in "([{"), None)
    if place is None:
        return 0
    opening, closing = text[place], PAIRS[text[place]]
    depth, limit = 0, min(limit, max(end, place) + MAX_EXTENSION)
    line = LINE_END.search(text, end, limit)
    for here in range(place, line.start() if line else limit):
        depth += (text[here] == opening) - (text[here] == closing)
        if depth == 0:
            return here + 1 if here >= end else 0
    return 0


@lru_cache(1 << 12)
def _judge(token: str) -> tuple[tuple[int, int], ...]:
    """The places in a trimmed token that are kept: none, the whole, or parts of it."""
    whole = ((0, len(token)),)
    if not token.isascii():
        categories = [unicodedata.category(sign) for sign in token]
        signs = tuple((n, n + 1) for n, kind in enumerate(categories) if kind in SIGNS and not token[n].isascii())
        if signs:
            return signs
        if "No" in categories:  # exponents, fractions
            return whole
        token = "".join("a" if kind in MARKS else sign for sign, kind in zip(token, categories))
    if not any(map(str.isalnum, token)):
        is_sign = len(token) == 1 and (token in "{}" or unicodedata.category(token) == "Sc")
        return whole if is_sign or (len(token) > 1 and not set(token) <= PUNCTUATION) else ()
    plain = ENDING.sub("", token)
    if NUMBER.fullmatch(plain):
        return ()
    if BEGINNING.match(token) or ("/" in token and token in _media_types()):
        return whole
    words = plain.split("/")
    if "" not in words[:-1] and all(map(PLAIN.fullmatch, filter(None, words))):
        names = tuple(name.span() for name in INNER_CAPITAL.finditer(token))
        if len(words) > 1 or not names:
            return names
    is_name = HYPHENED.fullmatch(token) and not token.endswith("_")  # a reference of RST
    return _without_small_words(token) if is_name else whole


@cache
def _media_types() -> frozenset[str]:
    """Names such as text/html, the same ones on every machine. Made when needed, since Python reads files for them."""
    return frozenset(MimeTypes().types_map[True].values())


def _without_small_words(token: str) -> tuple[tuple[int, int], ...]:
    """A name with capitals or digits without the words in small letters that hyphens join to it."""
    words = token.split("-")
    names = [n for n, word in enumerate(words) if not (word.isalpha() and word.islower())]
    first, last = (names[0], names[-1]) if names else (0, len(words))
    start = sum(len(word) + 1 for word in words[:first])
    return ((start, start + len("-".join(words[first : last + 1]))),)


def _is_foreign(character: str) -> bool:
    """Whether a character is a letter of another script than the Latin one."""
    return character.isalpha() and not unicodedata.name(character, "LATIN").startswith("LATIN")


def _find_unknown(text: str, known: Container[str]) -> Iterator[tuple[int, int]]:
    """Words with a character that is unknown, or of another script in a Latin text, and signs that are unknown."""
    latin = 2 * len(ASCII_LETTER.findall(text)) > len(LETTER.findall(text))

    def is_unknown(character: str) -> bool:
        if latin and _is_foreign(character):
            return True
        return not all(part in known for part in unicodedata.normalize("NFKC", character))

    for token in RUN.finditer(text):
        unknown = [not character.isascii() and is_unknown(character) for character in token[0]]
        if any(unknown) and token[0][0].isalnum():
            yield token.span()
        else:
            yield from ((token.start() + n, token.start() + n + 1) for n, sign in enumerate(unknown) if sign)


def replace(text: str, places: Sequence[tuple[int, int]], new: Callable[[str], str | None]) -> str:
    """The text with ``new`` of each place's text in that place; where ``new`` returns None, the text stays."""
    parts, last = [], 0
    for start, end in places:
        if start >= last and (span := new(text[start:end])) is not None:
            parts += [text[last:start], span]
            last = end
    return "".join([*parts, text[last:]])


def _joined_and_single(text: str, *what: Any) -> list[tuple[int, int]]:
    """The places of single and of joined spans, in order; of places with one start, the longest comes first."""
    places = scan(text, *what).masked
    return sorted({*places, *_join(text, places)}, key=lambda place: (place[0], -place[1]))


def _join(text: str, places: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in (_with_quotes(text, *place) for place in places):
        if joined and (start < joined[-1][1] or BETWEEN.fullmatch(text, joined[-1][1], start)):
            start = joined.pop()[0]
        joined.append((start, end))
    return [_with_quotes(text, *place) for place in joined]


def _with_quotes(text: str, start: int, end: int) -> tuple[int, int]:
    quoted = start > 0 and end < len(text) and QUOTES.get(text[start - 1]) == text[end]
    return (start - 1, end + 1) if quoted else (start, end)
