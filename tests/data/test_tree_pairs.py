"""Pairs with trees: batches, and what does not fit."""

from typing import Any

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary, LanguagePairDataset

from rnnsearch_fairseq.data.tree_pairs import TreePairs
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.modules.tree_lstm import Forest
from tests.builders import EOS, make_dictionary


class Lines(list):
    """Token sequences with their lengths, as fairseq's indexed data sets have them."""

    @property
    def sizes(self) -> np.ndarray:
        return np.array([len(line) for line in self])


TREES = Dictionary()
for _symbol in ("S", "R", "-"):
    TREES.add_symbol(_symbol)
SOURCES = [[5, 6, 7, EOS], [8, EOS], [9, 4, 4, 5, EOS], [6, 5, EOS]]
TARGETS = [[4, EOS], [5, 6, 7, 4, EOS], [4, 5, EOS], [7, EOS]]
TRANSITIONS = ["S S S R R", "S", "S S R S R", "-"]


def make_pairs(sources: list[list[int]] = SOURCES, **options: Any) -> LanguagePairDataset:
    lines = [Lines(map(torch.tensor, side)) for side in (sources, TARGETS)]
    words = (make_dictionary(8), make_dictionary(8))
    return LanguagePairDataset(lines[0], lines[0].sizes, words[0], lines[1], lines[1].sizes, words[1], **options)


def make_trees(lines: list[str] = TRANSITIONS) -> Lines:
    return Lines(TREES.encode_line(line, add_if_not_exist=False).long() for line in lines)


def make(trees: list[str] = TRANSITIONS, left: bool = False) -> TreePairs:
    return TreePairs(make_pairs(left_pad_source=left, shuffle=False), make_trees(trees), TREES)


@pytest.mark.parametrize("left", [False, True])
def test_a_batch_has_the_trees_of_its_sentences_in_its_order(left: bool) -> None:
    dataset = make(left=left)
    batch = dataset.collater([dataset[number] for number in (3, 0, 1, 2)])
    forest = Forest(*batch["net_input"]["trees"])
    order = batch["id"].tolist()
    assert order == [2, 0, 3, 1], "fairseq sorts by length"
    width = 5
    first = {number: width - len(SOURCES[number]) if left else 0 for number in order}
    base = {number: row * width + first[number] for row, number in enumerate(order)}
    assert forest.unparsed.tolist() == [number == 3 for number in order]
    assert (~forest.phrase_padding).sum(dim=1).tolist() == [2, 2, 0, 0]
    assert forest.roots[order.index(1)] == base[1], "a tree of one leaf is that leaf"
    spans = {}
    for row, (one, other) in enumerate(zip(forest.left.tolist(), forest.right.tolist())):
        spans[4 * width + row] = (spans.get(one, (one,)), spans.get(other, (other,)))

    def flat(tree: Any) -> list[int]:
        return [tree[0]] if len(tree) == 1 else [leaf for child in tree for leaf in flat(child)]

    leaves = {number: flat(spans[forest.roots[order.index(number)].item()]) for number in (0, 2)}
    assert leaves == {number: [base[number] + k for k in range(3)] for number in (0, 2)}
    assert spans[forest.roots[order.index(2)].item()][1] == (base[2] + 2,), "left-branching"
    assert spans[forest.roots[order.index(0)].item()][0] == (base[0],), "right-branching"


def test_sentences_without_a_parse_are_known() -> None:
    assert make().parsed.tolist() == [True, True, True, False]


@pytest.mark.parametrize(
    ("trees", "where"),
    [
        (TRANSITIONS[:3], "3 trees for 4 sources"),
        (["S S S R R", "S S R", "S", "-"], "line 2: "),  # more leaves than words
        (["S S", "S", "S", "-"], "line 1: "),  # two trees
        (["S S S R R", "S", "S R S", "-"], "line 3: "),  # nothing to join
        (["S S S R R", "S", "S", "- S -"], "line 4: "),  # not a transition
    ],
)
def test_trees_that_do_not_fit_are_refused(trees: list[str], where: str) -> None:
    with pytest.raises(InputError, match=where):
        make(trees)


@pytest.mark.parametrize("none", ["-", "x"])
def test_an_empty_source_has_no_parse(none: str) -> None:
    pairs = make_pairs([SOURCES[0], [EOS], *SOURCES[2:]])
    trees = make_trees([TRANSITIONS[0], none, *TRANSITIONS[2:]])
    dataset = TreePairs(pairs, trees, TREES)
    batch = dataset.collater([dataset[number] for number in range(4)])
    assert Forest(*batch["net_input"]["trees"]).unparsed[batch["id"].tolist().index(1)]
    with pytest.raises(InputError, match="line 2: "):
        TreePairs(pairs, make_trees([TRANSITIONS[0], "S", *TRANSITIONS[2:]]), TREES)


@pytest.mark.parametrize("left", [False, True])
def test_a_source_that_holds_the_word_pad_keeps_its_tree_in_its_place(left: bool) -> None:
    pairs = make_pairs([[1, 1, 5, EOS], *SOURCES[1:]], left_pad_source=left, shuffle=False)
    dataset = TreePairs(pairs, make_trees(), TREES)
    batch = dataset.collater([dataset[number] for number in range(4)])
    forest, row = Forest(*batch["net_input"]["trees"]), batch["id"].tolist().index(0)
    first = 5 * row + int(left)
    leaves = {child for child in (*forest.left.tolist(), *forest.right.tolist()) if 5 * row <= child < 5 * row + 5}
    assert leaves == {first, first + 1, first + 2}
