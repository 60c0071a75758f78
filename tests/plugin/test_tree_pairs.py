"""Pairs with trees: batches, and what does not fit."""

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary, LanguagePairDataset

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.modules.forest import build_forest
from rnnsearch_fairseq.modules.tree_lstm import Forest
from rnnsearch_fairseq.plugin.data import TreePairs
from rnnsearch_fairseq.text.trees import parse_transitions
from tests.builders import EOS, PAD, make_dictionary

TREES = Dictionary()
for _symbol in ("S", "R", "-"):
    TREES.add_symbol(_symbol)
SOURCES = [[PAD, 6, 7, EOS], [8, EOS], [9, 4, 4, 5, EOS], [EOS]]  # a text may hold the word <pad>
TRANSITIONS = ["S S S R R", "S", "S S R S R", "-"]


def make(transitions: list[str] = TRANSITIONS, left: bool = False) -> TreePairs:
    sources, sizes, words = [torch.tensor(s) for s in SOURCES], np.array(list(map(len, SOURCES))), make_dictionary(8)
    pairs = LanguagePairDataset(
        sources, sizes, words, sources, sizes, words, left_pad_source=left, left_pad_target=False, shuffle=False
    )
    return TreePairs(pairs, [TREES.encode_line(line, add_if_not_exist=False).long() for line in transitions], TREES)


@pytest.mark.parametrize(("left", "no_parse"), [(False, "-"), (True, "x")])
def test_a_batch_has_the_trees_of_its_sentences_in_its_order(left: bool, no_parse: str) -> None:
    dataset = make([*TRANSITIONS[:3], no_parse], left)
    assert dataset.parsed.tolist() == [True, True, True, False]
    batch = dataset.collater([dataset[number] for number in (3, 0, 1, 2)])
    order = batch["id"].tolist()
    assert order == [2, 0, 1, 3], "fairseq sorts by length"
    trees = [None if number == 3 else parse_transitions(TRANSITIONS[number]) for number in order]
    expected = build_forest(trees, [5 - len(SOURCES[number]) if left else 0 for number in order], 5)
    for found, tensor in zip(Forest(*batch["net_input"]["trees"]), expected, strict=True):
        assert torch.equal(torch.as_tensor(found), torch.as_tensor(tensor))


@pytest.mark.parametrize(
    ("transitions", "where"),
    [
        (TRANSITIONS[:3], "3 trees for 4 sources"),
        (["S S S R R", "S S R", "S", "-"], "line 2: "),  # more leaves than words
        (["S S S R R", "S", "S R S", "-"], "line 3: "),  # nothing to join
        ([*TRANSITIONS[:3], "S"], "line 4: "),  # a tree of no words
    ],
)
def test_trees_that_do_not_fit_are_refused(transitions: list[str], where: str) -> None:
    with pytest.raises(InputError, match=where):
        make(transitions)
