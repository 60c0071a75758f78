"""Trees, their transitions and Penn brackets, against recursive definitions."""

from collections.abc import Iterator
from typing import Any

import pytest

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.modules.forest import Tree
from rnnsearch_fairseq.text.trees import NoParse, Parse, first_difference, parse_transitions, read_penn
from tests.plugin.builders import transitions_of

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


def spans_of(tree: Nested) -> list[tuple[int, int]]:
    if isinstance(tree, int):
        return []
    return [(words_of(tree)[0], words_of(tree)[-1] + 1), *spans_of(tree[0]), *spans_of(tree[1])]


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
        assert tree.leaves == len(words_of(by_definition)) == line.count("S")
        assert tree.spans() == spans_of(by_definition)
        assert nested(tree) == by_definition
    assert parse_transitions(" -\n") is None


@pytest.mark.parametrize("line", ["", "S S R R", "S S R S", "S -"])
def test_malformed_transitions_are_refused(line: str) -> None:
    with pytest.raises(InputError, match=r"^train\.tree, line 7: "):
        parse_transitions(line, "train.tree, line 7")


DEEP = 20_000


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


# Penn brackets


@pytest.mark.parametrize(
    ("text", "leaves", "transitions"),
    [
        ("(S (NP (PRP he)) (VP (VBD slept)) (. .))", "he slept .", "SSSRR"),
        ("(ROOT\n  (S\n    (NP (PRP he))\n    (VP (VBD slept))))\n", "he slept", "SSR"),
        ("( (S (A a) (B b)))", "a b", "SSR"),
        ("(X (X a b c) d (X e f g))", "a b c d e f g", "SSSRRSSSSRRRR"),
        ("(A (B) (C ()) (D x) (()) (E y) ((F)))", "x y", "SSR"),
        ("(-LRB- -LRB-)", "-LRB-", "S"),
        ("  (S(A a)(B b))  ", "a b", "SSR"),
    ],
)
def test_penn_brackets(text: str, leaves: str, transitions: str) -> None:
    parse = read_penn(text)
    assert isinstance(parse, Parse) and parse.tree.leaves == len(parse.words)
    assert (" ".join(parse.words), parse.transitions.replace(" ", "")) == (leaves, transitions)


EMPTY = [" \n", "(())", "(X (Y ))"]
BROKEN = ["(S (A a)", "(S (A a)))", "(A a) (B b)", "a (A a)", "(A a) a"]
REASONS = dict.fromkeys(EMPTY, NoParse.EMPTY) | dict.fromkeys(BROKEN, NoParse.UNUSABLE)


@pytest.mark.parametrize(("text", "reason"), REASONS.items())
def test_penn_brackets_without_a_tree(text: str, reason: NoParse) -> None:
    assert read_penn(text) is reason


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
        ("a b", "a", False, 2),
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
