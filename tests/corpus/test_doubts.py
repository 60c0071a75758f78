"""Sides that do not belong together are noticed by their lengths, and no others."""

import random

import pytest

from rnnsearch_fairseq.corpus.doubts import find_misalignment
from rnnsearch_fairseq.corpus.pairs import Pair

RANDOM = random.Random(1)
LENGTHS = [RANDOM.randint(3, 30) for _ in range(500)]
PAIRS = [("word " * n, "mot " * round(n * RANDOM.uniform(0.8, 1.4))) for n in LENGTHS]
SOURCES, TARGETS = ([*side] for side in zip(*PAIRS))


@pytest.mark.parametrize(
    ("pairs", "places"),
    [
        (PAIRS, ""),
        (PAIRS[:49], ""),
        ([("to a house", "à une maison")] * 200, ""),
        ([(source[:6], target[:6]) for source, target in PAIRS], ""),
        ([*zip(SOURCES, TARGETS[1:])], "9 of 9"),
        ([*zip(SOURCES, [*TARGETS[:250], "mot", "mot", *TARGETS[250:]])], "5 of 10"),
        ([*zip(SOURCES, RANDOM.sample(TARGETS, 500))], "of 10"),
    ],
)
def test_shifted_and_shuffled_sides_are_noticed(pairs: list[Pair], places: str) -> None:
    found = find_misalignment(pairs)
    assert places in found and bool(found) == bool(places)
