"""What is particular to a language: negations, typography, words before which counts stand, dates and subjects."""

import re
from collections.abc import Callable
from typing import NamedTuple


class Habits(NamedTuple):
    """The habits of one language. If a language has no entry, nothing is known about it, and nothing is checked.

    Attributes:
        negation: finds a negation.
        may_negate: finds a negation, or a word that other languages translate with one.
        typography: patterns, and what is written in the place of each.
        counted: words before which a number stands.
        has_capital_nouns: nouns begin with capitals, not only names.
        has_accents: words have other letters than a to z, not only names.
        subject: finds a word before a verb, in the group ``first`` if it begins a sentence.
        write_out: replaces short names of months in dates by full names, which training text has more often.
    """

    negation: re.Pattern[str] = re.compile(r"(?!)")
    may_negate: re.Pattern[str] = re.compile("")
    typography: tuple[tuple[str, str], ...] = ()
    counted: frozenset[str] = frozenset()
    has_capital_nouns: bool = False
    has_accents: bool = True
    subject: re.Pattern[str] | None = None
    write_out: Callable[[str], str] = str

    def typeset(self, text: str) -> str:
        """The text with the no-break spaces and the elisions of the language."""
        for pattern, new in self.typography:
            text = re.sub(pattern, new, text)
        return text


def _any_of(words: str) -> re.Pattern[str]:
    """A pattern of words, in which ``*`` stands for any letters."""
    pattern = "|".join(words.split()).replace("*", r"\w*").replace("'", "['’]")
    return re.compile(rf"\b(?:{pattern})(?!\w)", re.IGNORECASE)


ENGLISH = r"""no (?<!or\s)not never none nothing nobody cannot without neither nor unable disagree* disallow* *n't
inactive incompatible incomplete inconsistent incorrect insecure insufficient invalid unauthorised unauthorized
unavailable unchanged undefined unexpected unknown unnamed unreadable unsafe unsupported unused"""
HINTS = """avoid* cant dont fail* feel few forget* insensitive lack* mismatch* non* only remember trouble un*ed
uncheck unless unlike unlimited unlink unlock unmark unmount unpublish unregister unsubscribe unsure until wont"""
COUNTED = """bytes characters comments days digits documents elements entries errors files folders hours images items
lines messages minutes months objects options pages pixels points records results rows seconds times users warnings
weeks words years"""
AUXILIARY = "is|has|can|will|does|also"
PRONOUN = "(?:he|it|she|that|there|they|this|we|what|which|who|you)"
SUBJECT = (
    rf"(?!{PRONOUN} )[a-z][a-z\d]+(?= (?:{AUXILIARY})\b)|[A-Z][a-z]{{2,}}(?= (?:{AUXILIARY}|[a-z]{{2,}}(?<![aius])s)\b)"
)
ENGLISH_SUBJECT = rf"(?:\A|(?<=[.!?] ))(?P<first>{SUBJECT})|(?<=[a-z,] )(?:{SUBJECT})"
MONTHS = "January February March April May June July August September October November December"
SHORT_MONTHS = {month[:length]: month for month in MONTHS.split() for length in (3, 4)}
IN_DATE = re.compile(rf"\b({'|'.join(SHORT_MONTHS)})\b\.?(?= \d{{1,2}}, \d{{4}}\b)")  # Jul 15, 2024
FRENCH = """ne n'* non pas ni sinon aucun* jamais rien personne sans hors faux fausse* vide* échec* absent* erron*
manqu* mauvais* désactiv* désapprouv* illégal* illisible* immua* impossible* imprév* inacc* inact* inattend* inchang*
incoh* incompat* incompl* inconn* incorrect* indéfini* indéterm* indisponible* inexist* inférieur* insuffis* interdi*
introuv* inutil* invalid* irrécup*"""
FRENCH_NEGATION = r"(?i)\bn(?:e\s|['’])(?:\S+\s+){0,3}(?:pas|plus|jamais|aucune?|rien|ni)\b"
TYPOGRAPHY = (
    (r"(?<=[\"'“‘]) (?=[:;!?][\"'”’])", ""),  # ';'
    (r"(?<=\S) ?(?<![:;!?])(?!(?<=[\"'“‘])[:;!?][\"'”’])(?=[:;!?]+(?:[\s*_)\]»\"']|$))", "\u00a0"),
    (r"(?<=\S) ?»", "\u00a0»"),
    (r"« ?(?=\S)", "«\u00a0"),
    (r"(?i)(?<![\w'’])([cdjlmnst]|qu)' (?=\S)", r"\1'"),  # l' **API**
    (r"(?<![\w'’-])([dlDL])['’](?=[b-df-gj-np-tv-xz][a-zà-ÿ])", r"\1e "),  # le torrent
    # d'options, l'image; but: le onze, la une
    (
        r"(?<![\w'’-])((?i:[djlmnst]|(?:lors|puis)?qu))(?:e|(?<=[lL])a) (?!onz|oui\b|une\b)(?=[aeiouàâéèêîôœ]\w\w)",
        r"\1'",
    ),
)
HABITS = {
    "de": Habits(has_capital_nouns=True),
    "en": Habits(
        _any_of(ENGLISH),
        _any_of(f"{ENGLISH} {HINTS}"),
        counted=frozenset(COUNTED.split()),
        has_accents=False,
        subject=re.compile(ENGLISH_SUBJECT),
        write_out=lambda text: IN_DATE.sub(lambda month: SHORT_MONTHS[month[1]], text),
    ),
    "fr": Habits(re.compile(FRENCH_NEGATION), _any_of(FRENCH), TYPOGRAPHY),
}
