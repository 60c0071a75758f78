"""The synchronous grammar: what its rules write, and what holds for every pair of the corpus."""

from __future__ import annotations

import hashlib
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from rnnsearch_fairseq import grammar
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.grammar import SentencePair, derivations, lexicon, phrases, verbs
from rnnsearch_fairseq.grammar.corpus import finish
from rnnsearch_fairseq.grammar.phrases import Leaf, NounPhrase, Phrase
from rnnsearch_fairseq.grammar.verbs import Complement

SEED = 7
KNOWN_NAMES = {cells[0] for cells in lexicon.NAMES + lexicon.CITIES} | {"I", "Mr", "Mrs"}


@pytest.fixture(scope="module")
def corpus() -> list[SentencePair]:
    return list(grammar.generate(3000, SEED))


@pytest.fixture(scope="module")
def french_text(corpus: list[SentencePair]) -> str:
    return "\n".join(" ".join(pair.target) for pair in corpus)


def rare_names(pair: SentencePair) -> list[str]:
    return [word for word in pair.source if word[0].isupper() and word not in KNOWN_NAMES]


# -- single rules against translations written by hand --


def noun(english: str) -> lexicon.Noun:
    return next(noun for noun in lexicon.NOUNS if noun.english[0] == english)


def np(determiner: str, *words: str, plural: bool = False, negated: bool = False) -> NounPhrase:
    *adjectives, head = words
    chosen = [next(a for a in lexicon.ADJECTIVES if a.english == adjective) for adjective in adjectives]
    article = next(d for d in lexicon.DETERMINERS if d.english == determiner)
    return phrases.determined(article, chosen, noun(head), plural, negated)


def pronoun(english: str) -> NounPhrase:
    cells = next(cells for cells in lexicon.SUBJECT_PRONOUNS if cells[0] == english)
    word = phrases.pair("PRP", cells[0], cells[1])
    gender = None if cells[2] == "-" else cells[2]
    tree = phrases.rule("NP", (word,)).english
    return NounPhrase(tree, word.french, gender, cells[4] == "pl", int(cells[3]))


def with_object(phrase: Phrase) -> Complement:
    return Complement((phrase.english,), french=phrase.french)


def clitic(english: str, french: str, agreement: tuple[str, bool] | None = None) -> Complement:
    leaf = Leaf("PRP", english)
    return Complement((leaf,), phrases.french_words(french, leaf), agreement=agreement)


def say(
    subject: NounPhrase, base: str, complement: Complement, tense: str = "present", negation: str = ""
) -> tuple[str, str]:
    verb = next(verb for verb in lexicon.VERBS if verb.base == base)
    group = verbs.verb_group(verb, subject, tense, negation, question=False)
    made = phrases.clause(subject, verbs.predicate(verb, subject, tense, group, complement).phrase())
    pair = finish(made)
    return " ".join(pair.source), " ".join(pair.target)


HIM = ("him", "le", ("m", False))
HER = ("her", "la", ("f", False))
NOTHING = Complement()


@pytest.mark.parametrize(
    ("said", "english", "french"),
    [
        (say(pronoun("she"), "see", clitic(*HIM)), "she sees him", "elle le voit"),
        (say(pronoun("I"), "admire", clitic(*HER)), "I admire her", "je l' admire"),
        (say(pronoun("he"), "see", clitic(*HER), "past"), "he saw her", "il l' a vue"),
        (
            say(pronoun("he"), "find", clitic("them", "les", ("m", True)), "past", "not"),
            "he did not find them",
            "il ne les a pas trouvés",
        ),
        (
            say(pronoun("we"), "help", clitic(*HIM), "can", "not"),
            "we can not help him",
            "nous ne pouvons pas l' aider",
        ),
        (say(pronoun("she"), "sleep", NOTHING, "want"), "she wants to sleep", "elle veut dormir"),
        (
            say(np("the", "queen", plural=True), "arrive", NOTHING, "past"),
            "the queens arrived",
            "les reines sont arrivées",
        ),
        (
            say(np("the", "child"), "buy", with_object(np("a", "small", "orange", negated=True)), negation="not"),
            "the child does not buy a small orange",
            "l' enfant n' achète pas de petite orange",
        ),
        (
            say(pronoun("they"), "eat", with_object(np("some", "egg", plural=True, negated=True)), "past", "never"),
            "they never ate any eggs",
            "ils n' ont jamais mangé d' œufs",
        ),
        (say(pronoun("I"), "write", with_object(np("my", "story"))), "I write my story", "j' écris mon histoire"),
    ],
)
def test_clauses_translate_as_written_by_hand(said: tuple[str, str], english: str, french: str) -> None:
    assert said == (english, french)


