"""A small English-French corpus, written by a synchronous grammar.

A synchronous grammar (Aho and Ullman 1969, "Syntax directed translations and the pushdown assembler"; Chiang 2006,
"An introduction to synchronous grammars") rewrites two strings at once. Each rule below builds an English constituent
and its French translation together, so that every sentence pair comes with its English parse and with the word
alignment that the rules imply, both exact. A rule reads::

    rule("NP", english=(determiner, adjective, noun), french=(determiner, noun, adjective))

What the corpus promises:

* The French sentence is a function of the English one. Gender and number are decided by words of the English sentence:
  "they" is always "ils", "you" always "vous", and wherever the English does not show a gender ("I", "we", "you" and
  the bare rare names) no rule is used in which French would have to show it.
* Both sides are tokenised as the Moses tokenizer would do it: single spaces, French elided words as tokens of their
  own ("l' homme", "qu' elle"). Only names, their titles and "I" have capital letters.
* Rare names are open-ended: held-out sentences contain names that no training sentence has. They are spelt alike in
  both languages and start with a consonant, so that no elision depends on a name the model cannot know.
* The parses have the labels and the bracketing of the Penn Treebank, without its empty elements and function labels,
  as parsers trained on it print them. An adverb or "never" before a verb is inside the verb phrase.

Alignment conventions. Links are sure links, and no word of either language is left without one. A word which has no
counterpart of its own is linked with the word that makes it necessary:

* "not" and "never" with both parts of the negation, "ne ... pas", "ne ... jamais";
* "do", "does", "did" with the finite French verb, whose tense and person they carry, and in questions with "est-ce
  que" too, as every other fronted verb is;
* a simple past, "saw", with both words of the "passé composé", "a vu"; after "did", the auxiliary with "did" and the
  participle with the verb;
* the English preposition of a verb that takes a direct object in French ("waits for" - "attend") with that verb; the
  French "à" of a verb that takes a direct object in English ("answers" - "répond à") with that verb;
* "to" before an infinitive with the infinitive; before a pronoun that becomes a clitic ("to him" - "lui") with the
  clitic;
* "'s" with "de" and with the article of the thing possessed, which English leaves out;
* a contraction ("au", "du", "des", "aux") with everything its two parts were linked with.

The same seed gives the same sentences on every Python from 3.10 on.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rnnsearch_fairseq.files.preparation import PLAIN_MOSES, write_record

__all__ = ["SentencePair", "generate", "write_corpus"]

SHORTEST = 3  # words of the shortest sentence: subject, verb, full stop
LONGEST = 60
DEFAULT_SIZES = {"train": 12000, "valid": 500, "test": 1000}

# ---------------------------------------------------------------------------------------------------------------------
# Lexicon
# ---------------------------------------------------------------------------------------------------------------------

# English singular (and plural where irregular) | French singular | gender | kinds. No French noun or adjective here
# begins with an aspirated h, so that spelling alone decides elision.
_NOUNS = """
man men        | homme         | m | person
woman women    | femme         | f | person
boy            | garçon        | m | person
girl           | fille         | f | person
child children | enfant        | m | person
teacher        | professeur    | m | person
nurse          | infirmière    | f | person
king           | roi           | m | person
queen          | reine         | f | person
student        | étudiant      | m | person
soldier        | soldat        | m | person
actress        | actrice       | f | person
baker          | boulanger     | m | person
lawyer         | avocat        | m | person
princess       | princesse     | f | person
judge          | juge          | m | person
neighbour      | voisin        | m | person kin
friend         | ami           | m | person kin
brother        | frère         | m | person kin
sister         | sœur          | f | person kin
mother         | mère          | f | person kin
uncle          | oncle         | m | person kin
aunt           | tante         | f | person kin
dog            | chien         | m | animal
cat            | chat          | m | animal
horse          | cheval        | m | animal
bird           | oiseau        | m | animal
cow            | vache         | f | animal
fox            | renard        | m | animal
mouse mice     | souris        | f | animal
garden         | jardin        | m | place goal
house          | maison        | f | place
school         | école         | f | place goal
church         | église        | f | place goal
park           | parc          | m | place goal
market         | marché        | m | place goal
station        | gare          | f | place goal
hotel          | hôtel         | m | place goal
museum         | musée         | m | place goal
library        | bibliothèque  | f | place goal
castle         | château       | m | place goal
village        | village       | m | place goal
forest         | forêt         | f | place
street         | rue           | f | place
bridge         | pont          | m | open
beach          | plage         | f | open goal
island         | île           | f | open
table          | table         | f | furniture
chair          | chaise        | f | furniture
bed            | lit           | m | furniture
apple          | pomme         | f | food
orange         | orange        | f | food
cake           | gâteau        | m | food
egg            | œuf           | m | food
soup           | soupe         | f | food
salad          | salade        | f | food
pear           | poire         | f | food
key            | clé           | f | thing
hat            | chapeau       | m | thing
umbrella       | parapluie     | m | thing
coat           | manteau       | m | thing
lamp           | lampe         | f | thing
box            | boîte         | f | thing
bottle         | bouteille     | f | thing
clock          | horloge       | f | thing
picture        | tableau       | m | thing
dress          | robe          | f | thing
flower         | fleur         | f | thing
basket         | panier        | m | thing
gift           | cadeau        | m | thing
suitcase       | valise        | f | thing
book           | livre         | m | text
letter         | lettre        | f | text
story          | histoire      | f | text
poem           | poème         | m | text
message        | message       | m | text
"""

# English | French masculine and feminine, and masculine before a vowel where it differs | place | kinds
_ADJECTIVES = """
small       | petit petite             | before | animal place open furniture food thing
big         | grand grande             | before | animal place open furniture food thing
old         | vieux vieille vieil      | before | animal place open furniture thing
young       | jeune jeune              | before | person animal
good        | bon bonne                | before | person food text
new         | nouveau nouvelle nouvel  | before | furniture thing text
beautiful   | beau belle bel           | before | animal place open furniture thing text
red         | rouge rouge              | after  | furniture thing
green       | vert verte               | after  | furniture thing
blue        | bleu bleue               | after  | furniture thing
black       | noir noire               | after  | animal furniture thing
white       | blanc blanche            | after  | animal furniture thing
rich        | riche riche              | after  | person
happy       | heureux heureuse         | after  | person
sad         | triste triste            | after  | person text
tired       | fatigué fatiguée         | after  | person animal
sick        | malade malade            | after  | person animal
intelligent | intelligent intelligente | after  | person animal
honest      | honnête honnête          | after  | person
lazy        | paresseux paresseuse     | after  | person animal
famous      | célèbre célèbre          | after  | person place open text
strange     | étrange étrange          | after  | place animal text thing
quiet       | tranquille tranquille    | after  | place open
dark        | sombre sombre            | after  | place
empty       | vide vide                | after  | place open
heavy       | lourd lourde             | after  | furniture thing
expensive   | cher chère               | after  | furniture thing food
cold        | froid froide             | after  | food
delicious   | délicieux délicieuse     | after  | food
interesting | intéressant intéressante | after  | text
"""

# English base form, third person, past (and preposition) | French infinitive, and of an irregular verb je, il, nous,
# vous, ils and participle | frame | subjects | objects. No past tense equals a present form ("read"), because the tense
# of the French verb has to be visible.
_VERBS = """
see sees saw | voir vois voit voyons voyez voient vu | direct | person animal | person animal place open thing food
admire admires admired                | admirer | direct | person | person animal place open
look looks looked at                  | regarder | direct | person animal | person animal thing
wait waits waited for                 | attendre | direct | person animal | person
listen listens listened to            | écouter | direct | person | person
hear hears heard                      | entendre | direct | person animal | person animal
help helps helped                     | aider | direct | person | person
meet meets met                        | rencontrer | direct | person | person
thank thanks thanked                  | remercier | direct | person | person
follow follows followed | suivre suis suit suivons suivez suivent suivi | direct | person animal | person animal
find finds found                      | trouver | direct | person animal | thing food text animal
lose loses lost                       | perdre | direct | person | thing text
buy buys bought | acheter achète achète achetons achetez achètent acheté | direct | person | thing food furniture
eat eats ate                          | manger mange mange mangeons mangez mangent mangé | direct | person animal | food
prepare prepares prepared             | préparer | direct | person | food
carry carries carried                 | porter | direct | person | thing furniture
hide hides hid                        | cacher | direct | person | thing text
choose chooses chose                  | choisir | direct | person | thing food text
write writes wrote                    | écrire écris écrit écrivons écrivez écrivent écrit | direct | person | text
understand understands understood | comprendre comprends comprend comprenons comprenez comprennent compris \
| direct | person | person text
visit visits visited                  | visiter | direct | person | place open
clean cleans cleaned | nettoyer nettoie nettoie nettoyons nettoyez nettoient nettoyé | direct | person | place furniture
forget forgets forgot                 | oublier | direct | person | thing text
speak speaks spoke to                 | parler | dative | person | person
answer answers answered               | répondre | dative | person | person
obey obeys obeyed                     | obéir | dative | person animal | person
give gives gave                       | donner | giving | person | thing text food
show shows showed                     | montrer | giving | person | thing text
send sends sent | envoyer envoie envoie envoyons envoyez envoient envoyé | giving | person | thing text
bring brings brought                  | apporter | giving | person | thing text food
lend lends lent                       | prêter | giving | person | thing text
sleep sleeps slept                    | dormir dors dort dormons dormez dorment dormi | action | person animal |
work works worked                     | travailler | action | person |
sing sings sang                       | chanter | action | person |
dance dances danced                   | danser | action | person |
play plays played                     | jouer | action | person animal |
walk walks walked                     | marcher | action | person animal |
smile smiles smiled                   | sourire souris sourit sourions souriez sourient souri | action | person |
arrive arrives arrived                | arriver | motion | person animal |
leave leaves left                     | partir pars part partons partez partent parti | motion | person animal |
fall falls fell                       | tomber | motion | person animal |
live lives lived                      | habiter | place | person |
go goes went                          | aller vais va allons allez vont allé | goal | person animal | goal
return returns returned               | retourner | goal | person animal | goal
"""

# Endings of je, il, nous, vous, ils and participle in place of the infinitive's
_REGULAR = {
    "er": ("e", "e", "ons", "ez", "ent", "é"),
    "ir": ("is", "it", "issons", "issez", "issent", "i"),
    "re": ("s", "", "ons", "ez", "ent", "u"),
}

# English | tag | French masculine, feminine, plural ("-" where English has no such number) | kinds that take it
_DETERMINERS = """
the     | DT   | le la les                           | all
a       | DT   | un une -                            | all
some    | DT   | - - des                             | all
this    | DT   | ce cette -                          | all
these   | DT   | - - ces                             | all
every   | DT   | chaque chaque -                     | person animal place
my      | PRP$ | mon ma mes                          | kin animal thing text furniture
your    | PRP$ | votre votre vos                     | kin animal thing text furniture
his     | PRP$ | son sa ses                          | kin animal thing text furniture
her     | PRP$ | son sa ses                          | kin animal thing text furniture
our     | PRP$ | notre notre nos                     | kin animal thing text furniture
their   | PRP$ | leur leur leurs                     | kin animal thing text furniture
two     | CD   | - - deux                            | all
three   | CD   | - - trois                           | all
many    | JJ   | - - beaucoup_de                     | all
several | JJ   | - - plusieurs                       | all
"""
_DETERMINER_WEIGHTS = {"the": 14, "a": 7, "some": 4, "this": 2, "these": 2}  # all others weigh 1

_NAMES = """
John Jean m | Mary Marie f | Peter Pierre m | Alice Alice f | Paul Paul m | Anna Anna f | Julia Julie f | Henry Henri m
"""
_CITIES = "Paris Paris | London Londres | Rome Rome | Geneva Genève"

# English | French | gender where English shows it | person | plural
_SUBJECT_PRONOUNS = """
I je - 1 sg | you vous - 2 pl | he il m 3 sg | she elle f 3 sg | we nous - 1 pl | they ils m 3 pl
"""
# English | French direct object | French indirect object | gender | person | plural
_OBJECT_PRONOUNS = """
me me me - 1 sg | you vous vous - 2 pl | him le lui m 3 sg | her la lui f 3 sg | us nous nous - 1 pl
them les leur m 3 pl
"""

# Present tense: je, il, nous, vous, ils
_AVOIR = ["ai", "a", "avons", "avez", "ont"]
_ETRE = ["suis", "est", "sommes", "êtes", "sont"]
_ETAIT = ["étais", "était", "étions", "étiez", "étaient"]
_MODALS = {
    "can": ["peux", "peut", "pouvons", "pouvez", "peuvent"],
    "must": ["dois", "doit", "devons", "devez", "doivent"],
    "will": ["vais", "va", "allons", "allez", "vont"],
    "want": ["veux", "veut", "voulons", "voulez", "veulent"],
}

# Verbs that report a clause: base form | je, il, nous, vous, ils
_SPEECH = (
    ("say", "dis dit disons dites disent"),
    ("think", "pense pense pensons pensez pensent"),
    ("know", "sais sait savons savez savent"),
)

# Tagged English | French | tense of the clause
_TIMES = (
    ("yesterday/NN", "hier", "past"),
    ("every/DT day/NN", "chaque jour", "present"),
    ("this/DT morning/NN", "ce matin", "past"),
    ("tomorrow/NN", "demain", "will"),
)
# Tag | English | French | tense of the clause ("" where any will do)
_SUBORDINATORS = (
    ("IN", "because", "parce que", ""),
    ("WRB", "when", "quand", "present"),
    ("WRB", "when", "quand", "past"),
    ("IN", "if", "si", "present"),
    ("IN", "while", "pendant que", "present"),
)

_CONTRACTIONS = {
    ("à", "le"): "au",
    ("à", "les"): "aux",
    ("de", "le"): "du",
    ("de", "les"): "des",
    ("de", "des"): "de",  # "près de" + "des maisons" is "près de maisons"
    ("de", "de"): "de",
}
_ELISIONS = {
    "le": "l'", "la": "l'", "je": "j'", "me": "m'", "ne": "n'", "de": "d'", "que": "qu'",
}  # fmt: skip
_BEFORE_VOWEL = {"ce": "cet", "ma": "mon", "sa": "son"}
_VOWELS = "aàâeéèêiîoôœuûh"


def starts_with_vowel(word: str) -> bool:
    """Whether a French word takes elision before it. Every initial "h" of this lexicon is mute."""
    return word[0].lower() in _VOWELS


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


@dataclass(frozen=True)
class Noun:
    """A noun; `english` and `french` are (singular, plural)."""

    english: tuple[str, str]
    french: tuple[str, str]
    gender: str
    kinds: tuple[str, ...]


@dataclass(frozen=True)
class Adjective:
    """An adjective; `french` is (masculine, feminine, masculine before a vowel), all singular."""

    english: str
    french: tuple[str, str, str]
    before_noun: bool
    kinds: tuple[str, ...]

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

    @property
    def takes_etre(self) -> bool:
        """Whether the French "passé composé" is formed with "être", so that the participle agrees with the subject."""
        return self.frame in ("motion", "goal")

    def particle(self) -> tuple[Leaf, ...]:
        """The English preposition as a new leaf, if there is one. "to" is TO in the Penn Treebank, whatever it does."""
        return (Leaf("TO" if self.preposition == "to" else "IN", self.preposition),) if self.preposition else ()


@dataclass(frozen=True)
class Determiner:
    """A determiner; `french` is (masculine, feminine, plural), "" where the English word has no such number."""

    english: str
    tag: str
    french: tuple[str, str, str]
    kinds: tuple[str, ...]

    def agree(self, gender: str, plural: bool, next_word: str) -> str:
        """The French form for a noun, and for the word that follows the determiner."""
        form = self.french[2] if plural else self.french["mf".index(gender)]
        return _BEFORE_VOWEL.get(form, form) if starts_with_vowel(next_word) else form


def _rows(table: str) -> list[list[list[str]]]:
    return [[column.split() for column in line.split("|")] for line in table.strip().splitlines()]


def _cells(table: str) -> list[list[str]]:
    return [cell.split() for cell in table.replace("\n", "|").split("|") if cell.strip()]


def _read_noun(english: list[str], french: list[str], gender: list[str], kinds: list[str]) -> Noun:
    singular, plural = english if len(english) == 2 else (english[0], english_plural(english[0]))
    return Noun((singular, plural), (french[0], french_plural(french[0])), gender[0], tuple(kinds))


def _read_verb(
    english: list[str], french: list[str], frame: list[str], subjects: list[str], objects: list[str]
) -> Verb:
    infinitive, *forms = french
    if not forms:
        forms = [infinitive[:-2] + ending for ending in _REGULAR[infinitive[-2:]]]
    base, third, past = english[:3]
    preposition = english[3] if len(english) > 3 else ""
    present, participle = tuple(forms[:5]), forms[5]
    return Verb(
        base, third, past, preposition, infinitive, present, participle, frame[0], tuple(subjects), tuple(objects)
    )


def _read_adjective(english: list[str], french: list[str], place: list[str], kinds: list[str]) -> Adjective:
    forms = (french[0], french[1], french[-1] if len(french) == 3 else french[0])
    return Adjective(english[0], forms, place[0] == "before", tuple(kinds))


def _read_determiner(english: list[str], tag: list[str], french: list[str], kinds: list[str]) -> Determiner:
    masculine, feminine, plural = ("" if form == "-" else form.replace("_", " ") for form in french)
    return Determiner(english[0], tag[0], (masculine, feminine, plural), tuple(kinds))


NOUNS = [_read_noun(*row) for row in _rows(_NOUNS)]
ADJECTIVES = [_read_adjective(*row) for row in _rows(_ADJECTIVES)]
VERBS = [_read_verb(*row) for row in _rows(_VERBS)]
DETERMINERS = [_read_determiner(*row) for row in _rows(_DETERMINERS)]
NAMES = _cells(_NAMES)
CITIES = _cells(_CITIES)
SUBJECT_PRONOUNS = _cells(_SUBJECT_PRONOUNS)
OBJECT_PRONOUNS = _cells(_OBJECT_PRONOUNS)
WEIGHTED_DETERMINERS = [d for d in DETERMINERS for _ in range(_DETERMINER_WEIGHTS.get(d.english, 1))]
DEFINITE = [d for d in WEIGHTED_DETERMINERS if d.tag == "PRP$" or d.english in ("the", "this", "these")]
ANY = Determiner("any", "DT", ("", "", "de"), ("all",))  # plural indefinite under negation
THE = DETERMINERS[0]

_ONSETS = ["b", "br", "c", "d", "dr", "f", "g", "gr", "k", "l", "m", "n", "p", "r", "s", "t", "tr", "v", "z"]
_RIMES = ["a", "an", "ar", "e", "el", "en", "i", "in", "ir", "o", "ol", "on", "or", "u", "ul"]
_SYLLABLES = [onset + rime for onset in _ONSETS for rime in _RIMES]


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


# ---------------------------------------------------------------------------------------------------------------------
# Synchronous constituents
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Leaf:
    """An English word under its Penn Treebank tag. Two equal words in a sentence are two different leaves."""

    tag: str
    word: str


@dataclass(frozen=True, eq=False)
class Branch:
    """An English constituent under its Penn Treebank label."""

    label: str
    children: tuple[Leaf | Branch, ...]


@dataclass(frozen=True)
class FrenchWord:
    """A French word and the English leaves it translates."""

    text: str
    links: tuple[Leaf, ...]


@dataclass(frozen=True)
class Phrase:
    """An English constituent together with its translation."""

    english: Leaf | Branch
    french: tuple[FrenchWord, ...]


@dataclass(frozen=True)
class NounPhrase(Phrase):
    """A noun phrase with what agrees with it; `gender` is None where no English word decides it."""

    gender: str | None = None
    plural: bool = False
    person: int = 3
    kinds: tuple[str, ...] = ("person",)

    @property
    def slot(self) -> int:
        """The index of its verb form among je, il, nous, vous, ils."""
        return {(1, False): 0, (3, False): 1, (1, True): 2, (2, True): 3, (3, True): 4}[self.person, self.plural]


def french_words(text: str, *links: Leaf) -> tuple[FrenchWord, ...]:
    """French words, each of them linked with all the given leaves."""
    return tuple(FrenchWord(word, links) for word in text.split())


def pair(tag: str, english: str, french: str) -> Phrase:
    """A lexical rule: one English word and its French word or words."""
    leaf = Leaf(tag, english)
    return Phrase(leaf, french_words(french, leaf))


def rule(label: str, english: Sequence[Phrase], french: Sequence[Phrase] | None = None) -> Phrase:
    """A rule: constituents in their English order, and in their French order where that is another one."""
    tree = Branch(label, tuple(phrase.english for phrase in english))
    return Phrase(tree, tuple(word for phrase in (french or english) for word in phrase.french))


def idiom(label: str, english: str, french: str) -> Phrase:
    """A rule without variables, translated word for word; `english` is tagged ("this/DT morning/NN")."""
    tokens = [token.split("/") for token in english.split()]
    return rule(label, [pair(tag, word, other) for (word, tag), other in zip(tokens, french.split(), strict=True)])


def children(tree: Leaf | Branch) -> tuple[Leaf | Branch, ...]:
    """The daughters of an English constituent, for a rule that puts them directly under another label."""
    return tree.children if isinstance(tree, Branch) else (tree,)


def agree_participle(participle: str, gender: str, plural: bool) -> str:
    """A French past participle in agreement with a gender and number."""
    form = participle + ("e" if gender == "f" else "")
    return french_plural(form) if plural else form


def contract(words: Sequence[FrenchWord]) -> list[FrenchWord]:
    """Merge prepositions with articles ("de le" is "du", but "de l' homme" stays); a merged word has both its links."""
    merged: list[FrenchWord] = []
    for index, word in enumerate(words):
        following = words[index + 1].text if index + 1 < len(words) else ""
        elides = word.text == "le" and following != "" and starts_with_vowel(following)
        contraction = _CONTRACTIONS.get((merged[-1].text, word.text)) if merged and not elides else None
        if contraction is None:
            merged.append(word)
        else:
            merged[-1] = FrenchWord(contraction, merged[-1].links + word.links)
    return merged


def elide(words: Sequence[FrenchWord]) -> list[FrenchWord]:
    """Drop the final vowel of "le", "que", ... before a vowel, and that of "si" before "il" and "ils"."""
    elided = list(words)
    for index, (word, following) in enumerate(itertools.pairwise(words)):
        if word.text in _ELISIONS and starts_with_vowel(following.text):
            elided[index] = FrenchWord(_ELISIONS[word.text], word.links)
        elif word.text == "si" and following.text in ("il", "ils"):
            elided[index] = FrenchWord("s'", word.links)
    return elided


@dataclass(frozen=True)
class Complement:
    """What follows an English verb, and its French words before and after the verb.

    `agreement` is the gender and number of a direct object that precedes the French verb: "la lettre qu' il a écrite".
    `verb_links` are English words which only the French verb translates, like "for" in "waits for".
    """

    english: tuple[Leaf | Branch, ...] = ()
    clitics: tuple[FrenchWord, ...] = ()
    french: tuple[FrenchWord, ...] = ()
    agreement: tuple[str, bool] | None = None
    verb_links: tuple[Leaf, ...] = ()


@dataclass(frozen=True)
class Predicate:
    """A finite verb phrase. English keeps the auxiliary apart from the rest, since questions front it."""

    auxiliary: Leaf | None
    negation: Leaf | None
    body: Leaf | Branch
    french: tuple[FrenchWord, ...]

    def phrase(self) -> Phrase:
        """The verb phrase of a statement."""
        if self.auxiliary is None:
            return Phrase(self.body, self.french)
        front = (self.auxiliary,) if self.negation is None else (self.auxiliary, self.negation)
        return Phrase(Branch("VP", (*front, self.body)), self.french)


@dataclass(frozen=True)
class VerbGroup:
    """The words of the verb itself: English auxiliary, negation and head; French finite verb and what it governs."""

    auxiliary: Leaf | None
    negation: Leaf | None
    wish: tuple[Leaf, ...]
    head: Leaf
    finite: FrenchWord
    infinitive: str


def verb_group(verb: Verb, subject: NounPhrase, tense: str, negation: str, question: bool) -> VerbGroup:
    """Inflect a verb in both languages; `tense` is "present", "past" or a modal, `negation` "", "not" or "never"."""
    support = question or negation == "not"
    negative = Leaf("RB", negation) if negation else None
    third = subject.person == 3 and not subject.plural
    if tense in ("can", "must", "will"):
        modal = Leaf("MD", tense)
        finite = FrenchWord(_MODALS[tense][subject.slot], (modal,))
        return VerbGroup(modal, negative, (), Leaf("VB", verb.base), finite, verb.infinitive)
    if tense == "past":
        auxiliary = Leaf("VBD", "did") if support else None
        head = Leaf("VB", verb.base) if support else Leaf("VBD", verb.past)
        forms = _ETRE if verb.takes_etre else _AVOIR
        return VerbGroup(auxiliary, negative, (), head, FrenchWord(forms[subject.slot], (auxiliary or head,)), "")
    auxiliary = (Leaf("VBZ", "does") if third else Leaf("VBP", "do")) if support else None
    tag = "VB" if support else "VBZ" if third else "VBP"
    if tense == "want":
        wish = Leaf(tag, "wants" if tag == "VBZ" else "want")
        finite = FrenchWord(_MODALS["want"][subject.slot], (auxiliary, wish) if auxiliary else (wish,))
        return VerbGroup(auxiliary, negative, (wish, Leaf("TO", "to")), Leaf("VB", verb.base), finite, verb.infinitive)
    head = Leaf(tag, verb.third if tag == "VBZ" else verb.base)
    finite = FrenchWord(verb.present[subject.slot], (auxiliary, head) if auxiliary else (head,))
    return VerbGroup(auxiliary, negative, (), head, finite, "")


def predicate(
    verb: Verb, subject: NounPhrase, tense: str, group: VerbGroup, complement: Complement, adverb: Phrase | None = None
) -> Predicate:
    """Order the French words: ne, clitics, finite verb, pas, adverb, clitics and infinitive or participle, rest."""
    before, after = ((), ()) if group.negation is None else negate(group.negation)
    between = adverb.french if adverb else ()
    extra = complement.verb_links
    finite, clitics = group.finite, complement.clitics
    if group.infinitive:
        lexical = FrenchWord(group.infinitive, (*group.wish[1:], group.head, *extra))
        french = (*before, finite, *after, *between, *clitics, lexical)
    elif tense == "past":
        agreement = (subject.gender or "m", subject.plural) if verb.takes_etre else complement.agreement
        participle = agree_participle(verb.participle, *agreement) if agreement else verb.participle
        french = (*before, *clitics, finite, *after, *between, FrenchWord(participle, (group.head, *extra)))
    else:
        finite = FrenchWord(finite.text, finite.links + extra)
        french = (*before, *clitics, finite, *after, *between)
    # Without an auxiliary "never" stands inside the verb phrase, where the adverb stands too.
    bare_never = (Branch("ADVP", (group.negation,)),) if group.negation and group.auxiliary is None else ()
    english = (*bare_never, *((adverb.english,) if adverb else ()), group.head, *complement.english)
    if group.wish:
        infinitive = Branch("S", (Branch("VP", (group.wish[1], Branch("VP", (group.head, *complement.english)))),))
        english = (*bare_never, group.wish[0], infinitive)
    return Predicate(group.auxiliary, group.negation, Branch("VP", english), french + complement.french)


def negate(negation: Leaf) -> tuple[tuple[FrenchWord, ...], tuple[FrenchWord, ...]]:
    """The two parts of the French negation for "not" or "never"."""
    return french_words("ne", negation), french_words("pas" if negation.word == "not" else "jamais", negation)


def conjunction(english: str) -> Phrase:
    """A coordinating conjunction."""
    return pair("CC", english, {"and": "et", "but": "mais"}[english])


def comma() -> Phrase:
    """A comma."""
    return pair(",", ",", ",")


def clause(subject: Phrase, verb_phrase: Phrase) -> Phrase:
    """S -> NP VP."""
    return rule("S", (subject, verb_phrase))


# ---------------------------------------------------------------------------------------------------------------------
# The grammar: random derivations
# ---------------------------------------------------------------------------------------------------------------------


class Grammar:
    """Draws derivations. Rules take `room`, about how many English words they may use, and pass it on to their parts.

    Args:
        rng: source of all random choices.
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.rare_names_left = 0

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return self.rng.random() < probability

    # -- noun phrases --

    def name(self) -> NounPhrase:
        """A common name: "Mary" - "Marie"."""
        english, french, gender = self.rng.choice(NAMES)
        word = pair("NNP", english, french)
        return NounPhrase(Branch("NP", (word.english,)), word.french, gender)

    def rare_name_word(self) -> Phrase:
        """A name from the long tail, alike in both languages; rank r has a probability of about 400 / (400 + r)^2."""
        self.rare_names_left -= 1
        # The inverse of the distribution P(rank >= r) = 400 / (400 + r): divisions only, hence the same everywhere.
        rank = int(400 / (1 - self.rng.random())) - 400
        name = rare_name(min(rank, len(_SYLLABLES) ** 3 - 1))
        return pair("NNP", name, name)

    def rare_person(self) -> NounPhrase:
        """A person with a rare name; only a title shows a gender."""
        word = self.rare_name_word()
        titles = (None, None, ("Mr", "M.", "m"), ("Mrs", "Mme", "f"), ("doctor", "le docteur", "m"))
        title = self.rng.choice(titles)
        if title is None:
            return NounPhrase(Branch("NP", (word.english,)), word.french, None)
        phrase = rule("NP", (pair("NN" if title[0] == "doctor" else "NNP", title[0], title[1]), word))
        return NounPhrase(phrase.english, phrase.french, title[2])

    def pick_adjectives(self, noun: Noun, room: int) -> list[Adjective]:
        """At most one adjective that precedes the French noun and one that follows it, in English order."""
        fitting = [adjective for adjective in ADJECTIVES if noun.kinds[0] in adjective.kinds]
        first = [adjective for adjective in fitting if adjective.before_noun]
        second = [adjective for adjective in fitting if not adjective.before_noun]
        picked = []
        if room >= 3 and first and self.chance(0.3):
            picked.append(self.rng.choice(first))
        if room >= 3 + len(picked) and second and self.chance(0.3):
            picked.append(self.rng.choice(second))
        return picked

    def nominal(self, noun: Noun, room: int, negated: bool = False, definite: bool = False) -> NounPhrase:
        """NP -> DT JJ NN | DT NN JJ. `negated`: direct object of a negation, where indefinite articles become "de"."""
        determiners = DEFINITE if definite else WEIGHTED_DETERMINERS
        fitting = [d for d in determiners if d.kinds == ("all",) or any(k in d.kinds for k in noun.kinds)]
        determiner = self.rng.choice(fitting)
        plural = determiner.french[0] == "" or (determiner.french[2] != "" and self.chance(0.3))
        return determined(determiner, self.pick_adjectives(noun, room), noun, plural, negated)

    def genitive(self, noun: Noun) -> NounPhrase:
        """NP -> NP 's NN | NN de NP, or NP -> NP of NP."""
        owner = self.noun_phrase(("person",), 2, single=True, definite=True)
        plural = self.chance(0.3)
        if self.chance(0.5):
            phrase = rule("NP", (determined(THE, [], noun, plural), rule("PP", (pair("IN", "of", "de"), owner))))
            return NounPhrase(phrase.english, phrase.french, noun.gender, plural, 3, noun.kinds)
        mark = Leaf("POS", "'" if owner.plural and leaves(owner.english)[-1].word.endswith("s") else "'s")
        head = pair("NNS" if plural else "NN", noun.english[plural], noun.french[plural])
        article = french_words(THE.agree(noun.gender, plural, noun.french[plural]), mark)
        tree = Branch("NP", (Branch("NP", (*children(owner.english), mark)), head.english))
        french = article + head.french + french_words("de", mark) + owner.french
        return NounPhrase(tree, french, noun.gender, plural, 3, noun.kinds)

    def place(self, room: int, kinds: tuple[str, ...] = ("place",) * 4 + ("open",)) -> Phrase:
        """PP -> in NP | near NP | ..."""
        if self.rare_names_left and self.chance(0.3):
            return rule("PP", (pair("IN", "in", "à"), rule("NP", (self.rare_name_word(),))))
        if room <= 2 or self.chance(0.15):
            city = rule("NP", (pair("NNP", *self.rng.choice(CITIES)),))
            near = self.chance(0.3)
            return rule("PP", (pair("IN", "near", "près de") if near else pair("IN", "in", "à"), city))
        kind = self.rng.choice(kinds)
        ground = self.noun_phrase((kind,), room - 1, single=True, definite=self.chance(0.7))
        where = self.rng.randrange(10)
        if where == 0:
            return in_front_of(ground)
        inside = ("in", "dans") if kind == "place" else ("on", "sur")
        english, french = {1: ("near", "près de"), 2: ("behind", "derrière")}.get(where, inside)
        return rule("PP", (pair("IN", english, french), ground))

    def modifier(self, noun: Noun, room: int) -> Phrase | None:
        """A prepositional phrase that says which one: "the book on the table". None if the noun takes none."""
        if noun.kinds[0] in ("person", "animal"):
            return self.place(room)
        if noun.kinds[0] == "thing":
            preposition = self.rng.choice((("on", "sur"), ("under", "sous")))
            return rule("PP", (pair("IN", *preposition), self.noun_phrase(("furniture",), room - 1, single=True)))
        if noun.kinds[0] == "text":
            return rule("PP", (pair("IN", "about", "sur"), self.noun_phrase(("person",), room - 1, single=True)))
        return None

    def listing(self, kinds: tuple[str, ...], room: int) -> NounPhrase:
        """NP -> NP , NP and NP. Only the last one may have a relative clause, so that it is clear where it belongs."""
        size = 3 if room >= 9 and self.chance(0.4) else 2
        items = [self.noun_phrase(kinds, 3, single=True) for _ in range(size - 1)]
        items.append(self.noun_phrase(kinds, room - 4 * (size - 1), single=True))
        first, *middle, last = items
        between = [part for item in middle for part in (comma(), item)]
        phrase = rule("NP", (first, *between, conjunction("and"), last))
        genders = [item.gender for item in items]
        # One masculine member makes the group masculine; otherwise an unknown gender leaves that of the group unknown.
        gender = "m" if "m" in genders else None if None in genders else "f"
        return NounPhrase(phrase.english, phrase.french, gender, True, 3, items[0].kinds)

    def noun_phrase(
        self,
        kinds: tuple[str, ...],
        room: int,
        *,
        negated: bool = False,
        single: bool = False,
        definite: bool = False,
    ) -> NounPhrase:
        """A noun phrase of one of these kinds; `single` excludes lists, in which French would repeat "à" and "de"."""
        if "person" in kinds and self.rare_names_left and self.chance(0.4):
            return self.rare_person()
        if room >= 7 and not single and not negated and self.chance(0.3):
            return self.listing(kinds, room)
        kind = self.rng.choice(kinds)
        if kind == "person" and room <= 4 and self.chance(0.25):
            return self.name()
        noun = self.rng.choice([noun for noun in NOUNS if kind in noun.kinds])
        owned = noun.kinds[0] in ("thing", "text", "animal") or "kin" in noun.kinds
        if room >= 4 and owned and self.chance(0.2):
            return self.genitive(noun)
        if room >= 6 and self.chance(0.55):
            core = self.nominal(noun, room - 5, negated, definite)
            return extended(core, self.relative(core, min(room, 14) - 2))
        if room >= 5 and self.chance(0.5):
            modifier = self.modifier(noun, 3)
            if modifier:
                return extended(self.nominal(noun, room - 3, negated, definite), modifier)
        return self.nominal(noun, room, negated, definite)

    def pronoun(self) -> NounPhrase:
        """A subject pronoun."""
        third_person = [cells for cells in SUBJECT_PRONOUNS if cells[3] == "3"]
        english, french, gender, person, number = self.rng.choice(SUBJECT_PRONOUNS + third_person * 2)
        word = pair("PRP", english, french)
        features = (None if gender == "-" else gender, number == "pl", int(person))
        return NounPhrase(Branch("NP", (word.english,)), word.french, *features)

    def subject(self, room: int, alive: bool = False) -> NounPhrase:
        """The subject of a clause; often a pronoun where there is little room. `alive`: a person or an animal."""
        if room <= 2 and self.chance(0.5):
            return self.pronoun()
        kinds = ("person",) * 9 + ("animal",) * 2 + (() if alive else ("thing", "text", "place", "food"))
        kind = self.rng.choice(kinds)
        return self.noun_phrase((kind,), room, definite=kind not in ("person", "animal"))

    # -- verb phrases --

    def relative(self, antecedent: NounPhrase, room: int) -> Phrase:
        """SBAR -> who VP | whom NP VP, "qui" | "que"; "that" for what is not a person."""
        person = antecedent.kinds[0] == "person"
        verbs = [verb for verb in VERBS if verb.frame == "direct" and antecedent.kinds[0] in verb.objects]
        if verbs and self.chance(0.45):
            verb = self.rng.choice(verbs)
            pronoun = pair("WP", "whom", "que") if person else pair("WDT", "that", "que")
            agent = self.pronoun() if room <= 4 or self.chance(0.4) else self.noun_phrase(("person",), min(room - 2, 4))
            tense = self.tense(agent, verb)
            group = verb_group(verb, agent, tense, "", False)
            stranded = verb.particle()
            trees = tuple(Branch("PP", (leaf,)) for leaf in stranded)
            agreement = (antecedent.gender or "m", antecedent.plural)
            complement = Complement(english=trees, agreement=agreement, verb_links=stranded)
            body: Phrase = clause(agent, predicate(verb, agent, tense, group, complement).phrase())
        else:
            pronoun = pair("WP", "who", "qui") if person else pair("WDT", "that", "qui")
            body = rule("S", (self.verb_phrase(antecedent, room).phrase(),))
        return rule("SBAR", (rule("WHNP", (pronoun,)), body))

    def tense(self, subject: NounPhrase, verb: Verb) -> str:
        """A tense that the subject allows: with "être" the participle would show a gender English may not show."""
        tense = self.rng.choice(("present",) * 8 + ("past",) * 5 + ("can", "must", "will", "want"))
        return "present" if tense == "past" and verb.takes_etre and subject.gender is None else tense

    def verb_phrase(
        self, subject: NounPhrase, room: int, *, tense: str = "", question: bool = False, plain: bool = False
    ) -> Predicate:
        """A predicate for a subject; `tense` "" leaves it open, `plain` excludes negation."""
        kind = subject.kinds[0]
        if kind not in ("person", "animal") or (room >= 2 and self.chance(0.12) and tense in ("", "present", "past")):
            return self.copula(subject, room, tense, question)
        frames = ["action"] if room <= 1 else ["action", "direct", "direct"]
        if room <= 2:
            frames.append("motion")
        if room >= 3:
            frames += ["direct", "dative", "goal", "place"]
        if room >= 5:
            frames += ["direct", "direct", "giving", "giving"]
        fitting = [verb for verb in VERBS if kind in verb.subjects]
        if tense == "past" and subject.gender is None:
            fitting = [verb for verb in fitting if not verb.takes_etre]
        frame = self.rng.choice([frame for frame in frames if any(verb.frame == frame for verb in fitting)])
        verb = self.rng.choice([verb for verb in fitting if verb.frame == frame])
        tense = tense or self.tense(subject, verb)
        negation = self.rng.choice(("not", "not", "never")) if self.chance(0.2) and not (plain or question) else ""
        group = verb_group(verb, subject, tense, negation, question)
        complement = self.complement(verb, group.head, subject, tense, room - 1, bool(negation))
        frequency = tense in ("present", "past") and not negation and not question and self.chance(0.12)
        adverb = idiom("ADVP", *self.rng.choice((("often/RB", "souvent"), ("always/RB", "toujours"))))
        return predicate(verb, subject, tense, group, complement, adverb if frequency else None)

    def copula(self, subject: NounPhrase, room: int, tense: str, question: bool) -> Predicate:
        """VP -> is ADJP | is PP. Subjects of unknown gender take no adjective."""
        tense = tense if tense in ("present", "past") else self.rng.choice(("present", "past"))
        index = 0 if subject.slot == 0 else 1 if subject.slot == 1 else 2
        english = (("am", "is", "are") if tense == "present" else ("was", "was", "were"))[index]
        tag = "VBD" if tense == "past" else "VBZ" if index == 1 else "VBP"
        verb = Leaf(tag, english)
        negation = Leaf("RB", "not") if not question and self.chance(0.15) else None
        before, after = ((), ()) if negation is None else negate(negation)
        alive = subject.kinds[0] in ("person", "animal")
        if subject.gender is None or (alive and room >= 4 and self.chance(0.4)):
            rest = self.place(room - 1)
        else:
            rest = self.adjective_phrase(subject, subject.gender, room - 1)
        finite = FrenchWord((_ETRE if tense == "present" else _ETAIT)[subject.slot], (verb,))
        return Predicate(verb, negation, rest.english, (*before, finite, *after, *rest.french))

    def adjective_phrase(self, subject: NounPhrase, gender: str, room: int) -> Phrase:
        """ADJP -> JJ | very JJ | more JJ than NP."""
        fitting = [adjective for adjective in ADJECTIVES if subject.kinds[0] in adjective.kinds]
        adjective = self.rng.choice(fitting)
        word = pair("JJ", adjective.english, adjective.agree(gender, subject.plural))
        if room >= 4 and len(adjective.english) >= 7 and self.chance(0.5):
            rival = self.noun_phrase((subject.kinds[0],), room - 3, definite=True)
            return rule("ADJP", (pair("RBR", "more", "plus"), word, rule("PP", (pair("IN", "than", "que"), rival))))
        return rule("ADJP", (pair("RB", "very", "très"), word) if room >= 2 and self.chance(0.3) else (word,))

    def complement(
        self, verb: Verb, head: Leaf, subject: NounPhrase, tense: str, room: int, negated: bool
    ) -> Complement:
        """What the frame of the verb asks for."""
        if verb.frame == "direct":
            return self.direct_object(verb, subject, tense, room, negated)
        if verb.frame == "dative":
            return self.indirect_object(subject, verb.particle(), head, room)
        if verb.frame == "giving":
            return self.gift(verb, subject, tense, room, negated)
        if verb.frame == "goal":
            goal = self.noun_phrase(("goal",), room - 1, single=True, definite=True)
            phrase = rule("PP", (pair("TO", "to", "à"), goal))
            return Complement((phrase.english,), french=phrase.french)
        if verb.frame == "place" or (room >= 3 and self.chance(0.6)):
            place = self.place(room, ("place",)) if verb.frame == "place" else self.place(room)
            return Complement((place.english,), french=place.french)
        if room >= 1 and verb.frame == "action" and self.chance(0.4):
            manner = idiom("ADVP", *self.rng.choice((("slowly/RB", "lentement"), ("here/RB", "ici"))))
            return Complement((manner.english,), french=manner.french)
        return Complement()

    def object_pronoun(self, subject: NounPhrase, third_only: bool) -> list[str]:
        """A row of the table of object pronouns; never the person of the subject, which would ask for a reflexive."""
        excluded = ("1", "2") if third_only else (str(subject.person),)
        return self.rng.choice([row for row in OBJECT_PRONOUNS if row[4] == "3" or row[4] not in excluded])

    def direct_object(self, verb: Verb, subject: NounPhrase, tense: str, room: int, negated: bool) -> Complement:
        """A noun phrase after the verb, or a clitic before it."""
        particle = verb.particle()
        if "person" in verb.objects and room <= 5 and self.chance(0.6 if room <= 1 else 0.3):
            # In the past the participle would show the gender of "me", "you" and "us".
            english, clitic, _, gender, _, number = self.object_pronoun(subject, third_only=tense == "past")
            leaf = Leaf("PRP", english)
            agreement = None if gender == "-" else (gender, number == "pl")
            tree: Branch = Branch("NP", (leaf,))
            tree = Branch("PP", (*particle, tree)) if particle else tree
            return Complement((tree,), french_words(clitic, leaf), (), agreement, particle)
        phrase = self.noun_phrase(verb.objects, room, negated=negated)
        english_tree = Branch("PP", (*particle, phrase.english)) if particle else phrase.english
        return Complement((english_tree,), french=phrase.french, verb_links=particle)

    def indirect_object(self, subject: NounPhrase, to: tuple[Leaf, ...], head: Leaf, room: int) -> Complement:
        """Either "to him" - "lui" before the verb, or "to NP" - "à NP"; without `to`, "à" is linked with the verb."""
        if room <= 3 and self.chance(0.5):
            english, _, clitic, *_ = self.object_pronoun(subject, third_only=False)
            leaf = Leaf("PRP", english)
            tree = Branch("NP", (leaf,))
            return Complement((Branch("PP", (*to, tree)) if to else tree,), clitics=french_words(clitic, *to, leaf))
        person = self.noun_phrase(("person",), room - len(to), single=True)
        english_tree = Branch("PP", (*to, person.english)) if to else person.english
        return Complement((english_tree,), french=french_words("à", *(to or (head,))) + person.french)

    def gift(self, verb: Verb, subject: NounPhrase, tense: str, room: int, negated: bool) -> Complement:
        """VP -> V NP to NP, either of them possibly a clitic: "gives them to me" - "me les donne"."""
        to = Leaf("TO", "to")
        receiver = self.indirect_object(subject, (to,), to, min(room // 2, 6))
        if self.chance(0.15):
            leaf = Leaf("PRP", "them")
            les = french_words("les", leaf)
            third = bool(receiver.clitics) and receiver.clitics[0].text in ("lui", "leur")
            clitics = les + receiver.clitics if third else receiver.clitics + les
            trees = (Branch("NP", (leaf,)), *receiver.english)
            return Complement(trees, clitics, receiver.french, ("m", True))
        given = self.noun_phrase(verb.objects, min(room - 3, 5), negated=negated, single=True)
        return Complement((given.english, *receiver.english), receiver.clitics, given.french + receiver.french)

    # -- clauses and sentences --

    def simple_clause(self, room: int, tense: str = "") -> Phrase:
        """S -> NP VP, or two verb phrases joined by "and" or "but"."""
        # The copula has no future, so that what is not alive, and has no other verb, has none either.
        alive = tense not in ("", "present", "past")
        subject = self.subject(self.rng.randrange(1, max(2, min(room // 2, 9)) + 1), alive)
        left = room - len(leaves(subject.english))
        joined = left >= 8 and subject.kinds[0] in ("person", "animal") and self.chance(0.4)
        if alive or not joined:
            return clause(subject, self.verb_phrase(subject, left, tense=tense).phrase())
        # The second verb must belong neither to a modal ("can buy it and obey") nor to a relative clause of the first
        # verb phrase, since its French form depends on that: one tense for both, no auxiliary, a short first half.
        tense = tense or self.rng.choice(("present", "past"))
        first = self.verb_phrase(subject, self.rng.randrange(2, 5), tense=tense, plain=True).phrase()
        second = self.verb_phrase(subject, left - len(leaves(first.english)) - 1, tense=tense, plain=True).phrase()
        joint = conjunction(self.rng.choice(("and", "and", "but")))
        return clause(subject, rule("VP", (first, joint, second)))

    def complex_clause(self, room: int) -> Phrase:
        """A clause reported by somebody, or with a time adverb or an adverbial clause."""
        shape = self.rng.randrange(6)
        if shape == 0:
            return self.reported_clause(room)
        if shape == 1:
            english, french, tense = self.rng.choice(_TIMES)
            return fronted(idiom("NP", english, french), self.simple_clause(room - 2, tense))
        tag, english, french, tense = self.rng.choice(_SUBORDINATORS)
        if tense != "past" and self.chance(0.12):
            inner = clause(rule("NP", (pair("PRP", "it", "il"),)), rule("VP", (pair("VBZ", "rains", "pleut"),)))
        else:
            inner = self.simple_clause(max(3, room // 2 - 1), tense)
        word = pair(tag, english, french)
        adverbial = rule("SBAR", (rule("WHADVP", (word,)) if tag == "WRB" else word, inner))
        main_tense = self.rng.choice(("present", "present", "must", "will")) if tense == "present" else tense
        main = self.simple_clause(room - len(leaves(adverbial.english)), main_tense)
        return fronted(adverbial, main) if self.chance(0.4) else closed(main, adverbial)

    def reported_clause(self, room: int) -> Phrase:
        """S -> NP says that S; never negated, which would ask for the subjunctive in French."""
        subject = self.subject_who_speaks()
        base, french = self.rng.choice(_SPEECH)
        tag, english = ("VBZ", base + "s") if subject.slot == 1 else ("VBP", base)
        word = pair(tag, english, french.split()[subject.slot])
        reported = rule("SBAR", (pair("IN", "that", "que"), self.simple_clause(room - 4)))
        return rule("S", (subject, rule("VP", (word, reported))))

    def subject_who_speaks(self) -> NounPhrase:
        """A person in at most two words."""
        return self.pronoun() if self.chance(0.4) else self.noun_phrase(("person",), 2)

    def question(self, room: int) -> Phrase:
        """SQ -> does NP VP ? - est-ce que NP VP ?, with "why" before it at times, or SBARQ -> who VP ?"""
        end = pair(".", "?", "?")
        if self.chance(0.25):
            someone = NounPhrase(Branch("NP", ()), (), "m")
            rest = rule("SQ", (self.verb_phrase(someone, room - 2, plain=True).phrase(),))
            return rule("SBARQ", (rule("WHNP", (pair("WP", "who", "qui"),)), rest, end))
        subject = self.subject(min(3, room // 3))
        asked = self.verb_phrase(subject, room - 2 - len(leaves(subject.english)), question=True)
        assert asked.auxiliary is not None, "a question has an auxiliary to front"
        tree = Branch("SQ", (asked.auxiliary, subject.english, asked.body))
        core = Phrase(tree, french_words("est-ce que", asked.auxiliary) + subject.french + asked.french)
        if self.chance(0.25):
            return rule("SBARQ", (rule("WHADVP", (pair("WRB", "why", "pourquoi"),)), core, end))
        return Phrase(Branch("SQ", (*tree.children, end.english)), core.french + end.french)

    def sentence(self, room: int) -> Phrase:
        """A sentence of about `room` words. Clauses are joined until it is long enough."""
        # Not every sentence has a place for the names it may use: about 12% come out with one.
        self.rare_names_left = self.rng.choice((0,) * 36 + (1,) * 12 + (2,) * 2)
        if room <= 16 and self.chance(0.08):
            return self.question(room)
        clauses: list[Phrase] = []
        left = room - 1
        while not clauses or left >= 6:
            part = min(left, self.rng.randrange(9, 25))
            made = self.complex_clause(part) if part >= 9 and self.chance(0.45) else self.simple_clause(part)
            clauses.append(made)
            left -= len(leaves(made.english)) + 2
        stop = pair(".", ".", ".")
        first, *others = clauses
        if not others:
            return Phrase(Branch("S", (*children(first.english), stop.english)), first.french + stop.french)
        parts = [first]
        for other in others:
            parts += [comma(), conjunction(self.rng.choice(("and", "and", "but"))), other]
        return rule("S", (*parts, stop))


def determined(
    determiner: Determiner, adjectives: Sequence[Adjective], noun: Noun, plural: bool, negated: bool = False
) -> NounPhrase:
    """NP -> DT JJ JJ NN: each adjective before or after the French noun, everything in agreement with it."""
    gender = noun.gender
    if negated and determiner.english == "some":
        determiner = ANY
    first = next((adjective for adjective in adjectives if adjective.before_noun), None)
    head = pair("NNS" if plural else "NN", noun.english[plural], noun.french[plural])
    before = [] if first is None else [pair("JJ", first.english, first.agree(gender, plural, noun.french[plural]))]
    after = [pair("JJ", a.english, a.agree(gender, plural)) for a in adjectives if not a.before_noun]
    french = determiner.agree(gender, plural, (before[0] if before else head).french[0].text)
    if (negated and determiner.english == "a") or (french == "des" and before):
        french = "de"  # "elle n' a pas vu de chat"; "de petits chats"
    english_words = [a.english for a in adjectives] + [noun.english[plural]]
    english = "an" if determiner.english == "a" and takes_an(english_words[0]) else determiner.english
    article = pair(determiner.tag, english, french)
    phrase = rule("NP", english=(article, *before, *after, head), french=(article, *before, head, *after))
    return NounPhrase(phrase.english, phrase.french, gender, plural, 3, noun.kinds)


def takes_an(word: str) -> bool:
    """Whether the English indefinite article before this word is "an"."""
    return word[0] in "aeiou" or word == "honest"


def extended(core: NounPhrase, modifier: Phrase) -> NounPhrase:
    """NP -> NP PP | NP SBAR."""
    phrase = rule("NP", (core, modifier))
    return replace(core, english=phrase.english, french=phrase.french)


def fronted(adverbial: Phrase, main: Phrase) -> Phrase:
    """S -> adverbial , NP VP."""
    mark = comma()
    tree = Branch("S", (adverbial.english, mark.english, *children(main.english)))
    return Phrase(tree, adverbial.french + mark.french + main.french)


def closed(main: Phrase, adverbial: Phrase) -> Phrase:
    """S -> NP VP, where the adverbial is the last part of the verb phrase."""
    subject, verb_phrase = children(main.english)
    tree = Branch("S", (subject, Branch("VP", (*children(verb_phrase), adverbial.english))))
    return Phrase(tree, main.french + adverbial.french)


def in_front_of(ground: Phrase) -> Phrase:
    """PP -> in NP, NP -> NP PP, NP -> front, PP -> of NP; "devant" translates all three words."""
    words = (Leaf("IN", "in"), Leaf("NN", "front"), Leaf("IN", "of"))
    side = Branch("NP", (Branch("NP", words[1:2]), Branch("PP", (words[2], ground.english))))
    return Phrase(Branch("PP", (words[0], side)), french_words("devant", *words) + ground.french)


# ---------------------------------------------------------------------------------------------------------------------
# Sentence pairs
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SentencePair:
    """A sentence pair with its gold annotation.

    Attributes:
        source: English words.
        target: French words.
        alignment: links (i, j), sorted, from 0: source word i translates to target word j.
        parse: the English parse in Penn Treebank brackets on one line; its leaves are `source`.
    """

    source: list[str]
    target: list[str]
    alignment: list[tuple[int, int]]
    parse: str


def leaves(tree: Leaf | Branch) -> list[Leaf]:
    """The leaves of a tree from left to right."""
    return [tree] if isinstance(tree, Leaf) else [leaf for child in tree.children for leaf in leaves(child)]


def brackets(tree: Leaf | Branch) -> str:
    """A tree in Penn Treebank brackets."""
    if isinstance(tree, Leaf):
        return f"({tree.tag} {tree.word})"
    return f"({tree.label} {' '.join(brackets(child) for child in tree.children)})"


def finish(phrase: Phrase) -> SentencePair:
    """Spell a derivation out: contraction, elision, and word positions for the links."""
    words = leaves(phrase.english)
    position = {leaf: index for index, leaf in enumerate(words)}
    french = elide(contract(phrase.french))
    links = [(position[leaf], j) for j, word in enumerate(french) for leaf in word.links]
    unique = sorted(dict.fromkeys(links))
    return SentencePair([leaf.word for leaf in words], [word.text for word in french], unique, brackets(phrase.english))


def _draw_length(rng: random.Random, longest: int) -> int:
    # 85% of the sentences around 11 words, 15% in a tail up to the longest.
    if longest > 16 and rng.random() < 0.15:
        return rng.randrange(16, longest + 1)
    return min(longest, SHORTEST + rng.randrange(9) + rng.randrange(9))


def generate(size: int, seed: int, longest: int = LONGEST) -> Iterator[SentencePair]:
    """Generate sentence pairs, no two of them with the same English sentence.

    Args:
        size: number of pairs.
        seed: the same seed gives the same pairs; a smaller `size` gives the first of them.
        longest: English words, punctuation included, of the longest sentence.

    Yields:
        Sentence pairs of 3 to `longest` English words.

    Raises:
        ValueError: `size` is not positive, `longest` is below 8, or the grammar has no more sentences that short.
    """
    if size < 1:
        raise ValueError(f"the number of sentence pairs must be positive, not {size}")
    if longest < 8:
        raise ValueError(f"the longest sentence must have at least 8 words, not {longest}")
    rng = random.Random(seed)
    grammar = Grammar(rng)
    seen: set[str] = set()
    misses = 0
    while len(seen) < size:
        room = _draw_length(rng, longest)
        made = finish(grammar.sentence(room))
        length, key = len(made.source), " ".join(made.source)
        if not SHORTEST <= length <= longest or key in seen:
            misses += 1
            if misses > 10000:
                raise ValueError(f"the grammar has too few sentences of at most {longest} words for {size} pairs")
            continue
        misses = 0
        seen.add(key)
        yield made


def write_corpus(
    folder: str | Path, sizes: Mapping[str, int] = DEFAULT_SIZES, seed: int = 1, longest: int = LONGEST
) -> dict[str, list[SentencePair]]:
    """Write a corpus whose parts share no English sentence.

    For each part, `<part>.en` and `<part>.fr` hold the sentences, `<part>.align` the gold word alignment (Pharaoh
    format, `i-j` from 0, English first) and `<part>.penn` the English parse; one line per pair, UTF-8. A record
    (`rnnsearch_fairseq.files.preparation`) says how text that people write becomes these words.

    Args:
        folder: where to write; made if it is not there.
        sizes: number of sentence pairs of each part, like {"train": 12000, "valid": 500, "test": 1000}.
        seed: seed of the corpus.
        longest: English words of the longest sentence.

    Returns:
        The sentence pairs of each part.

    Raises:
        ValueError: a size is not positive, or see `generate`.
        OSError: the folder or a file in it cannot be written.
    """
    for part, size in sizes.items():
        if size < 1:
            raise ValueError(f"the number of {part} sentence pairs must be positive, not {size}")
    pairs = list(generate(sum(sizes.values()), seed, longest))
    # The stream runs out of short sentences as it goes on; shuffled, all parts have the same mix of lengths.
    random.Random(seed).shuffle(pairs)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_record(folder, {"en": PLAIN_MOSES, "fr": PLAIN_MOSES})
    parts: dict[str, list[SentencePair]] = {}
    start = 0
    for part, size in sizes.items():
        parts[part] = pairs[start : start + size]
        start += size
        _write_part(folder, part, parts[part])
    return parts


def _write_part(folder: Path, part: str, pairs: Sequence[SentencePair]) -> None:
    files = {
        "en": [" ".join(pair.source) for pair in pairs],
        "fr": [" ".join(pair.target) for pair in pairs],
        "align": [" ".join(f"{i}-{j}" for i, j in pair.alignment) for pair in pairs],
        "penn": [pair.parse for pair in pairs],
    }
    for ending, lines in files.items():
        with open(folder / f"{part}.{ending}", "w", encoding="utf-8", newline="\n") as file:
            file.write("".join(line + "\n" for line in lines))


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status, 2 for arguments that cannot be followed."""
    parser = argparse.ArgumentParser(
        description="Write a small English-French corpus with gold word alignments and English parses.",
    )
    parser.add_argument("folder", metavar="OUT_DIR", help="folder for train.en, train.fr, train.align, train.penn, ...")
    for part, size in DEFAULT_SIZES.items():
        parser.add_argument(f"--{part}", type=int, default=size, metavar="N", help=f"{part} sentence pairs ({size})")
    parser.add_argument("--seed", type=int, default=1, help="seed of the corpus (1)")
    parser.add_argument("--longest", type=int, default=LONGEST, help=f"words of the longest sentence ({LONGEST})")
    options = parser.parse_args(arguments)
    sizes = {part: getattr(options, part) for part in DEFAULT_SIZES}
    try:
        parts = write_corpus(options.folder, sizes, options.seed, options.longest)
    except ValueError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"{parser.prog}: cannot write to {options.folder}: {error.strerror}", file=sys.stderr)
        return 2
    for part, pairs in parts.items():
        english = sum(len(pair.source) for pair in pairs)
        french = sum(len(pair.target) for pair in pairs)
        print(
            f"{Path(options.folder) / part}.{{en,fr,align,penn}}: {len(pairs)} sentences, {english} English and "
            f"{french} French words, {english / len(pairs):.1f} English words per sentence"
        )
    return 0
