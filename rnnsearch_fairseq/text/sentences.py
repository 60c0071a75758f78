"""Ends of sentences, and words of scripts with and without blanks."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[^\W\d_a-zß-ÿ]|[`:*(\0])|(?<=[。！？])(?=.)")
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


def combine(translations: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """The best translations of all sentences, then the second best; a sentence that has fewer keeps its last one."""
    longest = max(map(len, translations), default=1)
    return [tuple(several[min(place, len(several) - 1)] for several in translations) for place in range(longest)]
