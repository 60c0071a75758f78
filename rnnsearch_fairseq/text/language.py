"""Count the words of scripts without blanks, and notice text that is hardly in the language that a model reads.

The first parts of a text, of 400 letters outside markup, are judged for this: fewer than half of the letters are known
to the model, or translate-toolkit takes each part for the same other language. Of 40 places each in English
documentation, news, captions and Tanaka's sentences none is noticed, and all are in French documentation and news.
"""

import logging
import re
from collections.abc import Container, Iterable

from rnnsearch_fairseq.text.markup import hide_spans

logger = logging.getLogger(__name__)

LETTERS, PARTS = 400, 3
# Thai, Lao, Tibetan, Burmese, Khmer, Japanese kana and Chinese characters. Korean has blanks.
UNSPACED = re.compile(
    "[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f"
    "\U00020000-\U0003ffff]"
)
MIN_UNSPACED_SHARE = 1 / 3  # of a text's characters; names and numbers in Latin letters are common
MAX_BLANKS = 1 / 6  # for each such character; Japanese words have two characters on average, Thai words four


def count_words(text: str) -> float:
    """Number of words; a character of a script without blanks counts as half a word."""
    return len(UNSPACED.sub(" ", text).split()) + len(UNSPACED.findall(text)) / 2


def lacks_blanks(lines: Iterable[str]) -> bool:
    """Whether a text is of a script without blanks, and nothing has put blanks between its words."""
    text = "".join(" ".join(line.split()) for line in lines)
    unspaced, blanks = len(UNSPACED.findall(text)), text.count(" ")
    return unspaced > MIN_UNSPACED_SHARE * (len(text) - blanks) and blanks < MAX_BLANKS * unspaced


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
            text = hide_spans(line).replace("\0", " ")
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
