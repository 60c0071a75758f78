"""Notice text that is hardly in the language that a model reads.

Two measures: fewer than half of the letters are known to the model; or translate-toolkit's profiles of languages (the
ranks of the 400 most frequent groups of one to four letters) are nearer for another language by more than 8 %. On parts
of English documentation, news, captions and taught sentences with 200 to 1,000 letters, it was 7 % at most; of files in
French, over nine in ten are noticed.
"""

import logging
from collections.abc import Container, Iterable
from functools import cache
from typing import Any

from rnnsearch_fairseq.text.markup import hide_spans
from rnnsearch_fairseq.text.scripts import language_code

logger = logging.getLogger(__name__)

MIN_LETTERS, MAX_LETTERS = 200, 1000  # fewer are not judged, and further ones are not read
MAX_RATIO = 1.08  # of the distance from the expected language to that from the nearest one


class LanguageCheck:
    """Reads the beginning of a text, part by part, and warns once if it is hardly in the expected ``language``."""

    def __init__(self, where: object, language: str, known: Container[str]) -> None:
        self.where, self.language, self.known = where, language, known  # the characters that the model knows
        self.text, self.letters, self.finished = "", 0, False

    def read(self, lines: Iterable[str]) -> None:
        """Take further lines."""
        if self.finished:
            return
        for line in lines:
            if self.letters < MAX_LETTERS:
                line = hide_spans(line).replace("\0", " ")
                self.text += f" {line}"
                self.letters += sum(map(str.isalpha, line))
        doubt = self._doubt() if self.letters >= MIN_LETTERS else None
        self.finished = doubt is not None or self.letters >= MAX_LETTERS
        if doubt is not None:
            logger.warning(f"{self.where}: is it in {self.language}, which the model reads? {doubt}")

    def _doubt(self) -> str | None:
        """Why the text is hardly in the language; None if nothing speaks against it."""
        if 2 * sum(one.isalpha() and one in self.known for one in self.text) < self.letters:
            return "the model does not know most of its letters"
        profiles = _profiles()
        expected = profiles.get(language_code(self.language))
        if expected is None:
            return None
        profile = type(expected)(self.text)
        nearest = min(profiles, key=lambda code: profiles[code].compare(profile))
        if expected.compare(profile) > MAX_RATIO * profiles[nearest].compare(profile):
            return f"it looks like {nearest}"
        return None


@cache
def _profiles() -> dict[str, Any]:
    """The profile of each language by its code, of those that translate-toolkit brings."""
    from translate.lang.identify import LanguageIdentifier

    identifier = LanguageIdentifier()
    return {language_code(identifier._lang_codes.get(name, name)): one for name, one in identifier.ngram.ngrams.items()}
