"""Alignment error rates."""

from pathlib import Path

import numpy as np
import pytest

from recipes.reproduce.alignment_error import AlignmentError, alignment_error, links_of, main, read_gold
from rnnsearch_fairseq.errors import InputError
from tests.recipes.reproduce.builders import printed_by, record, write

# Three source words and end-of-sentence across; of the first sentence, four target words and end-of-sentence down.
FIRST = [[0.7, 0.3, 0, 0], [0.1, 0.4, 0.4, 0.1], [0.2, 0.2, 0.25, 0.35], [0.1, 0.1, 0.8, 0], [0, 0, 0, 1.0]]
SECOND = [[0.9, 0.1], [1.0, 0.0]]


@pytest.fixture
def scores(tmp_path: Path) -> Path:
    return write(tmp_path / "score.jsonl", [record(0, "a b c", "w x y z", FIRST), record(1, "d", "v", SECOND)])


@pytest.fixture
def gold(tmp_path: Path) -> Path:
    return write(tmp_path / "gold", ["0-0 1-1 2-2 0?3 2?3", "0-0"])


def test_the_definition(scores: Path, gold: Path) -> None:
    assert links_of(np.array(FIRST)) == {(0, 0), (1, 1), (2, 3)}  # none to end-of-sentence, the first of equals
    # A = 0-0 1-1 2-3, and 0-0: of S are three, of P four; there are four sure links.
    error = alignment_error(scores, read_gold(gold), gold)
    assert error == AlignmentError(links=4, sure=4, links_sure=3, links_possible=4)
    assert (error.precision, error.recall, error.rate) == (1, 3 / 4, 1 - 7 / 8)
    assert AlignmentError(0, 0, 0, 0).rate == 0
    assert AlignmentError(0, 4, 0, 0).rate == 1


def test_the_program_prints_a_row_for_each_model(scores: Path, gold: Path) -> None:
    assert printed_by(main, gold, f"A={scores}").splitlines() == [
        "| model | alignment error rate | precision | recall | links |",
        "| --- | --- | --- | --- | --- |",
        "| A | 12.50 | 100.00 | 75.00 | 4 |",
        "",
        "2 sentences, 4 sure links, 2 that are only possible",
    ]


def test_kinds_of_links(tmp_path: Path) -> None:
    path = write(tmp_path / "gold", ["1-2 3S1 3s2 2?2 1P1 4p4 1?2", ""])
    first, empty = read_gold(path, one_based=True)
    assert first.sure == {(0, 1), (2, 0), (2, 1)}
    assert first.possible == first.sure | {(1, 1), (0, 0), (3, 3)}
    assert empty.possible == set()


def test_pieces_are_joined_before_links_are_compared(tmp_path: Path) -> None:
    # "bc" has 0.3 + 0.3 of "w"'s attention.
    weights = [[0.4, 0.3, 0.3, 0], [0.4, 0.3, 0.3, 0], [0, 0, 0, 1]]
    scores = write(tmp_path / "score.jsonl", [record(0, "a b@@ c", "w@@ x", weights)])
    gold = write(tmp_path / "gold", ["1-0"])
    assert alignment_error(scores, read_gold(gold), gold).rate == 0


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["0-0 1-x", "0-0"], "gold, line 1: '1-x' is no link"),
        (["3-0", "0-0"], r"gold, line 1: source word 3 and target word 0 \(from 0\).* has 3 and 4 words.*--one-based"),
        (["0-0"], r"score\.jsonl has 2 sentences and .*gold has 1"),
        (["0-0"] * 3, r"score\.jsonl has 2 sentences and .*gold has 3"),
    ],
)
def test_bad_gold_is_refused(scores: Path, gold: Path, lines: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        printed_by(main, write(gold, lines), f"A={scores}")
