"""Alignment error rates, and how monotonic alignments are."""

from pathlib import Path

import numpy as np
import pytest

from recipes.reproduce.alignments import AlignmentError, alignment_error, step_row
from recipes.reproduce.runs import BahdanauRuns
from recipes.reproduce.systems import read_gold, strongest_links
from rnnsearch_fairseq.errors import InputError
from tests.recipes.reproduce.builders import record, write

# Three source words and end-of-sentence across; of the first sentence, four target words and end-of-sentence down.
FIRST = [[0.7, 0.3, 0, 0], [0.1, 0.4, 0.4, 0.1], [0.2, 0.2, 0.25, 0.35], [0.1, 0.1, 0.8, 0], [0, 0, 0, 1.0]]
SECOND = [[0.9, 0.1], [1.0, 0.0]]


def test_the_definition(tmp_path: Path) -> None:
    gold = read_gold(write(tmp_path / "gold", ["0-0 1S1 2-2 0?3 2P3", "0-0"]))
    links = [strongest_links(np.array(weights)) for weights in (FIRST, SECOND)]
    assert links == [{(0, 0), (1, 1), (2, 3)}, {(0, 0)}]  # none to end-of-sentence, the first of equals
    # Of the four links three are sure and four possible; there are four sure links.
    assert alignment_error(links, gold) == AlignmentError(1 - 7 / 8, precision=1, recall=3 / 4, links=4)
    assert alignment_error([set()] * 2, gold).rate == 1
    with pytest.raises(InputError):
        alignment_error(links[:1], gold)
    with pytest.raises(InputError, match="gold, line 1"):
        read_gold(write(tmp_path / "gold", ["0-0 1-x"]))


def test_steps_and_swaps_of_words() -> None:
    # "le chat noir ." looks at "the", "cat", "black", "."; the last two words at the same one.
    words, links = ["the", "black", "cat", "."], {(0, 0), (2, 1), (1, 2), (3, 3), (3, 4)}
    expected = ["A", "4", "50.0", "25.0", "25.0", "25.0", "25.0", "mostly", "black cat (1)"]
    assert step_row("A", [(words, links)]) == expected
    assert step_row("A", [(words, {(0, 1), (3, 0)})])[1:] == ["1", "0.0", "0.0", "100.0", "0.0", "0.0", "no", "–"]


def test_an_unknown_piece_ends_no_word(tmp_path: Path) -> None:
    write(tmp_path / "data/test.en", ["a@@ b c"])
    write(tmp_path / "data/test.fr", ["w x@@ y z"])
    write(tmp_path / "RNNsearch-50/score.jsonl", [record(0, "<unk> b c", "w <unk> y z", FIRST)])
    assert BahdanauRuns(tmp_path, "en", "fr").links == {"RNNsearch-50": [{(0, 0), (0, 1), (1, 2)}]}
    write(tmp_path / "data/test.en", ["a@@ b"])
    with pytest.raises(InputError, match=r"score\.jsonl, line 1: not the sentence of the test set"):
        _ = BahdanauRuns(tmp_path, "en", "fr").links
    for language, line in (("en", "a@@ b c"), ("fr", "w x@@ y z")):
        write(tmp_path / f"data/test.{language}", [line, line])
    with pytest.raises(InputError, match=r"score\.jsonl, line 2: not the sentence of the test set"):
        _ = BahdanauRuns(tmp_path, "en", "fr").links