@pytest.mark.parametrize(
    ("phrase", "english", "french"),
    [
        (np("the", "old", "red", "umbrella"), "the old red umbrella", "le vieux parapluie rouge"),
        (np("a", "old", "bird"), "an old bird", "un vieil oiseau"),
        (np("some", "beautiful", "bird", plural=True), "some beautiful birds", "de beaux oiseaux"),
        (np("some", "green", "hat", plural=True), "some green hats", "des chapeaux verts"),
        (np("this", "hotel"), "this hotel", "cet hôtel"),
        (np("this", "beautiful", "hotel"), "this beautiful hotel", "ce bel hôtel"),
        (np("her", "story"), "her story", "son histoire"),
        (np("her", "new", "story"), "her new story", "sa nouvelle histoire"),
        (np("his", "key"), "his key", "sa clé"),
        (np("many", "happy", "actress", plural=True), "many happy actresses", "beaucoup d' actrices heureuses"),
        (np("these", "white", "horse", plural=True), "these white horses", "ces chevaux blancs"),
        (np("a", "honest", "man"), "an honest man", "un homme honnête"),
    ],
)
def test_noun_phrases_translate_as_written_by_hand(phrase: NounPhrase, english: str, french: str) -> None:
    pair = finish(phrase)
    assert (" ".join(pair.source), " ".join(pair.target)) == (english, french)


@pytest.mark.parametrize(
    ("preposition", "phrase", "french"),
    [
        (("to", "à"), np("the", "market"), "au marché"),
        (("to", "à"), np("the", "hotel"), "à l' hôtel"),
        (("to", "à"), np("the", "friend", plural=True), "aux amis"),
        (("of", "de"), np("the", "king"), "du roi"),
        (("of", "de"), np("the", "island"), "de l' île"),
        (("of", "de"), np("the", "actress", plural=True), "des actrices"),
        (("near", "près de"), np("some", "house", plural=True), "près de maisons"),
        (("near", "près de"), np("some", "big", "island", plural=True), "près de grandes îles"),
        (("near", "près de"), np("a", "school"), "près d' une école"),
    ],
)
def test_prepositions_contract_and_elide(preposition: tuple[str, str], phrase: NounPhrase, french: str) -> None:
    pair = finish(phrases.rule("PP", (phrases.pair("IN", *preposition), phrase)))
    assert " ".join(pair.target) == french


def test_negation_alignment_and_parse() -> None:
    verb = next(verb for verb in lexicon.VERBS if verb.base == "wait")
    subject, leaf, particle = pronoun("she"), Leaf("PRP", "him"), Leaf("IN", "for")
    group = verbs.verb_group(verb, subject, "past", "not", question=False)
    tree = phrases.Branch("PP", (particle, phrases.Branch("NP", (leaf,))))
    complement = Complement((tree,), phrases.french_words("le", leaf), (), ("m", False), (particle,))
    pair = finish(phrases.clause(subject, verbs.predicate(verb, subject, "past", group, complement).phrase()))
    assert " ".join(pair.source) == "she did not wait for him"
    assert " ".join(pair.target) == "elle ne l' a pas attendu"
    assert pair.alignment == [(0, 0), (1, 3), (2, 1), (2, 4), (3, 5), (4, 5), (5, 2)]
    assert pair.parse == ("(S (NP (PRP she)) (VP (VBD did) (RB not) (VP (VB wait) (PP (IN for) (NP (PRP him))))))")


# -- properties of all pairs --


def test_same_seed_same_pairs_on_every_python() -> None:
    pairs = list(grammar.generate(300, SEED))
    text = "\n".join(repr((p.source, p.target, p.alignment)) for p in pairs)
    assert hashlib.sha256(text.encode()).hexdigest() == (
        "db0b8f9652b764d06b9b371137d60f4e77a28fddec9d820fdf7e14b6bbb91d21"
    )
    parses = "\n".join(p.parse for p in pairs)
    assert hashlib.sha256(parses.encode()).hexdigest() == (
        "8ed156ac3ff768d8d175298eb79e79b45edc7250ec0f3d324c2eb1cbb95684ce"
    )


def test_lengths_span_the_whole_range(corpus: list[SentencePair]) -> None:
    lengths = [len(pair.source) for pair in corpus]
    assert min(lengths) == 3
    assert 55 <= max(lengths) <= 60
    assert 12 <= sum(lengths) / len(lengths) <= 16
    assert 0.04 <= sum(length > 40 for length in lengths) / len(lengths) <= 0.12


