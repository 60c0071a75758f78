"""Notice text that is hardly in the language that a model reads.

The first three parts of a text, each of 400 letters outside markup, decide. There is a doubt if the model knows fewer
than half of the letters, or if translate-toolkit takes all three parts for the same other language. In samples of 40
places each, English documentation, news, captions and Tanaka's sentences raised no doubt; French documentation and news
always did.
"""

import logging
import re
from collections.abc import Container, Iterable

from rnnsearch_fairseq.text.markup import scan

logger = logging.getLogger(__name__)

LETTERS, PARTS = 400, 3


def language_code(language: str) -> str:
    """The language without its region: ``en`` for ``en_GB``."""
    return re.split("[-_@]", language.lower())[0]


class LanguageCheck:
    """Reads the beginning of a text, and warns once if it is hardly in the expected ``language``.

    Args:
        where: the text's name.
        known: the characters that the model knows.
    """

    def __init__(self, where: object, language: str, known: Container[str]) -> None:
        self._where, self._language, self._known = where, language, known
        self._part, self._letters, self._guesses = "", list[str](), list[str]()

    def read(self, lines: Iterable[str]) -> None:
        """Take further lines."""
        for line in lines:
            if len(self._guesses) == PARTS:
                return
            text = scan(line).hidden.replace("\0", " ")
            if letters := list(filter(str.isalpha, text)):
                self._letters += letters
                self._part += f" {text}"
            if len(self._letters) < LETTERS:
                continue
            if 2 * sum(letter in self._known for letter in self._letters) < len(self._letters):
                guess = "other letters"
            else:
                from translate.lang.identify import LanguageIdentifier

                guess = language_code(LanguageIdentifier().identify_lang(self._part) or "")  # empty: no guess
            self._guesses.append(guess)
            self._part, self._letters = "", []
            if guess not in ("", language_code(self._language)) and self._guesses == [guess] * PARTS:
                doubt = f"is it in {self._language}, which the model reads? it looks like {guess}"
                logger.warning(f"{self._where}: {doubt}")
