"""English constituents and their French translations, built together by rules; contraction and elision at the end."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from recipes.grammar.lexicon import CONTRACTIONS, ELISIONS, starts_with_vowel


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

    @property
    def words(self) -> list[Leaf]:
        """The English words."""
        return leaves(self.english)


@dataclass(frozen=True)
class NounPhrase(Phrase):
    """A noun phrase with what agrees with it; `gender` is None where no English word decides it."""

    gender: str | None = None
    plural: bool = False
    person: int = 3
    kinds: tuple[str, ...] = ("person",)

    @classmethod
    def make(cls, label: str, parts: Sequence[Phrase], **features: Any) -> NounPhrase:
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


def leaves(tree: Leaf | Branch) -> list[Leaf]:
    """The leaves of a tree from left to right."""
    return [tree] if isinstance(tree, Leaf) else [leaf for child in tree.children for leaf in leaves(child)]


def brackets(tree: Leaf | Branch) -> str:
    if isinstance(tree, Leaf):
        return f"({tree.tag} {tree.word})"
    return f"({tree.label} {' '.join(brackets(child) for child in tree.children)})"


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
