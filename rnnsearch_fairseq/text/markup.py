"""Markup in text: numbered symbols stand for it while a model translates, so that it comes out as it went in.

A span of markup is what a translator copies: ````code````, ``:role:`target```, the target of a titled link, a URL, a
tag, ``|substitution|``, ``%s``, ``%(name)s``, ``{name}``, ``[1]_`` or ``&amp;``. The first of a text becomes ⟦1⟧, the
second ⟦2⟧; equal spans have one number.
"""

import re
from collections.abc import Sequence

MOST_SPANS = 9  # of a text; later ones stay text
SYMBOLS = [f"⟦{number}⟧" for number in range(1, MOST_SPANS + 1)]
SPAN = re.compile(
    r"""
    ⟦\d⟧                                              # text that looks like a symbol
    | ``(?:[^`]|`(?!`))+``                            # ``code``
    | (?::[a-zA-Z][\w.+-]{0,40}){1,3}:`[^`<>]+`       # :role:`target`
    | (?<=\s)<[^<>`\s]+>(?=`)                         # the target of :role:`title <target>` and `title <URL>`_
    | </?[a-zA-Z](?:[^<>"']|"[^"<]*"|'[^'<]*'|["'](?=[^<>]*>))*>   # a tag, or <URL>
    | (?:https?|ftp)://[^\s<>`"')\]]*[\w/#]
    | \|[\w.-]+\|                                     # |substitution|
    | %\(\w+\)[#0\ +-]{0,3}[\d.]{0,5}[diouxXeEfFgGcrsa]   # %(name)s
    | %[#0+-]{0,3}\d{0,3}(?:\.\d{1,3})?[diouxXeEfFgGcrsa](?!\w)   # %s
    | \{\w*(?:[.\[!:][^{}\s]*)?\}                     # {name}
    | \[(?:\d+|\#\w*|\*)\]_                           # [1]_ and [#name]_
    | &\#?\w+;
    """,
    re.VERBOSE,
)
_SYMBOL = re.compile(r"\s?⟦(\d)⟧")


def find_spans(text: str) -> list[str]:
    """The different spans of markup in a text that have symbols, in the order of their numbers."""
    return list(dict.fromkeys(SPAN.findall(text)))[:MOST_SPANS]


def mask(text: str, spans: Sequence[str]) -> str:
    """Replace each of the ``spans`` in ``text`` by its symbol; other markup stays."""
    symbols = dict(zip(spans, SYMBOLS))
    return SPAN.sub(lambda match: symbols.get(match[0], match[0]), text)


def mask_pair(source: str, target: str) -> tuple[str, str]:
    """Replace the spans that both sides have by symbols, numbered as they stand in ``source``."""
    kept = set(SPAN.findall(target))
    spans = [span for span in dict.fromkeys(SPAN.findall(source)) if span in kept][:MOST_SPANS]
    return mask(source, spans), mask(target, spans)


def unmask(text: str, spans: Sequence[str]) -> str:
    """Put the ``spans`` in the place of their symbols; a symbol that stands for none is left out."""

    def span(match: re.Match[str]) -> str:
        number = int(match[1])
        return match[0].replace(match[0].lstrip(), spans[number - 1]) if 0 < number <= len(spans) else ""

    return _SYMBOL.sub(span, text)


def same_markup(source: str, target: str) -> bool:
    """Whether two texts have the same spans of markup, each equally often."""
    return sorted(SPAN.findall(source)) == sorted(SPAN.findall(target))
