"""Trees and their transitions, and the readers of parsers' output, against recursive definitions and real parses."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.modules.forest import Tree
from rnnsearch_fairseq.text.trees import (
    READERS,
    NoParse,
    Parse,
    first_difference,
    format_transitions,
    parse_transitions,
    read_enju,
    read_penn,
)

SHARED = Path(__file__).resolve().parents[3] / "shared"
ENJU, MODEL = SHARED / "data/enju", SHARED / "reference/tree2seq-model"


# A tree by its definition: a word is its position, a phrase the list of its two parts.
Nested = Any


def nested_trees(start: int, end: int) -> Iterator[Nested]:
    if end - start == 1:
        yield start
    for split in range(start + 1, end):
        for left in nested_trees(start, split):
            for right in nested_trees(split, end):
                yield [left, right]


def words_of(tree: Nested) -> list[int]:
    return [tree] if isinstance(tree, int) else words_of(tree[0]) + words_of(tree[1])


def transitions_of(tree: Nested) -> str:
    return "S" if isinstance(tree, int) else f"{transitions_of(tree[0])} {transitions_of(tree[1])} R"


def phrases_of(tree: Nested) -> list[Nested]:
    return [] if isinstance(tree, int) else [tree, *phrases_of(tree[0]), *phrases_of(tree[1])]


def spans_of(tree: Nested) -> list[tuple[int, int]]:
    return [(words_of(phrase)[0], words_of(phrase)[-1] + 1) for phrase in phrases_of(tree)]


def nested(tree: Tree) -> Nested:
    """The nested form of a tree, from its children."""
    made: dict[int, Nested] = {word: word for word in range(tree.leaves)}
    for phrase, children in reversed([*enumerate(tree.children(), tree.leaves)]):
        made[phrase] = [made[child] for child in children]
    return made[tree.leaves] if tree.splits else 0


ALL_TREES = [tree for leaves in range(1, 7) for tree in nested_trees(0, leaves)]


def test_every_small_tree_is_what_its_definition_says() -> None:
    assert len(ALL_TREES) == 1 + 1 + 2 + 5 + 14 + 42
    for by_definition in ALL_TREES:
        line = transitions_of(by_definition)
        tree = parse_transitions(line)
        assert tree is not None
        assert format_transitions(tree) == line
        assert tree.leaves == len(words_of(by_definition)) == line.count("S")
        assert tree.spans() == spans_of(by_definition)
        assert nested(tree) == by_definition
    assert parse_transitions(" -\n") is None
    assert format_transitions(None) == "-"


@pytest.mark.parametrize("line", ["", "S S R R", "S S R S", "S -"])
def test_malformed_transitions_are_refused(line: str) -> None:
    with pytest.raises(InputError, match=r"^train\.tree, line 7: "):
        parse_transitions(line, "train.tree, line 7")


DEEP = 100_000


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("(X " * DEEP + "w" + " w)" * DEEP, [(0, n) for n in range(DEEP + 1, 1, -1)]),
        ("(X w " * DEEP + "w" + ")" * DEEP, [(n, DEEP + 1) for n in range(DEEP)]),
        ("(X " * DEEP + "w" + ")" * DEEP, []),
    ],
    ids=["left", "right", "unary"],
)
def test_a_tree_as_deep_as_it_is_long(text: str, spans: list[tuple[int, int]]) -> None:
    parse = read_penn(text)
    assert isinstance(parse, Parse)
    assert parse.tree.spans() == spans
    assert len(parse.tree.children()) == len(spans)
    assert parse_transitions(format_transitions(parse.tree)) == parse.tree
    enju = text.replace("(X ", "<cons>").replace(")", "</cons>").replace(" ", "").replace("w", "<tok>w</tok>")
    assert read_enju(f'<sentence parse_status="success">{enju}</sentence>') == parse


# Penn brackets


@pytest.mark.parametrize(
    ("text", "leaves", "transitions"),
    [
        ("(S (NP (PRP he)) (VP (VBD slept)) (. .))", "he slept .", "SSSRR"),
        ("(ROOT\n  (S\n    (NP (PRP he))\n    (VP (VBD slept))))\n", "he slept", "SSR"),
        ("( (S (A a) (B b)))", "a b", "SSR"),
        ("(X (X a b c) d (X e f g))", "a b c d e f g", "SSSRRSSSSRRRR"),
        ("(A (B (C (D x))))", "x", "S"),
        ("(A (B) (C ()) (D x) (()) (E y) ((F)))", "x y", "SSR"),
        ("(-LRB- -LRB-)", "-LRB-", "S"),
        ("  (S(A a)(B b))  ", "a b", "SSR"),
    ],
)
def test_penn_brackets(text: str, leaves: str, transitions: str) -> None:
    parse = read_penn(text)
    assert isinstance(parse, Parse) and parse.tree.leaves == len(parse.words)
    assert (" ".join(parse.words), format_transitions(parse.tree).replace(" ", "")) == (leaves, transitions)


EMPTY = [" \n", "(())", "(X (Y ))"]
BROKEN = ["(S (A a)", "(S (A a)))", "(A a) (B b)", "a (A a)", "(A a) a"]


@pytest.mark.parametrize(
    ("text", "reason"), [(text, NoParse.EMPTY) for text in EMPTY] + [(text, NoParse.UNUSABLE) for text in BROKEN]
)
def test_penn_brackets_without_a_tree(text: str, reason: NoParse) -> None:
    assert read_penn(text) is reason


# Enju


def enju(inside: str, status: str = "success") -> str:
    return f'<sentence id="s1" parse_status="{status}" fom="1.5">{inside}</sentence>'


def tok(word: str) -> str:
    return f'<cons id="c1" cat="N"><tok id="t1" cat="N" lexentry="[&lt;N&gt;]">{word}</tok></cons>'


@pytest.mark.parametrize(
    ("inside", "leaves", "transitions"),
    [
        (f"<cons>{tok('He')} {tok('slept')}</cons>.", "He slept", "S S R"),
        (f"<cons>{tok('Well')}? <cons>{tok('you')} {tok('come')}</cons></cons>?", "Well you come", "S S S R R"),
        (f"<cons>{tok('a')}{tok('b')}{tok('c')}</cons>", "a b c", "S S S R R"),
        (f"<cons>{tok('a')}<cons></cons>{tok(' ')}{tok('b')}</cons>", "a b", "S S R"),
        (tok("&lt;&amp;&quot;&apos;&gt;&#x61;&#98;é"), "<&\"'>abé", "S"),
        (tok("AT&amp;lt;T"), "AT&lt;T", "S"),
    ],
)
def test_enju(inside: str, leaves: str, transitions: str) -> None:
    parse = read_enju(f"{enju(inside)}\r\n")
    assert isinstance(parse, Parse)
    assert parse.words == leaves.split()
    assert format_transitions(parse.tree) == transitions


BOMB = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10 if n else "ha" * 1000}">' for n in range(10))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (" \n", NoParse.EMPTY),
        (enju("<cons></cons>"), NoParse.EMPTY),
        (enju(tok("a"), "fragmental parse"), NoParse.STATUS),
        (f"<sentence>{tok('a')}</sentence>", NoParse.STATUS),
        ("(S (A a))", NoParse.UNUSABLE),
        (enju(tok("a") + tok("b")), NoParse.UNUSABLE),
        (enju(tok("a")) * 2, NoParse.UNUSABLE),
        (enju(tok("a"))[:-1], NoParse.UNUSABLE),
        (enju(tok("a")) + "a", NoParse.UNUSABLE),
        (enju(tok("a & b")), NoParse.UNUSABLE),
        (f"<!DOCTYPE sentence [{BOMB}]>{enju(tok('&e9;'))}", NoParse.UNUSABLE),
        (f'<!DOCTYPE sentence [<!ENTITY e SYSTEM "file:///etc/passwd">]>{enju(tok("&e;"))}', NoParse.UNUSABLE),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else value.name,
)
def test_enju_without_a_tree(text: str, reason: NoParse) -> None:
    assert read_enju(text) is reason


@pytest.mark.skipif(not (ENJU.is_dir() and MODEL.is_dir()), reason=f"not ours to ship, and not there: {ENJU}, {MODEL}")
@pytest.mark.parametrize(("split", "phrases"), [("train", 3542), ("dev", 105)])
def test_enju_trees_are_those_of_the_original(split: str, phrases: int) -> None:
    stored = json.loads((MODEL / ("train_ids.json" if split == "train" else "softmax.json")).read_text())
    references = stored if split == "train" else stored["dev"]
    sources, parses = ((ENJU / f"{split}.{side}").read_text().split("\n")[:-1] for side in ("en", "enju"))
    found = 0
    for source, text, reference in zip(sources, parses, references, strict=True):
        parse = read_enju(text)
        assert isinstance(parse, Parse)
        assert nested(parse.tree) == reference["tree"]
        assert first_difference(parse.words, source.split(), lowercase=True) is None
        assert len(reference["src"]) == len(source.split()) + 1, "the original's words are the source's"
        if "phrase_spans" in reference:
            assert parse.tree.spans() == [tuple(span) for span in reference["phrase_spans"]]
        found += len(parse.tree.splits)
    assert found == phrases


# Leaves and words


@pytest.mark.parametrize(
    ("leaf", "word"),
    [
        *[("-LRB-", "("), ("(", "-LRB-"), ("-lrb-", "-LRB-"), ("-LSB-", "&#91;"), (":-RRB-", ":)"), ("``", '"')],
        *[("''", "&quot;"), ("``", "“"), ("'s", "&apos;s"), ("1\\/2", "1/2"), ("AT&T", "AT&amp;T"), ("|", "&#124;")],
    ],
)
def test_a_word_may_be_written_in_several_ways(leaf: str, word: str) -> None:
    assert first_difference([leaf], [word]) is None
    assert first_difference([word], [leaf]) is None


@pytest.mark.parametrize(
    ("leaves", "words", "lowercase", "position"),
    [
        ("a b", "a b . !? ) '' -RRB- &quot; …", False, None),
        ("a b", "a b . c .", False, 4),
        ("a b", "a b 's", False, 3),
        ("a b", "a", False, 2),
        ("a", "", False, 1),
        ("a x c", "a b c", False, 2),
        ("The US", "the us", False, 1),
        ("The US", "the us", True, None),
        ("The US", "the US", True, 2),
        ("-LRB- A", "( a", True, None),
        ("-LſB-", "-lsb-", False, 1),
    ],
)
def test_leaves_and_words(leaves: str, words: str, lowercase: bool, position: int | None) -> None:
    found = first_difference(leaves.split(), words.split(), lowercase)
    assert (found and found.split()[1]) == (position and str(position))


# Hostile input


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("penn", "(" * 10**6),
        ("penn", "(X" + " a" * 500_000 + ")"),
        ("penn", "(X " + "-LRB-&quot;" * 90_000 + ")"),
        ("enju", '<sentence parse_status="success">' + "<cons>" * 160_000),
        ("enju", '<sentence parse_status="success"' + "".join(f" a{n}=''" for n in range(100_000)) + "/>"),
        ("enju", enju(tok("&amp;" * 200_000))),
        ("enju", enju("<cons>" + "<tok>a</tok>" * 80_000 + "</cons>")),
    ],
    ids=lambda value: value[:12].strip("<>"),
)
def test_a_million_characters_are_read(form: str, text: str) -> None:
    parse = READERS[form](text)
    if isinstance(parse, Parse):
        assert len(format_transitions(parse.tree)) == 4 * parse.tree.leaves - 3
        assert first_difference(parse.words, parse.words[::-1], lowercase=True) is None