@pytest.mark.parametrize("longest", [8, 20])
def test_longest_is_respected(longest: int) -> None:
    assert max(len(pair.source) for pair in grammar.generate(300, SEED, longest)) in (longest - 1, longest)


def test_parse_is_balanced_and_its_leaves_are_the_sentence(corpus: list[SentencePair]) -> None:
    for pair in corpus:
        assert re.findall(r"\(\S+ ([^()\s]+)\)", pair.parse) == pair.source
        depths = [1 if symbol == "(" else -1 for symbol in pair.parse if symbol in "()"]
        assert sum(depths) == 0
        assert all(sum(depths[: index + 1]) > 0 for index in range(len(depths) - 1)), "more than one tree"
        assert re.match(r"\((S|SQ|SBARQ) \(", pair.parse)


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


def test_every_phrase_is_made_of_what_its_label_says(trees: list[list[Node]]) -> None:
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


def test_aligned_nouns_translate_each_other(corpus: list[SentencePair]) -> None:
    translation = {e: f for noun in lexicon.NOUNS for e, f in zip(noun.english, noun.french, strict=True)}
    for pair in corpus:
        for i, j in pair.alignment:
            if pair.source[i] in translation:
                assert pair.target[j] == translation[pair.source[i]]


@pytest.mark.parametrize(
    "wrong",
    [
        r"\b(le|la|je|me|ne|de|que|ce|ma|sa|beau|nouveau) [aàâeéèêiîoôœuûhAEH]",
        r"\b(le|un|ce|mon|son|chaque) vieux [aàâeéèêiîoôœuûh]",
        r"\b(de|à) (le (?![aàâeéèêiîoôœuûh])|les)",
        r"\bde (des|de)\b",
        r"\bsi ils?\b",
        r"\b[lndmj]' (?![aàâeéèêiîoôœuûhAEH])",
        r"  |\n ",
    ],
)
def test_forbidden_french_sequences_do_not_occur(french_text: str, wrong: str) -> None:
    found = re.search(wrong, french_text)
    assert found is None, french_text[max(0, found.start() - 40) : found.end() + 40]


def test_subject_of_unknown_gender_never_has_to_agree() -> None:
    """A bare rare name may be the subject of "est" before a place, not before a participle or an adjective."""
    word = phrases.pair("NNP", "Lidor", "Lidor")
    subject = NounPhrase(phrases.rule("NP", (word,)).english, word.french, None)
    places = 0
    for seed in range(1000):
        made = derivations.Grammar(random.Random(seed)).verb_phrase(subject, 4, tense=("", "past", "present")[seed % 3])
        if {"est", "était"} & {word.text for word in made.french[:2]}:
            assert isinstance(made.body, phrases.Branch)
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


# -- files and command line --


def test_written_parts_agree_and_share_no_sentence(tmp_path: Path) -> None:
    sizes = {"train": 800, "valid": 100, "test": 150}
    parts = grammar.write_corpus(tmp_path / "made", sizes, seed=3)
    sentences: list[str] = []
    for part, size in sizes.items():
        lines = {
            ending: (tmp_path / "made" / f"{part}.{ending}").read_bytes().decode("utf-8").split("\n")
            for ending in ("en", "fr", "align", "penn")
        }
        assert all(len(column) == size + 1 and column[-1] == "" for column in lines.values())
        assert lines["fr"][:-1] == [" ".join(pair.target) for pair in parts[part]]
        assert lines["align"][0] == " ".join(f"{i}-{j}" for i, j in parts[part][0].alignment)
        assert lines["penn"][0] == parts[part][0].parse
        sentences += lines["en"][:-1]
    assert len(set(sentences)) == sum(sizes.values())


def run(monkeypatch: pytest.MonkeyPatch, *words: str | Path) -> None:
    monkeypatch.setattr(sys, "argv", ["grammar", *map(str, words)])
    grammar.main()


def test_command_line_reports_what_it_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, tmp_path, "--train", "30", "--valid", "5", "--test", "5", "--longest", "20")
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 3
    assert "30 sentences" in printed[0]
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names[:5] == ["preparation.json", "test.align", "test.en", "test.fr", "test.penn"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--train", "0"], "--train is 0; give at least 1"),
        (["--test", "-4"], "--test is -4; give at least 1"),
        (["--longest", "2"], "the longest sentence must have at least 8 words, not 2"),
    ],
)
def test_bad_numbers_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        run(monkeypatch, tmp_path, *words)
    assert not list(tmp_path.iterdir())
