"""Rows in memory and in a file."""

import itertools
import random
from pathlib import Path

import pytest

from rnnsearch_fairseq.corpus import rows as module
from rnnsearch_fairseq.corpus.rows import Rows, Selection, shuffle_rows


@pytest.mark.parametrize("in_memory", [1, 3, 100])
def test_rows_can_be_read_again_in_any_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_memory: int) -> None:
    monkeypatch.setattr(module, "MAX_ROWS_IN_MEMORY", in_memory)
    expected = [(f"zwölf {n}", "", "S " * n) for n in range(7)]
    rows = Rows(((f"{a}\n", f"{b}\r\n", c) for a, b, c in expected), tmp_path)
    assert [*rows] == [*rows] == expected
    assert [*Selection(rows, [6, 0, 3, 3])] == [expected[n] for n in (6, 0, 3, 3)]
    assert sorted(shuffle_rows(rows, 1)) == sorted(expected)
    assert [*shuffle_rows(rows, 1)] == [*shuffle_rows(rows, 1)] != [*shuffle_rows(rows, 2)]
    assert not [*tmp_path.iterdir()]


def test_every_order_is_equally_likely(tmp_path: Path) -> None:
    """180 shuffles of 3 rows, which have 6 orders, of 30 each on average."""
    counts = dict.fromkeys(itertools.permutations("abc"), 0)
    rows = Rows([(letter,) for letter in "abc"], tmp_path)
    for seed in random.Random(4).sample(range(10**9), 180):
        counts[tuple(row[0] for row in shuffle_rows(rows, seed))] += 1
    # Chi-squared with 5 degrees of freedom is over 25.7 once in 10,000 times.
    assert sum((count - 30) ** 2 / 30 for count in counts.values()) < 25.7
