"""``rnnsearch lengths``."""

import sys
from pathlib import Path

import pytest

from rnnsearch_fairseq.corpus.lengths import main
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.search.length_statistics import LengthStatistics


def run(monkeypatch: pytest.MonkeyPatch, *words: object) -> None:
    monkeypatch.setattr(sys, "argv", ["lengths", *map(str, words)])
    main()


@pytest.fixture
def texts(tmp_path: Path) -> tuple[Path, Path]:
    paths = (tmp_path / "en", tmp_path / "ja")
    paths[0].write_text("a b c\na b c\n\na\n")
    paths[1].write_text("x y\nx\nx\nz z z\n")
    return paths


def test_lengths_are_counted_and_can_be_read_back(
    texts: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "lengths"
    run(monkeypatch, *texts, "--output", out)
    assert LengthStatistics.read(out).counts == {(3, 2): 1, (3, 1): 1, (0, 1): 1, (1, 3): 1}
    assert "4 pairs, 3 source lengths" in capsys.readouterr().out
    run(monkeypatch, *texts, "--output", out, "--pairs", "2")
    assert LengthStatistics.read(out).counts == {(3, 2): 1, (3, 1): 1}


def test_what_cannot_be_counted_is_refused(
    texts: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="--pairs is 0"):
        run(monkeypatch, *texts, "--output", tmp_path / "lengths", "--pairs", "0")
    with pytest.raises(InputError, match="it would replace an input"):
        run(monkeypatch, *texts, "--output", texts[1])
    texts[1].write_text("x\n")
    with pytest.raises(InputError, match="ends at line"):
        run(monkeypatch, *texts, "--output", tmp_path / "lengths")
    assert not (tmp_path / "lengths").exists()
