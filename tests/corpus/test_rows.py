"""Rows of sentences in a file."""

from rnnsearch_fairseq.corpus.rows import Rows


def test_rows_can_be_read_again_in_any_order() -> None:
    expected = [(f"zwölf {n}\u2028", "", "S " * n) for n in range(7)]
    rows = Rows(((f"{a}\n", f"{b}\r\n", c) for a, b, c in expected))
    assert [*rows] == [*rows] == expected
    assert [*rows.select([6, 0, 3, 3])] == [expected[n] for n in (6, 0, 3, 3)]
    assert sorted(rows.shuffle(1)) == sorted(expected)
    assert [*rows.shuffle(1)] == [*rows.shuffle(1)] != [*rows.shuffle(2)]
