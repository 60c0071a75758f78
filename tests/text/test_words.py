"""Pieces are joined to words."""

import pytest

from rnnsearch_fairseq.text.words import merge_pieces


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
        ("le ch@@ </s>", ["le", "ch", "</s>"], [0, 1, 2]),  # a model may stop inside a word
        ("▁<unk>@@ ▁a", ["<unk>@@", "a"], [0, 1]),
    ],
)
def test_pieces_join_to_words(pieces: str, words: list[str], owner: list[int]) -> None:
    assert merge_pieces(pieces.split()) == (words, owner)
