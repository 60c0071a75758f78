"""Choose among the translations of a text the first one that keeps what must be kept."""

import re
from collections import Counter
from collections.abc import Container, Sequence
from typing import NamedTuple

from rnnsearch_fairseq.text.markup import LETTER, hide_spans, list_spans

# Directives of printf that take the next argument, so that their order counts.
PRINTF = re.compile(r"%[#0+'-]*(?:\d+|\*)?(?:\.(?:\d+|\*)?)?(?:hh?|ll?|[Lqjzt])?[diouxXeEfFgGcCsSaAp@]")
QUOTED = re.compile(r"(?<!\w)'[^'\n]{1,80}'(?!\w)|\"[^\"\n]*\"|«[^«»\n]*»|“[^“”\n]*”")
ENDS = ".!?:;,…"
SIGNS = "*`[]{}|$\\<>_#=%@+~^"  # of markup and code
ACCELERATOR = re.compile(r"(?<!\w)[&_](?=\w)|(?<=\w)&(?=[a-z])")  # &File, _Open and E&xit


class Choice(NamedTuple):
    """A translation and its faults: what it lacks or adds."""

    text: str
    faults: list[str]


def choose(source: str, translations: Sequence[str], known: Container[str] | None = None) -> Choice:
    """The first translation without a fault, or else the first of those that lack the fewest spans and then signs."""
    found = [(float("inf"), 0, Choice("", ["is empty"]))]
    for text in filter(None, translations):
        spans, others = find_span_faults(source, text, known), find_other_faults(source, text)
        found.append((len(spans), len(others), Choice(text, spans + others)))
        if not spans and not others:
            break
    return min(found, key=lambda rated: rated[:2])[2]


def find_span_faults(source: str, text: str, known: Container[str] | None = None) -> list[str]:
    """The spans that a translation lacks or has in addition, or that are in another order though their order counts."""
    expected, found = Counter(list_spans(source)), Counter(list_spans(text))
    faults = [f"lacks {span}" for span in (expected - found).elements()]
    unknown = Counter(list_spans(source, known)) - expected
    faults += [f"lacks {span}" for span, number in unknown.items() if text.count(span) < number]
    faults += [f"adds {span}" for span in (found - expected).elements()]
    sequences = [[span for span in list_spans(side) if PRINTF.fullmatch(span)] for side in (source, text)]
    if not faults and sequences[0] != sequences[1]:
        faults.append("has directives in another order")
    return faults


def find_other_faults(source: str, text: str) -> list[str]:
    """What a translation does not keep of a text beside its spans: markup, digits and the punctuation at the end."""
    sides = [hide_spans(side).strip() for side in (source, text)]
    faults = [f"has other {sign}" for sign in SIGNS if len({side.count(sign) for side in sides}) > 1]
    if len({"".join(sorted(filter(str.isdigit, side))) for side in sides}) > 1:
        faults.append("has other numbers")
    if len({len(QUOTED.findall(side)) for side in sides}) > 1:
        faults.append("has other quotation marks")
    if len({side[-1:] if side[-1:] in ENDS else "" for side in sides}) > 1:
        faults.append("ends with another sign")
    return faults


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
