"""Alignment error rates, how monotonic alignments are, and words learnt from alignments."""

from pathlib import Path

import numpy as np
import pytest

from recipes.reproduce.alignment_error import AlignmentError, alignment_error, read_gold, strongest_links
from recipes.reproduce.monotony import row
from recipes.reproduce.unknown_words import learn
from rnnsearch_fairseq.errors import InputError
from tests.recipes.reproduce.builders import record, write

# Three source words and end-of-sentence across; of the first sentence, four target words and end-of-sentence down.
FIRST = [[0.7, 0.3, 0, 0], [0.1, 0.4, 0.4, 0.1], [0.2, 0.2, 0.25, 0.35], [0.1, 0.1, 0.8, 0], [0, 0, 0, 1.0]]
SECOND = [[0.9, 0.1], [1.0, 0.0]]


@pytest.fixture
def scores(tmp_path: Path) -> Path:
    return write(tmp_path / "score.jsonl", [record(0, "a b c", "w x y z", FIRST), record(1, "d", "v", SECOND)])


def test_the_definition(scores: Path, tmp_path: Path) -> None:
    gold = write(tmp_path / "gold", ["0-0 1S1 2-2 0?3 2P3", "0-0"])
    assert strongest_links(np.array(FIRST)) == {(0, 0), (1, 1), (2, 3)}  # none to end-of-sentence, the first of equals
    # A = 0-0 1-1 2-3, and 0-0: of S are three, of P four; there are four sure links.
    error = alignment_error(scores, read_gold(gold), gold)
    assert error == AlignmentError(links=4, sure=4, links_sure=3, links_possible=4)
    assert (error.precision, error.recall, error.rate) == (1, 3 / 4, 1 - 7 / 8)
    assert AlignmentError(0, 0, 0, 0).rate == 0
    assert AlignmentError(0, 4, 0, 0).rate == 1


def test_pieces_are_joined_before_links_are_compared(tmp_path: Path) -> None:
    # "bc" has 0.3 + 0.3 of "w"'s attention.
    weights = [[0.4, 0.3, 0.3, 0], [0.4, 0.3, 0.3, 0], [0, 0, 0, 1]]
    scores = write(tmp_path / "score.jsonl", [record(0, "a b@@ c", "w@@ x", weights)])
    gold = write(tmp_path / "gold", ["1-0"])
    assert alignment_error(scores, read_gold(gold), gold).rate == 0


@pytest.mark.parametrize("lines", [["0-0 1-x", "0-0"], ["3-0", "0-0"], ["0-0"]])
def test_bad_gold_is_refused(scores: Path, tmp_path: Path, lines: list[str]) -> None:
    gold = write(tmp_path / "gold", lines)
    with pytest.raises(InputError, match="gold"):
        alignment_error(scores, read_gold(gold), gold)


def test_steps_and_swaps_of_words() -> None:
    # "le chat noir ." looks at "the", "cat", "black", "."; the last two words at the same one.
    words, links = ["the", "black", "cat", "."], {(0, 0), (2, 1), (1, 2), (3, 3), (3, 4)}
    assert row("A", [(words, links)]) == ["A", "4", "50.0", "25.0", "25.0", "25.0", "black cat (1)"]
    assert row("gold", [([], {(0, 0), (1, 3)})]) == ["gold", "1", "100.0", "0.0", "0.0", "0.0", "–"]


def test_the_commonest_translation_of_a_word_is_learnt(scores: Path, tmp_path: Path) -> None:
    source, target = write(tmp_path / "en", ["a b c", "d"]), write(tmp_path / "fr", ["w x y z", "v"])
    assert learn(scores, source, target) == {"a": "w", "b": "x", "c": "z", "d": "v"}
    with pytest.raises(InputError, match=r"score\.jsonl"):
        learn(scores, source, write(tmp_path / "fr", ["w x y", "v"]))
