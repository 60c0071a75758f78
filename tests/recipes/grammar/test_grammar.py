"""The synchronous grammar: what its rules write, and what holds for every pair of the corpus."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from recipes import grammar
from recipes.grammar import SentencePair, derivations, lexicon, phrases
from recipes.grammar.phrases import NounPhrase
from rnnsearch_fairseq.errors import InputError
from tests.recipes.reproduce.builders import printed_by

SEED = 7
KNOWN_NAMES = {cells[0] for cells in lexicon.NAMES + lexicon.CITIES} | {"I", "Mr", "Mrs"}


@pytest.fixture(scope="module")
def corpus() -> list[SentencePair]:
    return list(grammar.generate(3000, SEED))


def rare_names(pair: SentencePair) -> list[str]:
    return [word for word in pair.source if word[0].isupper() and word not in KNOWN_NAMES]


def test_same_seed_same_pairs_on_every_python(corpus: list[SentencePair]) -> None:
    texts = [repr((p.source, p.target, p.alignment)) for p in corpus[:300]], [p.parse for p in corpus[:300]]
    assert [hashlib.sha256("\n".join(lines).encode()).hexdigest() for lines in texts] == [
        "db0b8f9652b764d06b9b371137d60f4e77a28fddec9d820fdf7e14b6bbb91d21",
        "8ed156ac3ff768d8d175298eb79e79b45edc7250ec0f3d324c2eb1cbb95684ce",
    ]


def test_lengths_span_the_whole_range(corpus: list[SentencePair]) -> None:
    lengths = [len(pair.source) for pair in corpus]
    assert min(lengths) == 3 and 55 <= max(lengths) <= 60
    assert 12 <= sum(lengths) / len(lengths) <= 16
    assert 0.04 <= sum(length > 40 for length in lengths) / len(lengths) <= 0.12
    assert max(len(pair.source) for pair in grammar.generate(300, SEED, longest=8)) in (7, 8)


class Node(NamedTuple):
    """A phrase or tagged word: words `start` to `end` - 1; `parts` has the labels below, none for a word."""

    label: str
    start: int
    end: int
    parts: tuple[str, ...]
    height: int


def nodes(parse: str) -> Iterator[Node]:
    """The nodes of a tree in brackets, the root last."""
    position = 0
    open_nodes: list[tuple[str, int, list[Node]]] = []
    for symbol in re.findall(r"\([^\s()]+|\)|[^\s()]+", parse):
        if symbol[0] == "(":
            open_nodes.append((symbol[1:], position, []))
        elif symbol != ")":
            position += 1
        else:
            label, start, below = open_nodes.pop()
            height = 1 + max(node.height for node in below) if below else 0
            closed = Node(label, start, position, tuple(node.label for node in below), height)
            if open_nodes:
                open_nodes[-1][2].append(closed)
            yield closed


@pytest.fixture(scope="module")
def trees(corpus: list[SentencePair]) -> list[list[Node]]:
    return [list(nodes(pair.parse)) for pair in corpus]


# What a phrase may be made of, as the Penn Treebank brackets it: its daughters' labels with a space between them.
DAUGHTERS = {
    "S": r"((NP|SBAR) , )?NP VP( \.)?|VP|S( , CC S)+ \.",
    "SQ": r"(VB.|MD) NP (VP|ADJP|PP)( \.)?|VP",
    "SBARQ": r"(WHNP|WHADVP) SQ \.",
    "SBAR": "(IN|WHNP|WHADVP) S",
    "NP": r"((DT|PRP\$|CD|JJ)( JJ)* NNS?|(NNP? )?NNP)( POS)?|NN|PRP|NP (PP|SBAR|NNS?)|NP( , NP)* CC NP",
    "VP": "((ADVP )?VB.?( NP| PP| NP PP| ADJP| ADVP| S| SBAR)?|(VB.|MD)( RB)? (VP|ADJP|PP)|VP CC VP)( SBAR)?|TO VP",
    "PP": "(IN|TO)( NP)?",
    "ADJP": "(RB )?JJ|RBR JJ PP",
    "ADVP": "RB",
    "WHNP": "WP|WDT",
    "WHADVP": "WRB",
}


def test_every_phrase_is_made_of_what_its_label_says(corpus: list[SentencePair], trees: list[list[Node]]) -> None:
    for pair, tree in zip(corpus, trees, strict=True):
        assert re.findall(r"\(\S+ ([^()\s]+)\)", pair.parse) == pair.source
        assert (tree[-1].start, tree[-1].end) == (0, len(pair.source)) and tree[-1].label in ("S", "SQ", "SBARQ")
    phrases = {(node.label, " ".join(node.parts)) for tree in trees for node in tree if node.parts}
    assert {label for label, _ in phrases} == set(DAUGHTERS)
    assert not [(label, parts) for label, parts in phrases if not re.fullmatch(DAUGHTERS[label], parts)]


def test_noun_phrases_and_clauses_translate_to_unbroken_french(
    corpus: list[SentencePair], trees: list[list[Node]]
) -> None:
    """Tree and alignment agree. The possessive mark alone is translated on both sides of something else."""
    found = {"NP": 0, "S": 0, "SBAR": 0}
    for pair, tree in zip(corpus, trees, strict=True):
        for node in tree:
            if node.label in found and node.parts[-1] != "POS":
                french = {j for i, j in pair.alignment if node.start <= i < node.end}
                assert max(french) - min(french) + 1 == len(french), (pair.source[node.start : node.end], pair.target)
                found[node.label] += node.end - node.start > 1
    assert min(found.values()) > 1000


def test_every_word_of_both_sides_is_aligned_and_in_range(corpus: list[SentencePair]) -> None:
    for pair in corpus:
        assert {i for i, _ in pair.alignment} == set(range(len(pair.source)))
        assert {j for _, j in pair.alignment} == set(range(len(pair.target)))
        assert pair.alignment == sorted(set(pair.alignment))


FORBIDDEN = [
    r"\b(le|la|je|me|ne|de|que|ce|ma|sa|beau|nouveau) [aàâeéèêiîoôœuûhAEH]",
    r"\b(le|un|ce|mon|son|chaque) vieux [aàâeéèêiîoôœuûh]",
    r"\b(de|à) (le (?![aàâeéèêiîoôœuûh])|les)",
    r"\bde (des|de)\b",
    r"\bsi ils?\b",
    r"\b[lndmj]' (?![aàâeéèêiîoôœuûhAEH])",
    r"  |\n ",
]


def test_forbidden_french_sequences_do_not_occur(corpus: list[SentencePair]) -> None:
    french = "\n".join(" ".join(pair.target) for pair in corpus)
    assert [found[0] for wrong in FORBIDDEN if (found := re.search(f".*(?:{wrong}).*", french))] == []


def test_subject_of_unknown_gender_never_has_to_agree() -> None:
    """A bare rare name may be the subject of "est" before a place, not before a participle or an adjective."""
    word = phrases.pair("NNP", "Lidor", "Lidor")
    subject = NounPhrase(phrases.rule("NP", (word,)).english, word.french, None)
    places = 0
    for seed in range(1000):
        made = derivations.Grammar(random.Random(seed)).verb_phrase(subject, 4, tense=("", "past", "present")[seed % 3])
        if {"est", "était"} & {word.text for word in made.french[:2]}:
            assert made.body.label == "PP"
            places += 1
    assert places > 50


def test_rare_names_are_copied_and_are_as_frequent_as_promised(corpus: list[SentencePair]) -> None:
    with_names = [pair for pair in corpus if rare_names(pair)]
    assert 0.09 <= len(with_names) / len(corpus) <= 0.15
    for pair in with_names:
        assert len(rare_names(pair)) <= 2
        for name in rare_names(pair):
            assert pair.target.count(name) == pair.source.count(name)
            assert not lexicon.starts_with_vowel(name)
    seen = {name for pair in corpus[:2250] for name in rare_names(pair)}
    held_out = [name for pair in corpus[2250:] for name in rare_names(pair)]
    assert 0.2 <= sum(name not in seen for name in held_out) / len(held_out) < 1, "some names new, some known"


def test_the_command_writes_parts_that_share_no_sentence_and_refuses_bad_numbers(
    tmp_path: Path,
) -> None:
    sizes = {"train": 300, "valid": 20, "test": 30}
    words = [tmp_path / "out", *(word for part, size in sizes.items() for word in (f"--{part}", size))]
    for numbers, error in ((["--train", 0], SystemExit), (["--longest", 2], InputError)):
        with pytest.raises(error):
            printed_by(grammar.main, *words, *numbers)
    assert not (tmp_path / "out").exists()
    assert "train.{en,fr,align,penn}: 300 sentences" in printed_by(grammar.main, *words, "--longest", 20)
    columns = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "out").iterdir()}
    assert columns.pop("preparation.json")
    assert columns.keys() == {f"{part}.{ending}" for part in sizes for ending in ("align", "en", "fr", "penn")}
    assert {name: text.count("\n") for name, text in columns.items()} == {
        name: sizes[name.partition(".")[0]] for name in columns
    }
    assert len({line for part in sizes for line in columns[f"{part}.en"].splitlines()}) == sum(sizes.values())
    made = {" ".join(pair.source): pair for pair in grammar.generate(sum(sizes.values()), seed=1, longest=20)}
    for part in sizes:
        for lines in zip(*(columns[f"{part}.{ending}"].splitlines() for ending in ("en", "fr", "align", "penn"))):
            pair = made[lines[0]]
            links = " ".join(f"{i}-{j}" for i, j in pair.alignment)
            assert lines[1:] == (" ".join(pair.target), links, pair.parse)
