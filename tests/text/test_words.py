"""Pieces made words, and alignments of pieces made alignments of words."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from rnnsearch_fairseq.inference.aligned_pairs import AlignedPair
from rnnsearch_fairseq.text.words import merge_pieces


def pair(source: str, target: str, rows: Sequence[Sequence[float]]) -> AlignedPair:
    weights = torch.tensor(rows, dtype=torch.float64)
    return AlignedPair([*source.split(), "</s>"], [*target.split(), "</s>"], blocks=[weights])


@pytest.mark.parametrize(
    ("pieces", "words", "owner"),
    [
        ("hel@@ lo", ["hello"], [0, 0]),
        ("a hel@@ l@@ o b", ["a", "hello", "b"], [0, 1, 1, 1, 2]),
        ("a b", ["a", "b"], [0, 1]),
        ("", [], []),
        ("@@@ -@@ @", ["@-@"], [0, 0, 0]),  # the dash of Moses, in pieces
        ("x @-@ y", ["x", "@-@", "y"], [0, 1, 2]),
        ("a@@ @", ["a@"], [0, 0]),
        ("▁the ▁ca t", ["the", "cat"], [0, 1, 1]),  # sentencepiece
        ("ca t ▁ sat ▁", ["cat", "sat", ""], [0, 0, 1, 1, 2]),
        ("▁<unk>@@ ▁a", ["<unk>@@", "a"], [0, 1]),
    ],
)
def test_pieces_join_to_words(pieces: str, words: list[str], owner: list[int]) -> None:
    assert merge_pieces(pieces.split()) == (words, owner)


def test_pieces_of_a_source_word_are_added_and_of_a_target_word_averaged() -> None:
    alignment = [[0.7, 0.1, 0.1, 0.1], [0, 0.5, 0.25, 0.25], [0.1, 0.3, 0.4, 0.2], [0, 0, 0, 1]]
    source, target, weights = pair("the ca@@ t", "le ch@@ at", alignment).by_word()
    assert source == ["the", "cat", "</s>"]
    assert target == ["le", "chat", "</s>"]
    np.testing.assert_allclose(weights, [[0.7, 0.2, 0.1], [0.05, 0.725, 0.225], [0, 0, 1]], atol=1e-12)


def test_sentence_that_ends_inside_a_word_keeps_its_end_of_sentence() -> None:
    """A model may stop after a piece that wants another one: end-of-sentence is no part of that word."""
    alignment = [[0.5, 0.3, 0.2], [0.1, 0.8, 0.1], [0.0, 0.0, 1.0]]
    source, target, weights = pair("the cat", "le ch@@", alignment).by_word()
    assert source == ["the", "cat", "</s>"]
    assert target == ["le", "ch", "</s>"]
    np.testing.assert_array_equal(weights, alignment)
