"""RIBES, against the paper's examples and scores by hand; and BLEU of tokens."""

import math

import pytest

from recipes.reproduce.token_scores import align, sentence_ribes


@pytest.mark.parametrize(
    ("reference", "hypothesis", "positions", "score"),
    [
        # Isozaki et al. (2010): their sentences H0 and R0, and H1 and R1. They align the second "he" to word 0, by
        # "he was"; RIBES.py to word 7, by "because he", which it looks at first.
        (
            "he was interested in world history because he read the book",
            "he read the book because he was interested in world history",
            [7, 8, 9, 10, 6, 7, 1, 2, 3, 4, 5],
            17 / 55,
        ),
        ("John hit Bob yesterday", "Bob hit John yesterday", [2, 1, 0, 3], 3 / 6),
        # The words before a word decide before those after it.
        ("a y b x a", "x a y", [3, 4, 1], 1 / 3 * math.exp(1 - 5 / 3) ** 0.1),
        ("a b c d", "a x c", [0, 2], (2 / 3) ** 0.25 * math.exp(1 - 4 / 3) ** 0.1),
        ("a a a", "a a a", [0, 2], (2 / 3) ** 0.25),
        ("a", "a", [0], 1),
        ("a", "a b", [0], (1 / 2) ** 0.25),
        ("a b", "a", [0], 0),
        ("a b", "", [], 0),
    ],
)
def test_scores_by_hand(reference: str, hypothesis: str, positions: list[int], score: float) -> None:
    assert align(reference.split(), hypothesis.split()) == positions
    assert sentence_ribes(reference, hypothesis) == pytest.approx(score)
