"""Notice text that is hardly in the language that is expected.

py3langid judges parts of 30 letters or more, outside markup. Of 106,684 parts of 42 corpora (English, French, Japanese:
labels, captions, news, manuals), it takes at most 0.3 % of a corpus for another language with a probability of 0.9 or
more, and three adjacent parts only once.
"""

import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice
from typing import Any

from rnnsearch_fairseq.errors import InputError, quote
from rnnsearch_fairseq.text.markup import scan

logger = logging.getLogger(__name__)

LETTERS, MIN_PROBABILITY = 30, 0.9
PARTS = 3  # of a text to translate
MIN_PARTS, MIN_SHARE = 5, 0.03  # of a corpus, in another language
NO_LANGUAGE = "zxx"  # py3langid's class of numbers and code
LANGUAGE = re.compile("[A-Za-z]{2,3}(?:[-_@].*)?")


def language_code(language: str) -> str:
    """The language without its region: ``en`` for ``en_GB``."""
    return re.split("[-_@]", language.lower())[0]


def check_language(language: str) -> None:
    """Raise an InputError unless this is a code of a language; the message has the code of a name in English."""
    if LANGUAGE.fullmatch(language):
        return
    from translate.lang.data import languages

    codes = [code for code, names in languages.items() if language.lower() in re.split("[ ,;()]+", names[0].lower())]
    example = min(codes, key=len, default="en")
    raise InputError(f"{quote(language)}: not the code of a language; give its two or three letters, as {example}")


@lru_cache(1)
def _load_identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def cut_parts(lines: Iterable[str]) -> Iterator[str]:
    """Yield parts of `LETTERS` letters or more; a rest with fewer is left out."""
    part = ""
    for line in lines:
        part += " " + scan(line).hidden.replace("\0", " ")
        if sum(map(str.isalpha, part)) >= LETTERS:
            yield part
            part = ""


def guess_languages(parts: Iterable[str], expected: str) -> Iterator[str]:
    """Yield the code of each part's language, if it is clear; none if py3langid does not know the ``expected`` one."""
    for part in parts:
        if language_code(expected) not in _load_identifier().labels:
            return
        language, probability = _load_identifier().classify(part)
        if language != NO_LANGUAGE and probability >= MIN_PROBABILITY:
            yield language


def find_other_languages(lines: Iterable[str], expected: str) -> str:
    """Say which other languages a corpus holds; empty if it holds hardly any."""
    counts = Counter(guess_languages(cut_parts(lines), expected))
    others = [(language, count) for language, count in counts.most_common() if language != language_code(expected)]
    number = sum(count for _, count in others)
    if number < max(MIN_PARTS, MIN_SHARE * counts.total()):
        return ""
    names = ", ".join(f"{count} like {language}" for language, count in others[:3])
    return f"of {counts.total():,} places in the {expected} text, {number:,} look like other languages ({names})"


class LanguageCheck:
    """Reads the beginning of a text to translate, and warns once if it is hardly in the expected ``language``.

    Args:
        where: the text's name.
    """

    def __init__(self, where: object, language: str) -> None:
        self._where, self._language = where, language
        self._parts, self._guesses = list[str](), list[str]()

    def read(self, lines: Iterable[str]) -> None:
        """Take further lines."""
        if len(self._guesses) == PARTS:
            return
        self._parts += cut_parts(lines)
        if len(self._guesses) + len(self._parts) < PARTS:  # a sentence is translated before py3langid is loaded
            return
        self._guesses += islice(guess_languages(self._parts, self._language), PARTS - len(self._guesses))
        self._parts = []
        guess = self._guesses[0] if self._guesses else ""
        if guess != language_code(self._language) and self._guesses == [guess] * PARTS:
            doubt = f"is it in {self._language}, which the model reads? it looks like {guess}"
            logger.warning(f"{self._where}: {doubt}")
