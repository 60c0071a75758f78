"""The words of the grammar, which are in lexicon.txt, and their forms."""

from dataclasses import dataclass
from pathlib import Path


def _read_sections(path: Path) -> dict[str, list[list[str]]]:
    """The rows of each section of the lexicon; a row is a list of columns."""
    sections: dict[str, list[list[str]]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            rows = sections.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            rows.append([column.strip() for column in line.split("|")])
    return sections


SECTIONS = _read_sections(Path(__file__).with_name("lexicon.txt"))
NAMES, CITIES, TITLES = SECTIONS["names"], SECTIONS["cities"], SECTIONS["titles"]
SUBJECT_PRONOUNS, OBJECT_PRONOUNS = SECTIONS["subject pronouns"], SECTIONS["object pronouns"]
SPEECH, TIMES, SUBORDINATORS = SECTIONS["verbs of speech"], SECTIONS["times"], SECTIONS["subordinators"]
CONTRACTIONS = {tuple(words.split()): merged for words, merged in SECTIONS["contractions"]}
ELISIONS = dict(SECTIONS["before a vowel"])
BEFORE_VOWEL = dict(SECTIONS["determiners before a vowel"])
# je, il, nous, vous, ils
AUXILIARIES = {name: forms.split() for name, forms in SECTIONS["auxiliaries"]}
ENDINGS = {ending: [form.strip("-") for form in forms.split()] for ending, forms in SECTIONS["endings"]}


def starts_with_vowel(word: str) -> bool:
    """Whether a French word takes elision before it. Every initial "h" of this lexicon is mute."""
    return word[0].lower() in "aàâeéèêiîoôœuûh"


def english_plural(noun: str) -> str:
    """The regular plural of an English noun."""
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(("s", "x", "ch", "sh")) else "s")


def french_plural(word: str) -> str:
    """The plural of a French noun, adjective or participle."""
    if word.endswith(("s", "x")):
        return word
    if word.endswith("al"):
        return word[:-1] + "ux"
    return word + ("x" if word.endswith("eau") else "s")


def agree_participle(participle: str, gender: str, plural: bool) -> str:
    """A French past participle in agreement with a gender and number."""
    form = participle + ("e" if gender == "f" else "")
    return french_plural(form) if plural else form


@dataclass(frozen=True)
class Noun:
    """A noun; `english` and `french` are (singular, plural)."""

    english: tuple[str, str]
    french: tuple[str, str]
    gender: str
    kinds: tuple[str, ...]

    @classmethod
    def read(cls, english: str, french: str, gender: str, kinds: str) -> "Noun":
        singular, *irregular = english.split()
        plural = irregular[0] if irregular else english_plural(singular)
        return cls((singular, plural), (french, french_plural(french)), gender, tuple(kinds.split()))


@dataclass(frozen=True)
class Adjective:
    """An adjective; `french` is (masculine, feminine, masculine before a vowel), all singular."""

    english: str
    french: tuple[str, str, str]
    before_noun: bool
    kinds: tuple[str, ...]

    @classmethod
    def read(cls, english: str, french: str, place: str, kinds: str) -> "Adjective":
        masculine, feminine, *before_vowel = french.split()
        forms = (masculine, feminine, before_vowel[0] if before_vowel else masculine)
        return cls(english, forms, place == "before", tuple(kinds.split()))

    def agree(self, gender: str, plural: bool, next_word: str = "") -> str:
        """The French form for a gender and number, and for the word it precedes if it precedes one."""
        masculine, feminine, before_vowel = self.french
        form = feminine if gender == "f" else masculine
        if plural:
            return french_plural(form)
        return before_vowel if gender == "m" and next_word and starts_with_vowel(next_word) else form


@dataclass(frozen=True)
class Verb:
    """A verb; `present` is je, il, nous, vous, ils; `preposition` the English one that belongs to it, or ""."""

    base: str
    third: str
    past: str
    preposition: str
    infinitive: str
    present: tuple[str, ...]
    participle: str
    frame: str
    subjects: tuple[str, ...]
    objects: tuple[str, ...]

    @classmethod
    def read(cls, english: str, french: str, frame: str, subjects: str, objects: str) -> "Verb":
        base, third, past, *preposition = english.split()
        infinitive, *forms = french.split()
        *present, participle = forms or [infinitive[:-2] + ending for ending in ENDINGS[infinitive[-2:]]]
        kinds = tuple(subjects.split()), tuple(objects.split())
        return cls(base, third, past, "".join(preposition), infinitive, tuple(present), participle, frame, *kinds)

    @property
    def takes_etre(self) -> bool:
        """Whether the French "passé composé" is formed with "être", so that the participle agrees with the subject."""
        return self.frame in ("motion", "goal")


@dataclass(frozen=True)
class Determiner:
    """A determiner; `french` is (masculine, feminine, plural), "" where the English word has no such number."""

    english: str
    tag: str
    french: tuple[str, ...]
    kinds: tuple[str, ...]
    weight: int

    @classmethod
    def read(cls, english: str, tag: str, french: str, kinds: str, weight: str) -> "Determiner":
        forms = tuple(form.strip("-").replace("_", " ") for form in french.split())
        return cls(english, tag, forms, tuple(kinds.split()), int(weight))

    def agree(self, gender: str, plural: bool, next_word: str) -> str:
        """The French form for a noun, and for the word that follows the determiner."""
        form = self.french[2] if plural else self.french["mf".index(gender)]
        return BEFORE_VOWEL.get(form, form) if starts_with_vowel(next_word) else form


NOUNS = [Noun.read(*row) for row in SECTIONS["nouns"]]
ADJECTIVES = [Adjective.read(*row) for row in SECTIONS["adjectives"]]
VERBS = [Verb.read(*row) for row in SECTIONS["verbs"]]
DETERMINERS = [Determiner.read(*row) for row in SECTIONS["determiners"]]
WEIGHTED_DETERMINERS = [determiner for determiner in DETERMINERS for _ in range(determiner.weight)]
DEFINITE = [d for d in WEIGHTED_DETERMINERS if d.tag == "PRP$" or d.english in ("the", "this", "these")]
ANY = Determiner("any", "DT", ("", "", "de"), ("all",), 1)  # plural indefinite under negation
THE = DETERMINERS[0]

_ONSETS = ["b", "br", "c", "d", "dr", "f", "g", "gr", "k", "l", "m", "n", "p", "r", "s", "t", "tr", "v", "z"]
_RIMES = ["a", "an", "ar", "e", "el", "en", "i", "in", "ir", "o", "ol", "on", "or", "u", "ul"]
_SYLLABLES = [onset + rime for onset in _ONSETS for rime in _RIMES]
RARE_NAMES = len(_SYLLABLES) ** 3


def rare_name(rank: int) -> str:
    """The invented name of a frequency rank (from 0 on): two syllables for the first 81,225 ranks, then three."""
    base = len(_SYLLABLES)
    syllables = 2 if rank < base**2 else 3
    # Neighbouring ranks should not look alike. 7919 is prime and no factor of the base, so no two ranks share a name.
    number = (rank + 1) * 7919 % base**syllables
    spelling = ""
    for _ in range(syllables):
        number, digit = divmod(number, base)
        spelling += _SYLLABLES[digit]
    return spelling.capitalize()
