"""Notice text that is hardly in the language that a model reads.

The first parts of a text, of 400 letters outside markup, are judged: fewer than half of the letters are known to the
model, or translate-toolkit takes each part for the same other language. Of 40 places each in English documentation,
news, captions and Tanaka's sentences none is taken for another language, and all are in French documentation and news.
"""

import logging
from collections.abc import Container, Iterable
from functools import cache
from typing import Any

from rnnsearch_fairseq.text.markup import hide_spans
from rnnsearch_fairseq.text.scripts import language_code

logger = logging.getLogger(__name__)

LETTERS, PARTS = 400, 3


class LanguageCheck:
    """Reads the beginning of a text, and warns once if it is hardly in the expected ``language``.

    Args:
        where: the text's name.
        known: the characters that the model knows.
    """

    def __init__(self, where: object, language: str, known: Container[str]) -> None:
        self._where, self._language, self._known = where, language, known
        self._part, self._guesses = "", list[str]()

    def read(self, lines: Iterable[str]) -> None:
        """Take further lines."""
        for line in lines:
            if len(self._guesses) == PARTS:
                return
            self._part += " " + hide_spans(line).replace("\0", " ")
            if sum(map(str.isalpha, self._part)) < LETTERS:
                continue
            self._guesses.append(self._guess())
            self._part = ""
            if len(self._guesses) == PARTS and {language_code(self._language)}.isdisjoint(self._guesses):
                self._warn()

    def _guess(self) -> str:
        """The language of a part; "other letters": it has letters that the model does not know; "": no guess."""
        letters = [character for character in self._part if character.isalpha()]
        if 2 * sum(letter in self._known for letter in letters) < len(letters):
            return "other letters"
        return language_code(_identifier().identify_lang(self._part) or "")

    def _warn(self) -> None:
        guess = self._guesses[0]
        if guess and self._guesses == [guess] * PARTS:
            logger.warning(f"{self._where}: is it in {self._language}, which the model reads? it looks like {guess}")


@cache
def _identifier() -> Any:
    from translate.lang.identify import LanguageIdentifier

    return LanguageIdentifier()
