"""A user's terms: words that stay as they are, and words that are always translated in one way."""

import re
from collections.abc import Collection, Mapping
from pathlib import Path

from rnnsearch_fairseq.errors import InputError, quote
from rnnsearch_fairseq.text.lines import read_lines
from rnnsearch_fairseq.text.markup import replace, scan


class Terms:
    """Terms and their translations. A term is a whole word or several; its first letter may also be a capital.

    Before a text is translated, the translation of each term takes its place, and is kept like markup.
    """

    def __init__(self, translations: Mapping[str, str]) -> None:
        capitals = {_capitalize(term): _capitalize(text) for term, text in translations.items()}
        self._translations = capitals | dict(translations)
        self._terms, self.kept = (_any_of(words) for words in (self._translations, self._translations.values()))

    @classmethod
    def read(cls, path: Path) -> "Terms":
        """Read a file with a term to keep in each line, or a term, a tab and its translation."""
        translations = {}
        for number, line in enumerate(read_lines(path), 1):
            term, *translated = (part.strip() for part in line.split("\t"))
            if (term == "" and translated) or len(translated) > 1 or "" in translated:
                raise InputError(f"{path}, line {number}: not a term, or a term, a tab and its translation; mend it")
            text = translated[0] if translated else term
            if term and translations.setdefault(term, text) != text:
                raise InputError(f"{path}, line {number}: {quote(term)} has another translation above; leave out one")
        return cls(translations)

    def put_into(self, text: str) -> str:
        """The text with translations in the place of terms that are no part of markup."""
        terms = [term.span() for term in self._terms.finditer(scan(text).hidden)]
        return replace(text, terms, self._translations.get)


def _capitalize(word: str) -> str:
    return word[:1].upper() + word[1:]


def _any_of(words: Collection[str]) -> re.Pattern[str]:
    alternatives = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    return re.compile(rf"(?<!\w)(?:{alternatives})(?!\w)" if alternatives else r"(?!)")


NO_TERMS = Terms({})
