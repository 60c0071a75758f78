"""Alignment error rates, and how monotonic alignments are."""

from pathlib import Path

import numpy as np
import pytest

from recipes.reproduce.alignments import alignment_error
from recipes.reproduce.runs import BahdanauRuns
from recipes.reproduce.systems import read_links, strongest_links
from rnnsearch_fairseq.errors import InputError
from tests.recipes.reproduce.builders import record, write

# Three source words and end-of-sentence across; of the first sentence, four target words and end-of-sentence down.
FIRST = [[0.7, 0.3, 0, 0], [0.1, 0.4, 0.4, 0.1], [0.2, 0.2, 0.25, 0.35], [0.1, 0.1, 0.8, 0], [0, 0, 0, 1.0]]
SECOND = [[0.9, 0.1], [1.0, 0.0]]


def test_the_definition(tmp_path: Path) -> None:
    gold = read_links(*(write(tmp_path / name, ["0-0 1-1 2-2 0-3", "0-0"]) for name in ("gold", "source")))
    links = [strongest_links(np.array(weights)) for weights in (FIRST, SECOND)]
    assert links == [{(0, 0), (1, 1), (2, 3)}, {(0, 0)}]  # none to end-of-sentence, the first of equals
    assert alignment_error(links, gold) == (1 - 6 / 9, 3 / 4, 3 / 5)
    assert alignment_error([set()] * 2, gold) == (1, 0, 0)
    for lines, message in ((["0-0 1-x", ""], "gold, line 1"), (["0-0"], "gold: ends at line 1")):
        with pytest.raises(InputError, match=message):
            read_links(write(tmp_path / "gold", lines), tmp_path / "source")


def test_an_unknown_piece_ends_no_word(tmp_path: Path) -> None:
    write(tmp_path / "data/test.en", ["a@@ b c"])
    write(tmp_path / "data/test.fr", ["w x@@ y z"])
    write(tmp_path / "RNNsearch-50/score.jsonl", [record(0, "<unk> b c", "w <unk> y z", FIRST)])
    assert BahdanauRuns(tmp_path, "en", "fr").links == {"RNNsearch-50": [{(0, 0), (0, 1), (1, 2)}]}
    write(tmp_path / "data/test.en", ["a@@ b"])
    with pytest.raises(InputError, match=r"score\.jsonl, line 1: not the words of .*test"):
        _ = BahdanauRuns(tmp_path, "en", "fr").links
    for language, line in (("en", "a@@ b c"), ("fr", "w x@@ y z")):
        write(tmp_path / f"data/test.{language}", [line, line])
    with pytest.raises(InputError, match=r"score\.jsonl, line 2: not the words of .*test"):
        _ = BahdanauRuns(tmp_path, "en", "fr").links
