"""Cut long texts into sentences, since a model leaves out parts of a text that is longer than its training sentences.

The model of recipes/docs_en_fr loses 6 BLEU on texts of 100 words that it translates whole, and 26 on texts of 160.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TypeVar

from rnnsearch_fairseq.text.markup import hide_spans

Item = TypeVar("Item")

MAX_WORDS = 40  # of a text that stays whole; from 40 to 100 words, cut or not makes no difference
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


def cut_sentences(text: str) -> list[str]:
    """The sentences of a text of more than MAX_WORDS words, with the blanks behind them, or else the whole text."""
    if count_words(text) <= MAX_WORDS:
        return [text]
    ends = [match.end() for match in SENTENCE_END.finditer(hide_spans(text))]
    return [text[start:end] for start, end in pairwise([0, *ends, len(text)])]


def combine(translations: Sequence[Sequence[Item]]) -> list[tuple[Item, ...]]:
    """The best translations of all sentences, then the second best; a sentence that has fewer keeps its last one."""
    longest = max(map(len, translations), default=1)
    return [tuple(several[min(place, len(several) - 1)] for several in translations) for place in range(longest)]
