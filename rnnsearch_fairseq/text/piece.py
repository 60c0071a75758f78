"""A piece of text: what the model reads of it, the text of a translation, and the faults of that text."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter
from typing import Any
from unicodedata import normalize

from rnnsearch_fairseq.text.habits import HABITS, Habits
from rnnsearch_fairseq.text.markup import EMPHASIS, LETTER, SYMBOLS, hide, scan, unmask
from rnnsearch_fairseq.text.passage import shape
from rnnsearch_fairseq.text.preparation import WORD
from rnnsearch_fairseq.text.terms import NO_TERMS, Terms

# Directives of printf that take the next argument, so that their order counts.
PRINTF = re.compile(r"%[#0+'*.\d-]*(?:hh?|ll?|[Lqjzt])?[a-zA-Z@]")
# What stands for a number, or is one with commas.
COUNT = re.compile(r"%(?:\(\w+\)|\d\$)?[0+ '.\d-]*(?:hh?|ll?|[Lqjzt])?[dfiu]|%n|%L\d|\d{1,3}(?:,\d{3})+")
DIRECTIVE = frozenset("%{$")  # each directive has one of these signs
BLANK_DIRECTIVE = re.compile(r"%\s+[a-zA-Z]")  # of printf, too, but nobody means it in "5% done"
PLACEHOLDER = re.compile(r"%|[$#@]?\{|@count|\d+\Z")
COUNTER = re.compile(
    r"(?:n|nb|num|numbers?|counts?|counter|total|size|length|limit|max|min)(?:_\w+)?|\w+_(?:n|num|number|count)"
)
# The numbers that stand for placeholders of numbers. Of nine numbers that we tried, the model of recipes/docs_en_fr
# translates these best: "Les fichiers 37 ont été supprimés", but "100 fichiers ont été supprimés".
NUMBERS = "100", "15", "24", "5", "12"
NUMBER = re.compile(rf"(?<![\d⟦])(?:{'|'.join(NUMBERS)})(?!\d)")
PAIRED_TAG = re.compile(r"<(/?)(\w[\w:.-]*)[^<>]*(?<!/)>")
STARS = "**"  # which the model reads in the place of tags of emphasis, since it knows them better
ATTACHED = re.compile(r"(?<=[\w.,;!?)])⟦\d⟧")  # right after a word or a full stop, as the number of a footnote
QUOTED = re.compile(r"(?<!\w)'[^'\n]{1,80}'(?!\w)|\"[^\"\n]*\"|«[^«»\n]*»|“[^“”\n]*”")
THOUSANDS = re.compile(r"(?<=\d)[\s,.'’](?=\d{3}(?!\d))")  # what stands between groups of digits
BLANK = r"(?:\s|\*|<[^<>]*>)+"  # also a tag
REPEATED = re.compile(rf"\b(?!nous|vous)([^\W\d_]{{4,}}){BLANK}\1\b", re.IGNORECASE)
# The same with small words between: "formulaire de formulaire".
ECHOED = re.compile(
    rf"\b(?!votre|notre|temps)([^\W\d_]{{5,}}){BLANK}(?:(?!non\b)[^\W\d_]{{1,4}}(?:['’]|{BLANK})){{1,3}}\1\b",
    re.IGNORECASE,
)
COPIED = re.compile(r"(?<=[a-z] )(\*\*|<(?P<tag>b|em|i|strong|u)>)[a-z]+(?:\1|</(?P=tag)>)")  # a word in emphasis
STEM = 5  # letters that a word has in common with its translation
NO_WORD = "has no word where the model wrote "  # a symbol without a span
NEW_WORD = "may be wrong at a word that the training text lacks: "  # which another search seldom mends
ENDS = ".!?:;,…"
# What both sides have alike, and the fault where they have not.
FEATURES: list[tuple[str, Callable[[str], Any]]] = [
    ("has other emphasis", lambda rest: rest.count("**")),
    ("has a bracket without its pair", lambda rest: rest.count("(") - rest.count(")")),
    ("has other quotation marks", lambda rest: len(QUOTED.findall(rest))),
    ("ends with another sign", lambda rest: "…" if rest.endswith("...") else rest[-1:] if rest[-1:] in ENDS else ""),
]
NAME = re.compile(r"[./-]*(?:[^\W_][./-]*)+")  # which a translation may have for itself
# A word with one capital, and what sentences have, but not titles.
TITLE_WORD = re.compile(r"(?<![\w.&/-])[A-Z][a-z]+(?![\w-])")
SENTENCE_SIGN = re.compile(r"[.:!?;,](?: |\Z)")
BEGINNING = re.compile(r"((?:[^\w⟦:]|:(?!\w)|⟦\d⟧)*)([^\W\d_]*)")  # and the first word
SIGNS = "*`[]{}|$\\<>_#=%@+~^&"  # of markup and code
# &File, E&xit and _Open, but not &amp; and &x
ACCELERATOR = re.compile(r"(?:(?<![\w&`])&(?=\w\w)|(?<=[a-zA-Z])&(?=[a-z]))(?!#?\w+;)|(?<![\w*`\\])_(?=[A-Z])")
INSIDE = re.compile(r"\b(?:[A-Z][a-z]*_[a-z]+|(?<=[a-z] )(?<!\bthe )(?<!\ba )_[a-z]+)\b")  # C_lose, Full _screen
LABEL_WORDS = {"_": 5, "&": 20}  # at most, of a text that may be a label of a menu or a button
# A blank behind an opening mark or tag, or before an end tag.
OPENED = re.compile(
    r"(?:(?<![^\s(])(?:\*{1,2}|[`'\"“(\[])|:[\w+.-]+:`&?|<[a-zA-Z][^<>]*(?<!/)>) +(?=\S)|(?<=\w) +(?=</[a-zA-Z])"
)
TERM = re.compile(r"(:(?:[\w+.-]+:)?term:`)([^`<>]+?)(?:\s*<([^`<>]*)>)?`")
AND_OF_XML = " &amp; "  # which the model reads as a sign
FEW_LETTERS = 10  # outside spans; translations of shorter texts may have any length
SHORTEST = 0.4  # of a translation, in letters of the source; all but 0.1 % of human translations are longer


@dataclass(frozen=True)
class Reader:
    """What a piece needs to know about the model and the user.

    Attributes:
        languages: the codes of the source language and the target language.
        known: the characters that the model can read; None: all.
        words: the words of the training text in small letters, in both languages; None: they are not known. A word of
            the source with a capital that is not among them is a name, which is kept.
        masks: symbols stand for markup while the model translates, as in its training text.
        terms: the user's.
    """

    languages: tuple[str, str] = ("", "")
    known: Container[str] | None = None
    words: tuple[Collection[str] | None, Collection[str] | None] = (None, None)
    masks: bool = True
    terms: Terms = NO_TERMS

    @cached_property
    def what_is_kept(self) -> tuple[Any, ...]:
        """What `scan` needs to know."""
        habits, words = HABITS.get(self.languages[0], Habits()), self.words[0]
        if words is not None and not habits.has_accents:
            words = frozenset(filter(str.isascii, words))
        return self.known, self.terms.kept, None if habits.has_capital_nouns else words


class Piece:
    """A piece of text to translate.

    Attributes:
        text: the source.
        masked: what the model reads.
        counted: ``masked`` with numbers in place of the placeholders that stand for numbers, and two stars in place of
            tags of emphasis; None: there are none.
        counts: for each number in ``counted`` that stands for a placeholder, the symbol in ``masked`` that does.
        emphasis: the symbols of the tags that begin and end emphasis in ``masked``.
        spans: what the symbols in ``masked`` stand for.
        is_title: ``masked`` is no sentence, and all its long words have capitals, as in titles and labels of English.
    """

    def __init__(self, text: str, reader: Reader = Reader()) -> None:
        self.text, self._reader = text, reader
        self._from, self._to = (HABITS.get(language, Habits()) for language in reader.languages)
        self._is_xml = reader.masks and AND_OF_XML in text and " & " not in text
        place = _find_accelerator(text, reader.words[0] or ()) if reader.masks else None
        self._label = "" if place is None else text[place]
        plain = reader.terms.put_into(text if place is None else text[:place] + text[place + 1 :])
        plain = plain.replace(AND_OF_XML, " & ") if self._is_xml else plain
        self._plain = self._from.write_out(normalize("NFC", plain)) if reader.masks else plain
        found = scan(self._plain, *reader.what_is_kept)
        places = found.kept if reader.masks else [(start, end) for _, start, end in found.constructs]
        self._kept, self._elements = [self._plain[start:end] for start, end in places], shape(found)
        self._rest = hide(self._plain, places).strip()
        self._terms = TERM.findall(text)
        self.masked, self.spans = found.mask() if reader.masks else (self._plain, [])
        long = [word for word in re.findall(r"[^\W\d_]{4,}", self.masked) if not word.isupper()]
        may_be_title = not SENTENCE_SIGN.search(self.masked) and not self._from.has_capital_nouns
        self.is_title = may_be_title and len(long) > 1 and all(word[0].isupper() for word in long)
        attached = ATTACHED.findall(self.masked)
        self._attached = [symbol for symbol in {*attached} if self.masked.count(symbol) == attached.count(symbol)]
        self.counts: dict[str, str] = {}
        counted = self.masked if NUMBER.search(self.masked) else self._count_placeholders()
        self.emphasis = self._find_emphasis()
        for tag in self.emphasis:
            counted = counted.replace(tag, STARS)
        self.counted = counted if counted != self.masked else None

    def with_names(self, names: Iterable[str]) -> "Piece":
        """The piece, in which these words stay, too."""
        return Piece(self.text, replace(self._reader, terms=self._reader.terms.with_names(names)))

    def _find_emphasis(self) -> list[str]:
        """The symbols of the tags that begin and end the only emphasis of the text, if all of them are in pairs."""
        matches = [(symbol, PAIRED_TAG.fullmatch(span)) for symbol, span in zip(SYMBOLS, self.spans)]
        tags = {symbol: tag[1] for symbol, tag in matches if tag and tag[2] in EMPHASIS}
        if [*tags.values()] != ["", "/"] or "*" in self.masked:
            return []
        in_order = re.findall("|".join(tags), self.masked)
        return [*tags] if in_order == [*tags] * (len(in_order) // 2) else []

    def _count_placeholders(self) -> str:
        """What the model reads, with numbers in the place of placeholders that stand for numbers."""

        def count(symbol: re.Match[str]) -> str:
            span, following = self.spans[int(symbol[1]) - 1], self.masked[symbol.end() : symbol.end() + 40]
            noun, name = re.match(r" ([a-z]+)", following), re.search(r"\w+", span)
            is_counter = (name and COUNTER.fullmatch(name[0])) or (noun and noun[1] in self._from.counted)
            is_count = COUNT.fullmatch(span) or (is_counter and PLACEHOLDER.match(span))
            if not is_count or len(self.counts) == len(NUMBERS):
                return symbol[0]
            number = NUMBERS[len(self.counts)]
            self.counts[number] = symbol[0]
            return number

        return re.sub(r"⟦(\d)⟧", count, self.masked)

    def restore(self, text: str, in_capitals: bool = False, counted: bool = False) -> str | None:
        """The text of a translation; None unless it has all that stands for a placeholder or a tag exactly once."""
        if counted and self.counts:
            numbers = NUMBER.findall(text)
            if any(numbers.count(number) != 1 for number in self.counts):
                return None
            text = NUMBER.sub(lambda number: self.counts.get(number[0], number[0]), text)
        if counted and self.emphasis:
            first, *others = text.split(STARS)
            tags = self.emphasis * self.masked.count(self.emphasis[0])
            if len(tags) != len(others):
                return None
            text = first + "".join(tag + part for tag, part in zip(tags, others))
        if in_capitals:
            text = text.upper()
        if not self._reader.masks:
            return text
        for sign in "`*":  # a model of documentation writes these signs into other texts, too
            text = text if sign in self.masked else text.replace(sign, "")
        if "…" in self.text and "..." not in self.text:  # models read and write three dots for this sign
            text = re.sub(r"\.{2,3}", "…", text)
        for symbol in self._attached:  # without a blank before it
            text = re.sub(rf"(?<=\S) (?={symbol})", "", text)
        text = self._with_first_letter(text)
        text = self._to.typeset(text)
        if self._label and (letter := LETTER.search(text)):  # no symbol has a letter
            text = text[: letter.start()] + self._label + text[letter.start() :]
        text = unmask(text, self.spans)
        text = re.sub(" ?&nbsp;[ \u00a0]?" if " &nbsp;" not in self.text else "&nbsp;[ \u00a0]", "&nbsp;", text)
        if not OPENED.search(self.text):
            text = OPENED.sub(lambda found: found[0].rstrip(" "), text)
        text = self._name_terms(text)
        return text.replace(" & ", AND_OF_XML) if self._is_xml else text

    def _with_first_letter(self, text: str) -> str:
        """Write the first letter of the text as a capital or a small letter, as the source has it.

        Both must begin with a word, or with equally many spans before the first word. A title always has a capital, and
        so has a text that begins with a name.
        """
        (before, source), (start, word) = (BEGINNING.match(side).groups() for side in (self.masked, text))
        is_beginning = (self.is_title or self._plain[:1].isupper()) and "⟦" not in start
        if start.count("⟦") != before.count("⟦") and not is_beginning:
            return text
        if (source[:1].isupper() or is_beginning) and word[:1].islower():
            return start + word[0].upper() + text[len(start) + 1 :]
        if source[:1].islower() and not is_beginning and word[1:].islower() and word not in self.text:
            return start + word[0].lower() + text[len(start) + 1 :]
        return text

    def _name_terms(self, text: str) -> str:
        """The text with a term's name in the source behind its translation: ``:term:`itérateur <iterator>```."""
        titles = [title for _, title, _ in TERM.findall(text)]
        names = [name or title for _, title, name in self._terms]
        left = iter([name for name in names if name not in titles])

        def write(term: re.Match[str]) -> str:
            name = term[2] if term[2] in names else next(left, names[0])
            return f"{term[1]}{term[2]}`" if term[2] == name else f"{term[1]}{term[2]} <{name}>`"

        return TERM.sub(write, text) if len(titles) == len(names) else text

    def choose(self, translations: Iterable[Any], nbest: int = 1) -> list[tuple[Any, list[str]]]:
        """The ``nbest`` translations with the fewest faults, and their faults; faults of spans count first.

        Of two with one ``text``, the first is taken. With as many faults, translations stay in their order. With
        ``nbest`` 1, the first translation without a fault is taken.
        """
        rated, seen = [], set()
        for translation in translations:
            if translation.text in seen:
                continue
            seen.add(translation.text)
            spans, others = self.find_faults(translation.text)
            rated.append((len(spans), len(others), translation, spans + others))
            if nbest == 1 and not spans + others:
                break
        return [(translation, faults) for *_, translation, faults in sorted(rated, key=itemgetter(0, 1))[:nbest]]

    def find_faults(self, text: str) -> tuple[list[str], list[str]]:
        """The faults of spans and of length, which count first, and the other faults of a translation.

        If the model does not mask markup, the only faults are missing constructs, such as placeholders and tags.
        """
        counts = Counter(self._kept)
        if not text:
            return ["is empty", *(f"lacks {span}" for span in counts)], []
        if self._label:
            hidden = hide(text, [place for _, *place in scan(text).constructs])
            sign = re.search(rf"(?<!\w){self._label}(?=[^\W\d_])", hidden)
            text = text[: sign.start()] + text[sign.end() :] if sign else text
        text = text.replace(AND_OF_XML, " & ") if self._is_xml else text
        if not any(name for _, _, name in self._terms):
            text = TERM.sub(r"\1\2`", text)
        if not self._reader.masks:
            return [f"lacks {span}" for span in counts if text.count(span) < counts[span]], []
        found = scan(text)
        spans = _compare_spans(self._kept, found.spans, text)
        if not spans and self._elements != shape(found):
            spans = ["has links or tags around nothing, or around others"]
        letters, theirs = (sum(map(str.isalpha, side)) for side in (self._rest, found.hidden))
        if letters >= FEW_LETTERS and theirs < SHORTEST * letters:
            spans.append("is much shorter")
        return spans, [*self._other_faults(text, found.hidden.strip())]

    def _other_faults(self, text: str, rest: str) -> Iterator[str]:
        """Faults outside spans, in the ``rest`` of a text: other signs, digits or last sign, no negation and so on."""
        ours, theirs = (side.replace(" & ", " ") for side in (self._plain, text))  # where "&" is a word
        for sign in SIGNS:
            if self._rest.count(sign) != rest.count(sign) and ours.count(sign) != theirs.count(sign):
                yield f"{'lacks' if ours.count(sign) > theirs.count(sign) else 'adds'} {sign}"
        if _numbers(self._plain) != _numbers(text):
            yield "has other numbers"
        for fault, feature in FEATURES:
            if feature(self._rest) != feature(rest):
                yield fault
        if (repeated := REPEATED.search(text)) and not REPEATED.search(self._plain):
            yield f"repeats {repeated[1]}"
        if echoed := ECHOED.search(text):
            beginnings = [word[:STEM].lower() for word in WORD.findall(self._plain)]
            if len({*beginnings}) == len(beginnings):
                yield f"repeats {echoed[1]}"
        for copied in COPIED.finditer(self._plain):
            if copied[0] in text:
                yield f"does not translate {copied[0]}"
        no = self._from.negation.search(self._rest)
        if no and no[0] not in rest and not self._to.may_negate.search(rest):
            yield "has no negation"
        if self._to.negation.search(rest) and not self._from.may_negate.search(self._rest):
            yield "adds a negation"
        words = dict.fromkeys(WORD.findall(text))
        if (known := self._reader.words[0]) is not None:
            stems = {word[:STEM].lower() for word in words}
            for word in dict.fromkeys(WORD.findall(self._rest)):
                if word.islower() and word not in known and word[:STEM] not in stems:
                    yield f"{NEW_WORD}{word}"
        if (known := self._reader.words[1]) is not None:
            own = {word.lower() for word in WORD.findall(self._plain)}
            for word in words:
                if word.lower() not in known and own.isdisjoint([word.lower(), f"{word.lower()}s"]):
                    yield f"has a word that the training text lacks: {word}"


