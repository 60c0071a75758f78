"""English constituents and their French translations, built together by rules; contraction and elision at the end."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from rnnsearch_fairseq.grammar.lexicon import (
    ANY,
    CONTRACTIONS,
    ELISIONS,
    Adjective,
    Determiner,
    Noun,
    starts_with_vowel,
)


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

    @classmethod
    def of(cls, label: str, parts: Sequence[Phrase], **features: Any) -> NounPhrase:
        """The noun phrase that a rule makes."""
        phrase = rule(label, parts)
        return cls(phrase.english, phrase.french, **features)

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


def leaves(tree: Leaf | Branch) -> list[Leaf]:
    """The leaves of a tree from left to right."""
    return [tree] if isinstance(tree, Leaf) else [leaf for child in tree.children for leaf in leaves(child)]


def brackets(tree: Leaf | Branch) -> str:
    if isinstance(tree, Leaf):
        return f"({tree.tag} {tree.word})"
    return f"({tree.label} {' '.join(brackets(child) for child in tree.children)})"


def comma() -> Phrase:
    return pair(",", ",", ",")


def conjunction(english: str) -> Phrase:
    return pair("CC", english, {"and": "et", "but": "mais"}[english])


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


def extended(core: NounPhrase, modifier: Phrase) -> NounPhrase:
    """NP -> NP PP | NP SBAR."""
    phrase = rule("NP", (core, modifier))
    return replace(core, english=phrase.english, french=phrase.french)


def prepositional(english: str, french: str, ground: Phrase) -> Phrase:
    """PP -> IN NP; "to" is TO in the Penn Treebank, whatever it does."""
    return rule("PP", (pair("TO" if english == "to" else "IN", english, french), ground))


def governed(preposition: tuple[Leaf, ...], tree: Leaf | Branch) -> Leaf | Branch:
    """PP -> IN NP in English alone, or the noun phrase as it is if the verb has no preposition."""
    return Branch("PP", (*preposition, tree)) if preposition else tree


def in_front_of(ground: Phrase) -> Phrase:
    """PP -> in NP, NP -> NP PP, NP -> front, PP -> of NP; "devant" translates all three words."""
    words = (Leaf("IN", "in"), Leaf("NN", "front"), Leaf("IN", "of"))
    side = Branch("NP", (Branch("NP", words[1:2]), Branch("PP", (words[2], ground.english))))
    return Phrase(Branch("PP", (words[0], side)), french_words("devant", *words) + ground.french)


def determined(
    determiner: Determiner, adjectives: Sequence[Adjective], noun: Noun, plural: bool, negated: bool = False
) -> NounPhrase:
    """NP -> DT JJ JJ NN: each adjective before or after the French noun, everything in agreement with it."""
    if negated and determiner.english == "some":
        determiner = ANY
    first = next((adjective for adjective in adjectives if adjective.before_noun), None)
    head = pair("NNS" if plural else "NN", noun.english[plural], noun.french[plural])
    before = [] if first is None else [pair("JJ", first.english, first.agree(noun.gender, plural, noun.french[plural]))]
    after = [pair("JJ", a.english, a.agree(noun.gender, plural)) for a in adjectives if not a.before_noun]
    french = determiner.agree(noun.gender, plural, (before[0] if before else head).french[0].text)
    if (negated and determiner.english == "a") or (french == "des" and before):
        french = "de"  # "elle n' a pas vu de chat"; "de petits chats"
    next_word = [*(adjective.english for adjective in adjectives), noun.english[plural]][0]
    takes_an = determiner.english == "a" and (next_word[0] in "aeiou" or next_word == "honest")
    article = pair(determiner.tag, "an" if takes_an else determiner.english, french)
    phrase = rule("NP", english=(article, *before, *after, head), french=(article, *before, head, *after))
    return NounPhrase(phrase.english, phrase.french, noun.gender, plural, kinds=noun.kinds)


def contract(words: Sequence[FrenchWord]) -> list[FrenchWord]:
    """Merge prepositions with articles ("de le" is "du", but "de l' homme" stays); a merged word has both its links."""
    merged: list[FrenchWord] = []
    for index, word in enumerate(words):
        following = words[index + 1].text if index + 1 < len(words) else ""
        elides = word.text == "le" and following != "" and starts_with_vowel(following)
        contraction = CONTRACTIONS.get((merged[-1].text, word.text)) if merged and not elides else None
        if contraction is None:
            merged.append(word)
        else:
            merged[-1] = FrenchWord(contraction, merged[-1].links + word.links)
    return merged


def elide(words: Sequence[FrenchWord]) -> list[FrenchWord]:
    """Drop the final vowel of "le", "que", ... before a vowel, and the vowel of "si" before "il" and "ils"."""
    elided = list(words)
    for index, (word, following) in enumerate(itertools.pairwise(words)):
        if word.text in ELISIONS and starts_with_vowel(following.text):
            elided[index] = FrenchWord(ELISIONS[word.text], word.links)
        elif word.text == "si" and following.text in ("il", "ils"):
            elided[index] = FrenchWord("s'", word.links)
    return elided
