"""Verbs in both languages: tense, negation, auxiliaries, and what stands before and after the verb."""

from __future__ import annotations

from dataclasses import dataclass

from recipes.grammar.lexicon import AUXILIARIES, Verb, agree_participle
from recipes.grammar.phrases import Branch, FrenchWord, Leaf, NounPhrase, Phrase, french_words


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
        finite = FrenchWord(AUXILIARIES[tense][subject.slot], (modal,))
        return VerbGroup(modal, negative, (), Leaf("VB", verb.base), finite, verb.infinitive)
    if tense == "past":
        auxiliary = Leaf("VBD", "did") if support else None
        head = Leaf("VB", verb.base) if support else Leaf("VBD", verb.past)
        forms = AUXILIARIES["être" if verb.takes_etre else "avoir"]
        return VerbGroup(auxiliary, negative, (), head, FrenchWord(forms[subject.slot], (auxiliary or head,)), "")
    auxiliary = (Leaf("VBZ", "does") if third else Leaf("VBP", "do")) if support else None
    tag = "VB" if support else "VBZ" if third else "VBP"
    if tense == "want":
        wish = Leaf(tag, "wants" if tag == "VBZ" else "want")
        finite = FrenchWord(AUXILIARIES["want"][subject.slot], (auxiliary, wish) if auxiliary else (wish,))
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


def particle(verb: Verb) -> tuple[Leaf, ...]:
    """The English preposition of a verb, if it has one. "to" is TO in the Penn Treebank, whatever it does."""
    return (Leaf("TO" if verb.preposition == "to" else "IN", verb.preposition),) if verb.preposition else ()
