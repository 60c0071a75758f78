"""Sides that do not belong together are noticed by their lengths and numbers, and no others; so are other languages."""

import random
import re
from pathlib import Path

import pytest

from rnnsearch_fairseq.corpus.doubts import find_doubts, find_misalignment
from rnnsearch_fairseq.corpus.pairs import Pair
from tests.corpus.builders import number_pairs, prepare, write_tsv

RANDOM = random.Random(1)
LENGTHS = [RANDOM.randint(3, 30) for _ in range(500)]
PAIRS = [("word " * n, "mot " * round(n * RANDOM.uniform(0.8, 1.4))) for n in LENGTHS]
SOURCES, TARGETS = ([*side] for side in zip(*PAIRS))
NUMBERED, NUMBERED_TARGETS = ([*side] for side in zip(*number_pairs(400)))
ENGLISH = [f"A small dog plays with the old man in the garden at {n} o'clock." for n in range(100)]
FRENCH = [f"Un petit chien joue avec le vieil homme dans le jardin à {n} heures." for n in range(100)]
GERMAN = [f"Ein kleiner Hund spielt um {n} Uhr mit dem alten Mann im Garten." for n in range(100)]


@pytest.mark.parametrize(
    ("pairs", "places"),
    [
        (PAIRS, ""),
        (PAIRS[:49], ""),
        ([("to a house", "à une maison")] * 200, ""),
        ([(source[:6], target[:6]) for source, target in PAIRS], ""),
        ([*zip(SOURCES, TARGETS[1:])], "of 18"),
        ([*zip(SOURCES[:120], [*TARGETS[:60], "mot", *TARGETS[60:]])], "1 of 3"),
        ([*zip(SOURCES, RANDOM.sample(TARGETS, 500))], "of 19"),
        ([*zip(NUMBERED, NUMBERED_TARGETS)], ""),
        ([*zip(NUMBERED, [*NUMBERED_TARGETS[:200], "une ligne de trop", *NUMBERED_TARGETS[200:]])], "of 15"),
    ],
)
def test_shifted_and_shuffled_sides_are_noticed(pairs: list[Pair], places: str) -> None:
    doubt = find_misalignment(pairs)
    assert places in doubt and bool(doubt) == bool(places)


def test_a_part_in_another_language_is_noticed() -> None:
    assert [*find_doubts([*zip(ENGLISH, FRENCH)], ("en", "fr"))] == []
    (doubt,) = find_doubts([*zip(ENGLISH, [*FRENCH[:90], *GERMAN[90:]])], ("en", "fr"))
    assert re.search("samples of the fr text, .* like de", doubt)


def test_subwords_and_quotation_marks_are_noticed() -> None:
    doubts = [*find_doubts([('"a@@ b"', '"c d"')] * 9, ("en", "fr"))]
    assert [doubt.partition(",")[0] for doubt in doubts] == [
        "the text is cut into subwords",
        "most texts stand in quotation marks",
    ]


def test_the_command_prints_doubts_as_warnings(tmp_path: Path) -> None:
    printed = prepare(*write_tsv(tmp_path, [*zip(FRENCH, ENGLISH)]), tmp_path / "out", "--bpe", "0")
    for doubt in ("samples of the en text, .* like fr", "samples of the fr text, .* like en"):
        assert re.search(f"\nwarning: of .* {doubt}", printed)