def _numbers(text: str) -> list[str]:
    return sorted(re.findall(r"(?<![\w\\{%$])\d+", THOUSANDS.sub("", text)))


def find_format_faults(source: str, text: str) -> list[str]:
    """The directives that a translation lacks or adds. For gettext, "5% done" has a directive, too: ``% d``."""
    wanted, found = (
        [*(span for span in side.spans if not DIRECTIVE.isdisjoint(span)), *BLANK_DIRECTIVE.findall(side.hidden)]
        for side in map(scan, (source, text))
    )
    return _compare_spans(wanted, found, text)


def _compare_spans(wanted: Sequence[str], found: Sequence[str], text: str) -> list[str]:
    """Which ``wanted`` spans a text lacks, and which spans it adds to them, or whether its directives change places."""
    counts = Counter(wanted)
    faults = [f"lacks {span}" for span in counts if max(found.count(span), text.count(span)) < counts[span]]
    added = (span for span in (Counter(found) - counts).elements() if not NAME.fullmatch(span))
    faults += [f"{NO_WORD if span in SYMBOLS else 'adds '}{span}" for span in added]
    order, other = ([*filter(PRINTF.fullmatch, spans)] for spans in (wanted, found))
    return faults or ["has directives in another order"] * (order != other)


def _find_accelerator(text: str, words: Container[str]) -> int | None:
    """The place of the sign before the key of a menu's label; None if the text is no label or has no such sign.

    A ``_`` inside a word is such a sign if the word without it is one of ``words``.
    """
    end = text.rstrip()[-3:]
    if ("&" not in text and "_" not in text) or (end != "..." and end.endswith((".", "!", "?"))):
        return None
    hidden = hide(text, [place for name, *place in scan(text).constructs if name not in ("bar", "title")])
    inside = [word for word in INSIDE.findall(hidden) if word.replace("_", "").lower() in words]
    found = ACCELERATOR.findall(hidden) or ["_"] * len(inside)
    if len(found) != 1 or hidden.count(found[0]) != 1 or len(text.split()) > LABEL_WORDS[found[0]]:
        return None
    place, rest = hidden.find(found[0]), scan(hidden.replace(found[0], ""))
    if found[0] == "&":  # the & of an address is no label's sign
        around = next((rest.text[start:end] for start, end in rest.kept if start < place < end), "")
        return place if {"/", "="}.isdisjoint(around) else None
    return None if any("\0" not in span for span in rest.spans) else place
