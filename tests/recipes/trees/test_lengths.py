"""Lengths of training pairs, counted."""

import sys
from pathlib import Path

import pytest

from recipes.trees.lengths import main
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.search.length_statistics import LengthStatistics


def test_lengths_are_counted_and_can_be_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target, out = (tmp_path / name for name in ("en", "ja", "lengths"))
    source.write_text("a b c\na b c\n\na\n")
    target.write_text("x y\nx\nx\nz z z\n")
    monkeypatch.setattr(sys, "argv", ["lengths", str(source), str(target), "--output", str(out)])
    main()
    assert LengthStatistics.read(out).counts == {(3, 2): 1, (3, 1): 1, (0, 1): 1, (1, 3): 1}
    out.unlink()
    target.write_text("x\n")
    with pytest.raises(InputError, match=str(target)):
        main()
    assert not out.exists()
