"""Write the pairs of texts of Markdown pages and their translations, as ``rnnsearch translate`` reads such pages.

``python -m recipes.docs_en_fr.markdown_pages ENGLISH FRENCH OUT``

ENGLISH and FRENCH are folders of pages with the same names; OUT gets a table, English TAB French. The texts of two
pages are aligned in order. Left out are pairs that differ much in length, or have other tags, links or numbers of code.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from math import log
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rnnsearch_fairseq.command_line import program
from rnnsearch_fairseq.corpus.rows import write_rows
from rnnsearch_fairseq.documents.markdown import read_markdown

SIGN = re.compile(r"`[^`]*`|<[^<>]*>|\d+|\b[A-Z][A-Za-z]*[A-Z]\w*")  # a translation has them, too
LINK = re.compile(r"\]\((?:/(?:en|fr)(?=/))?([^)\s#]*)")
FRENCH = re.compile(
    r"\b(le|la|les|de|des|du|un|une|et|est|pour|dans|en|vous|sur|avec|par|ce|que|qui|au|aux|à|l'|d')\b|[éèêàçùôî]", re.I
)
APART, MIN_SCORE = -0.5, 0.6  # the score of a text without a translation, and the least score of a pair


class Text(NamedTuple):
    text: str
    is_heading: bool
    links: list[str]
    signs: Counter[str]

    @property
    def tags(self) -> Counter[str]:
        """How often the text has each tag, and code."""
        return Counter("`" if sign[0] == "`" else sign for sign in self.signs.elements() if sign[0] in "`<")


def read_texts(page: Path) -> list[Text]:
    """The texts of a page, in order."""
    document, texts = read_markdown(page.read_bytes()), []
    for unit in document.units:
        place, text, around = (unit.fill.args[number] for number in (0, 1, 4))
        links = LINK.findall(document.store.content[slice(*place)].decode())
        texts.append(Text(text, around[0] != "", links, Counter(SIGN.findall(text))))
    return texts


def rate(english: Text, french: Text) -> float:
    """How likely two texts are translations: by their lengths, their signs and whether both are headings."""
    length = log((len(english.text) + 8) / (len(french.text) / 1.15 + 8))
    most = max(english.signs.total(), french.signs.total())
    signs = 1.6 * (english.signs & french.signs).total() / most - 0.8 if most else 0.1
    return 1.2 - 2 * abs(length) + signs + (0.4 if english.is_heading == french.is_heading else -1)


def align(english: Sequence[Text], french: Sequence[Text]) -> Iterator[tuple[Text, Text]]:
    """The pairs of texts in order whose scores, with those of the texts left over, have the greatest sum."""
    scores = np.array([[rate(text, other) for other in french] for text in english]).reshape(len(english), len(french))
    best = APART * np.add.outer(np.arange(len(english) + 1), np.arange(len(french) + 1))
    for i, j in np.ndindex(scores.shape):
        best[i + 1, j + 1] = max(best[i, j] + scores[i, j], best[i, j + 1] + APART, best[i + 1, j] + APART)
    i, j = scores.shape
    while i and j:
        if best[i, j] == best[i - 1, j - 1] + scores[i - 1, j - 1]:
            i, j = i - 1, j - 1
            if scores[i, j] >= MIN_SCORE:
                yield english[i], french[j]
        else:
            i, j = (i - 1, j) if best[i, j] == best[i - 1, j] + APART else (i, j - 1)


def are_translations(english: Text, french: Text) -> bool:
    """Whether two aligned texts are a pair to learn from."""
    words, other = len(english.text.split()), len(french.text.split())
    fits = words <= 150 and 0.5 <= (other + 2) / (words + 2) <= 2.2 and english.text != french.text
    fits &= {*"\t\n"}.isdisjoint(english.text + french.text) and (other < 5 or FRENCH.search(french.text) is not None)
    return fits and english.tags == french.tags and (len(english.links) < 2 or english.links == french.links)


@program
def main() -> None:
    ours, theirs, out = map(Path, sys.argv[1:])
    found = [(ours / page.relative_to(theirs), page) for page in sorted(theirs.rglob("*.md*"))]
    pages = (align(read_texts(page), read_texts(other)) for page, other in found if page.is_file())
    pairs = {(pair[0].text, pair[1].text): None for page in pages for pair in page if are_translations(*pair)}
    write_rows([out], (("\t".join(pair),) for pair in sorted(pairs)))
