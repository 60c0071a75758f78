"""Scripts and languages: count words where no blanks are between, and recognise such text and text of a language."""

import re
from collections import Counter
from collections.abc import Iterable

# Thai, Lao, Tibetan, Burmese, Khmer, Japanese kana and Chinese characters. Korean has blanks.
UNSPACED = re.compile(
    "[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f"
    "\U00020000-\U0003ffff]"
)
MIN_UNSPACED_SHARE = 1 / 3  # of a text's characters; names and numbers in Latin letters are common
MAX_BLANKS = 1 / 6  # for each such character; Japanese words have two characters on average, Thai words four

# Some of the commonest words of a language; of Japanese, Chinese and Thai, characters.
COMMON_WORDS = {
    "ar": "في من على إلى أن التي هذا عن مع لا",
    "de": "der die und das ist den nicht ein zu mit von eine auf im",
    "en": "the of and to is that for it you with are this on a in",
    "es": "de la que el los las una por para con es del",
    "fr": "de la le les et des est une pour dans du qui un",
    "it": "di che il la per un è non del della una sono",
    "ja": "の は に を で が と し て",
    "ko": "이 그 수 있는 있다 것은 및 한 또는 등",
    "nl": "de het een van dat niet zijn op te met voor wordt",
    "pt": "de que o os um uma para com não do da em",
    "ru": "и в не на что с по это как я",
    "th": "ก า น ร เ",
    "zh": "的 是 了 不 我 在 有 这 這 一",
}
WORD = re.compile(rf"{UNSPACED.pattern}|[^\W\d_]+")
MIN_WORDS = 200  # of a text whose language is judged
MIN_COMMON_SHARE = 0.02  # of a text's words; in most languages these are 10 to 30 %


def count_words(text: str) -> float:
    """Number of words; a character of a script without blanks counts as half a word."""
    return len(UNSPACED.sub(" ", text).split()) + len(UNSPACED.findall(text)) / 2


def lacks_blanks(lines: Iterable[str]) -> bool:
    """Whether a text is of a script without blanks, and nothing has put blanks between its words."""
    characters = unspaced = blanks = 0
    for line in lines:
        words = line.split()
        characters += sum(map(len, words))
        blanks += max(len(words) - 1, 0)
        unspaced += len(UNSPACED.findall(line))
    return unspaced > MIN_UNSPACED_SHARE * characters and blanks < MAX_BLANKS * unspaced


def language_code(language: str) -> str:
    """The language without its region: ``en`` for ``en_GB``."""
    return re.split("[-_@]", language.lower())[0]


def lacks_common_words(lines: Iterable[str], language: str) -> bool:
    """Whether a text lacks the commonest words of its language; False if it is short, or if they are unknown."""
    counts = Counter(word for line in lines for word in WORD.findall(line.casefold()))
    common = COMMON_WORDS.get(language_code(language), "").split()
    share = sum(counts[word] for word in common) / max(counts.total(), 1)
    return bool(common) and counts.total() >= MIN_WORDS and share < MIN_COMMON_SHARE
