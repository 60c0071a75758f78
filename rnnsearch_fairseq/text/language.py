"""Notice text that is hardly in the language that is expected.

py3langid judges parts of 30 letters or more, outside markup. Of 106,684 parts of 42 corpora (English, French, Japanese:
labels, captions, news, manuals), it takes at most 0.3 % of a corpus for another language with a probability of 0.9 or
more.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice
from typing import Any

from rnnsearch_fairseq.errors import InputError, quote
from rnnsearch_fairseq.text.markup import scan

MAX_LINES = 500
LETTERS, MIN_PROBABILITY = 30, 0.9
MIN_PARTS, MIN_SHARE = 3, 0.03  # of a text, in another language
NO_LANGUAGE = "zxx"  # py3langid's class of numbers and code
LANGUAGE = re.compile("[A-Za-z]{2,3}(?:[_@][^-]+)?")  # fairseq finds files by "-" between two codes


def language_code(language: str) -> str:
    """The language without its region: ``en`` for ``en_GB``."""
    return re.split("[-_@]", language.lower())[0]


def check_language(language: str) -> None:
    """Raise an InputError unless this is a code of a language."""
    if not LANGUAGE.fullmatch(language):
        raise InputError(f"{quote(language)}: not the code of a language; give it as en or pt_BR")


def find_other_languages(lines: Iterable[str], expected: str) -> str:
    """Say which other languages the beginning of a text holds.

    The answer is empty if the text has hardly any text in other languages, if the text is too short, or if py3langid
    does not know the ``expected`` language.
    """
    parts = [*_cut_parts(islice(lines, MAX_LINES))]
    if len(parts) < MIN_PARTS or language_code(expected) not in _load_identifier().labels:
        return ""
    judged = map(_load_identifier().classify, parts)
    counts = Counter(name for name, probability in judged if name != NO_LANGUAGE and probability >= MIN_PROBABILITY)
    total = counts.total()
    counts.pop(language_code(expected), None)
    if counts.total() < max(MIN_PARTS, MIN_SHARE * total):
        return ""
    names = ", ".join(f"{count:,} like {language}" for language, count in counts.most_common(3))
    return f"of {total:,} samples of the {expected} text, {counts.total():,} look like other languages ({names})"


def _cut_parts(lines: Iterable[str]) -> Iterator[str]:
    """Yield parts of `LETTERS` letters or more; a rest with fewer is left out."""
    part = ""
    for line in lines:
        part += " " + scan(line).hidden.replace("\0", " ")
        if sum(map(str.isalpha, part)) >= LETTERS:
            yield part
            part = ""


@lru_cache(1)
def _load_identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
