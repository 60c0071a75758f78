"""What is particular to a language: its negations, its typography, and the words after which a count stands."""

import re
from dataclasses import dataclass, field

NO_BREAK = "\u00a0"


@dataclass(frozen=True)
class Habits:
    """The habits of one language; of a language without an entry nothing is known, and nothing is checked.

    Attributes:
        negations: words that negate, with ``*`` for any letters; in the target they are all words that may do so.
        spaced: signs before which a no-break space stands.
        quotes: quotation marks inside which a no-break space stands.
        counted: words before which a number stands.
    """

    negations: tuple[str, ...] = ()
    spaced: str = ""
    quotes: tuple[str, str] | None = None
    counted: frozenset[str] = frozenset()
    _pattern: re.Pattern[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        words = "|".join(word.replace("*", r"\w*").replace("'", "['’]") for word in self.negations)
        object.__setattr__(self, "_pattern", re.compile(rf"\b(?:{words})(?!\w)" if words else "(?!)", re.IGNORECASE))

    def typeset(self, text: str) -> str:
        """The text with the no-break spaces of the language."""
        if self.spaced:
            signs = f"[{re.escape(self.spaced)}]"
            text = re.sub(rf"(?<=\S) ?(?=(?:{signs}+)(?:[\s*_)\]»\"']|$))(?<!{signs})", NO_BREAK, text)
        if self.quotes:
            first, last = self.quotes
            text = re.sub(rf"{first} ?(?=\S)", first + NO_BREAK, re.sub(rf"(?<=\S) ?{last}", NO_BREAK + last, text))
        return text

    def negates(self, text: str) -> bool:
        """Whether a text has a negation."""
        return self._pattern.search(text) is not None


ENGLISH = """no not never none nothing nobody cannot without neither nor unable disagree* disallow* *n't inactive
incompatible incomplete inconsistent incorrect insecure insufficient invalid unauthorised unauthorized unavailable
unchanged undefined unexpected unknown unnamed unreadable unsafe unsupported unused"""
COUNTED = """bytes characters comments days digits documents elements entries errors files folders hours images items
lines messages minutes months objects options pages pixels points records results rows seconds times users warnings
weeks words years"""
FRENCH = """ne n' non pas ni sinon aucun* jamais rien personne sans hors faux fausse* vide* échec* absent* erron* manqu*
mauvais* désactiv* désapprouv* illégal* illisible* immua* impossible* imprév* inacc* inact* inattend* inchang* incoh*
incompat* incompl* inconn* incorrect* indéfini* indéterm* indisponible* inexist* inférieur* insuffis* interdi* introuv*
inutil* invalid* irrécup*"""
HABITS = {
    "en": Habits(tuple(ENGLISH.split()), counted=frozenset(COUNTED.split())),
    "fr": Habits(tuple(FRENCH.split()), spaced=":;!?", quotes=("«", "»")),
}
UNKNOWN = Habits()
