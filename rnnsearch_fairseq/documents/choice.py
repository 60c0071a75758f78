"""Choose among the translations of a text the first one that keeps what must be kept."""

import re
from collections import Counter
from collections.abc import Container, Sequence
from itertools import pairwise
from typing import NamedTuple

from rnnsearch_fairseq.text.markup import LETTER, find_places, hide_spans, list_spans

# Directives of printf that take the next argument, so that their order counts.
PRINTF = re.compile(r"%[#0+'-]*(?:\d+|\*)?(?:\.(?:\d+|\*)?)?(?:hh?|ll?|[Lqjzt])?[diouxXeEfFgGcCsSaAp@]")
DIRECTIVE = frozenset("%{$")  # each directive has one of these signs
BLANK_DIRECTIVE = re.compile(r"%\s+[a-zA-Z]")  # of printf, too, but nobody means it in "5% done"
ENCLOSING = re.compile(r"[<\[&]|[^\0-\x7f]")  # begins a span that may enclose words with the next one
QUOTED = re.compile(r"(?<!\w)'[^'\n]{1,80}'(?!\w)|\"[^\"\n]*\"|«[^«»\n]*»|“[^“”\n]*”")
ENDS = ".!?:;,…"
SIGNS = "*`[]{}|$\\<>_#=%@+~^"  # of markup and code
ACCELERATOR = re.compile(r"(?<!\w)[&_](?=\w)|(?<=\w)&(?=[a-z])")  # &File, _Open and E&xit
# Of two languages, what a negation is in the source, and what may be one in the translation.
NEGATIONS = {
    ("en", "fr"): (
        r"not?|never|none|nothing|nobody|cannot|without|neither|nor|unable|dis(?:agree|allow)\w*|\w+n['’]t"
        r"|in(?:active|compatible|complete|consistent|correct|secure|sufficient|valid)"
        r"|un(?:authori[sz]ed|available|changed|defined|expected|known|named|readable|safe|supported|used)",
        r"n[e'’]|non|pas|ni|sinon|aucune?s?|jamais|rien|personne|sans|hors|faux|fausse|vide|échec"
        r"|(?:absent|erron|i[lmnr](?!age|de|dic|for|iti|pl|por|sta|ter[^d])\w\w|manqu|mauvais)\w*",
    )
}


class Choice(NamedTuple):
    """A translation and its faults: what it lacks or adds."""

    text: str
    faults: list[str]


class _Parts(NamedTuple):
    """What a translation must keep of a text."""

    spans: list[str]
    adjacent: set[tuple[str, str]]  # tags and the like that follow each other without a word between them
    apart: set[tuple[str, str]]  # those with a word between them
    rest: str  # the text with its spans hidden


def choose(
    source: str, translations: Sequence[str], known: Container[str] | None = None, languages: tuple[str, str] = ("", "")
) -> Choice:
    """The first translation without a fault, or else the first of those that lack the fewest spans and then others.

    Args:
        known: the characters that the model knows; None: all.
        languages: the codes of the source language and the target language.
    """
    found = [(float("inf"), 0, Choice("", ["is empty"]))]
    wanted = _read(source)
    unknown = Counter(list_spans(source, known)) - Counter(wanted.spans)
    for text in filter(None, translations):
        read = _read(text)
        spans = [f"lacks {span}" for span, number in unknown.items() if text.count(span) < number]
        spans += _span_faults(wanted.spans, read.spans)
        others = _other_faults(wanted, read, languages)
        found.append((len(spans), len(others), Choice(text, spans + others)))
        if not spans and not others:
            break
    return min(found, key=lambda rated: rated[:2])[2]


def find_format_faults(source: str, text: str) -> list[str]:
    """The directives that a translation lacks or adds; one is in "5% done" for gettext, but for nobody else."""
    spans = ([one for one in list_spans(side) if not DIRECTIVE.isdisjoint(one)] for side in (source, text))
    blank = (BLANK_DIRECTIVE.findall(hide_spans(side)) for side in (source, text))
    return _span_faults(*map(list.__add__, spans, blank))


def _read(text: str) -> _Parts:
    places = find_places(text)
    spans = [text[start:end] for start, end in places]
    pairs: tuple[set[tuple[str, str]], ...] = set(), set()
    for pair, ((_, last), (start, _)) in zip(pairwise(spans), pairwise(places)):
        if all(map(ENCLOSING.match, pair)):
            pairs[LETTER.search(text, last, start) is not None].add(pair)
    return _Parts(spans, *pairs, hide_spans(text).strip())


def _span_faults(wanted: Sequence[str], found: Sequence[str]) -> list[str]:
    """The spans that a translation lacks or has in addition, or that are in another order though their order counts."""
    faults = [f"lacks {span}" for span in (Counter(wanted) - Counter(found)).elements()]
    faults += [f"adds {span}" for span in (Counter(found) - Counter(wanted)).elements()]
    moved = list(filter(PRINTF.fullmatch, wanted)) != list(filter(PRINTF.fullmatch, found))
    return faults or ["has directives in another order"] * moved


def _other_faults(source: _Parts, text: _Parts, languages: tuple[str, str]) -> list[str]:
    """What a translation does not keep beside spans: words between them, signs, digits, the end, a negation."""
    sides = source.rest, text.rest
    faults = [f"has no word between {' and '.join(pair)}" for pair in source.apart & text.adjacent - source.adjacent]
    faults += [f"has other {sign}" for sign in SIGNS if len({side.count(sign) for side in sides}) > 1]
    if len({"".join(sorted(filter(str.isdigit, side))) for side in sides}) > 1:
        faults.append("has other numbers")
    if len({len(QUOTED.findall(side)) for side in sides}) > 1:
        faults.append("has other quotation marks")
    if len({side[-1:] if side[-1:] in ENDS else "" for side in sides}) > 1:
        faults.append("ends with another sign")
    patterns = zip(NEGATIONS.get(languages, ()), sides)
    negated = [re.search(rf"\b(?:{pattern})\b", side, re.IGNORECASE) is not None for pattern, side in patterns]
    return faults + ["has no negation"] * (negated == [True, False])


def without_accelerator(text: str) -> tuple[str, str]:
    """A label of a menu without the sign before the letter that is its key, and this sign; empty where none is."""
    hidden = hide_spans(text)
    found = ACCELERATOR.search(hidden)
    if found is None or hidden.count(found[0]) != 1:
        return text, ""
    return text[: found.start()] + text[found.end() :], found[0]


def with_accelerator(text: str, mark: str) -> str:
    """The translation of a label with the sign again, before its first letter."""
    letter = LETTER.search(hide_spans(text))
    place = letter.start() if letter else len(text)
    return text[:place] + mark + text[place:]
