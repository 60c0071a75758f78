"""A user's terms: words that stay as they are, and words that are always translated in one way."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from rnnsearch_fairseq.errors import InputError, quote
from rnnsearch_fairseq.text.habits import HABITS, Habits
from rnnsearch_fairseq.text.lines import read_lines
from rnnsearch_fairseq.text.markup import replace, scan

SMALL_WORD = re.compile(r"(?<![\w.'’-])[a-z]{3,}(?![\w'’-])")
MIN_SUBJECTS, SUBJECTS_SHARE = 3, 0.002  # clauses with a name as subject: a number, and a share of all texts


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

    def with_names(self, names: Iterable[str]) -> "Terms":
        """These terms, and names that stay as they are unless they are among the terms."""
        return Terms({name: name for name in names} | self._translations)

    def put_into(self, text: str) -> str:
        """The text with translations in the place of terms that are no part of markup."""
        terms = [term.span() for term in self._terms.finditer(scan(text).hidden)]
        return replace(text, terms, self._translations.get)


def find_names(texts: Iterable[str], language: str) -> list[str]:
    """The words that are names in these texts, such as a project's own: "Click supports", "which Click is".

    A name is the subject of several clauses without an article, at the beginning of sentences and inside. A word with a
    capital must be a subject more often than it occurs in small letters. A word in small letters must also begin
    sentences: "uv is".
    """
    subject = HABITS.get(language, Habits()).subject
    if subject is None:  # no text needs to be read
        return []
    first, inside, small = Counter[str](), Counter[str](), Counter[str]()
    number = 0
    for text in texts:
        number += 1
        hidden = scan(text).hidden
        small.update(SMALL_WORD.findall(hidden))
        for found in subject.finditer(hidden):
            (inside if found["first"] is None else first)[found[0]] += 1
    least, times = max(MIN_SUBJECTS, SUBJECTS_SHARE * number), first + inside

    def is_name(word: str) -> bool:
        if word[0].islower():  # "it is" may begin a text, too, but seldom
            return first[word] >= max(MIN_SUBJECTS, inside[word] / 10)
        return times[word] > small[word.lower()]

    return [word for word in first if inside[word] and times[word] >= least and is_name(word)]


def _capitalize(word: str) -> str:
    return word[:1].upper() + word[1:]


def _any_of(words: Collection[str]) -> re.Pattern[str]:
    alternatives = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    return re.compile(rf"(?<!\w)(?:{alternatives})(?!\w)" if alternatives else r"(?!)")


NO_TERMS = Terms({})
