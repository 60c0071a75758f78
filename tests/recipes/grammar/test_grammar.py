"""The synchronous grammar: what its rules write, and what holds for every pair of the corpus."""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter
from pathlib import Path

import pytest

from recipes import grammar
from recipes.grammar import SentencePair, derivations, lexicon, phrases
from recipes.grammar.__main__ import main
from recipes.grammar.phrases import NounPhrase
from rnnsearch_fairseq.text.trees import read_penn
from tests.recipes.reproduce.builders import printed_by

SEED = 7
KNOWN_NAMES = {cells[0] for cells in lexicon.NAMES + lexicon.CITIES} | {"I", "Mr", "Mrs"}


@pytest.fixture(scope="module")
def corpus() -> list[SentencePair]:
    return list(grammar.generate(3000, SEED))


def rare_names(pair: SentencePair) -> list[str]:
    return [word for word in pair.source if word[0].isupper() and word not in KNOWN_NAMES]


def test_same_seed_same_pairs_on_every_python(corpus: list[SentencePair]) -> None:
    """The stored results are of this grammar, so it does not change."""
    texts = [repr((p.source, p.target, p.alignment)) for p in corpus], [p.parse for p in corpus]
    assert [hashlib.sha256("\n".join(lines).encode()).hexdigest() for lines in texts] == [
        "1ed9a03de27d9967bdb64b2a106477d3e7d449f5251da3d338b3095753450f8c",
        "e4242017c9cfee83d81eda8033c476470bc8b22e2d2312c3e22d7baeaf3055f5",
    ]


def test_lengths_span_the_whole_range(corpus: list[SentencePair]) -> None:
    lengths = [len(pair.source) for pair in corpus]
    assert min(lengths) == 3 and 55 <= max(lengths) <= 60
    assert 12 <= sum(lengths) / len(lengths) <= 16
    assert 0.04 <= sum(length > 40 for length in lengths) / len(lengths) <= 0.12
    assert max(len(pair.source) for pair in grammar.generate(300, SEED, longest=8)) in (7, 8)


def test_every_word_of_both_sides_is_aligned_and_in_the_tree(corpus: list[SentencePair]) -> None:
    for pair in corpus:
        assert read_penn(pair.parse).words == re.findall(r"\(\S+ ([^()\s]+)\)", pair.parse) == pair.source
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


SIZES = {"train": 61, "valid": 6, "test": 12}


@pytest.mark.parametrize("options", [[], ["--even"]])
def test_the_command_writes_parts_that_share_no_sentence(tmp_path: Path, options: list[object]) -> None:
    sizes = [word for part, size in SIZES.items() for word in (f"--{part}", size)]
    assert "train.{en,fr,align,penn}: 61 sentences" in printed_by(main, tmp_path, *sizes, *options)
    columns = {path.name: path.read_text(encoding="utf-8").splitlines() for path in tmp_path.iterdir()}
    assert columns.pop("preparation.json")
    assert {name.partition(".")[0]: len(lines) for name, lines in columns.items()} == SIZES and len(columns) == 12
    assert len({line for part in SIZES for line in columns[f"{part}.en"]}) == sum(SIZES.values())
    for source, target, links, tree in zip(*(columns[f"train.{ending}"] for ending in ("en", "fr", "align", "penn"))):
        assert read_penn(tree).words == source.split()
        places = [{*map(int, side)} for side in zip(*(link.split("-") for link in links.split()))]
        assert places == [{*range(len(side.split()))} for side in (source, target)]
    bins = [Counter((len(line.split()) - 1) // 10 for line in columns[f"{part}.en"]) for part in SIZES]
    even = [Counter({0: 11, **dict.fromkeys(range(1, 6), 10)}), Counter(range(6)), Counter(2 * [*range(6)])]
    assert (bins == even) == ("--even" in options)
