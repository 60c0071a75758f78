"""How much attention stays inside the right caption."""

from pathlib import Path

import pytest

from recipes.multi30k_en_fr.segments import attention_inside, read_segments
from rnnsearch_fairseq.errors import InputError
from tests.recipes.reproduce.builders import record, write

# Captions of two and one source words, and of one and two target words; end-of-sentence across and down.
PASSAGE = [[0.5, 0.3, 0.1, 0.1], [0.2, 0.1, 0.6, 0.1], [0.0, 0.5, 0.25, 0.25], [0, 0, 0, 1.0]]
ALONE = [[0.9, 0.1], [0.5, 0.5]]


@pytest.fixture
def scores(tmp_path: Path) -> Path:
    lines = record(0, "a@@ b c", "x y@@ z", PASSAGE), record(1, "d", "v", ALONE)
    return write(tmp_path / "score.jsonl", list(lines))


def test_the_mean_over_target_words(tmp_path: Path, scores: Path) -> None:
    path = write(tmp_path / "segments", ["2-1 1-2", "1-1"])
    inside, equal, words = attention_inside(scores, read_segments(path), path)
    # The single caption does not count, nor does end-of-sentence's row. Of four equal weights, two are on the first
    # caption and one is on the second.
    assert inside == pytest.approx((0.8 + 0.6 + 0.25) / 3)
    assert equal == pytest.approx((2 / 4 + 1 / 4 + 1 / 4) / 3)
    assert words == 3


def test_no_passage(tmp_path: Path, scores: Path) -> None:
    path = write(tmp_path / "segments", ["3-3", "1-1"])
    assert attention_inside(scores, read_segments(path), path) is None


def test_bad_segments_are_refused(tmp_path: Path, scores: Path) -> None:
    for line in ("", "2-1 1", "2?1", "-1-2", "1-1 0-1"):
        with pytest.raises(InputError, match=r"bad, line 2: no captions"):
            read_segments(write(tmp_path / "bad", ["1-1", line]))
    path = write(tmp_path / "other", ["2-1 1-2", "1-2"])
    with pytest.raises(InputError, match=r"other, line 2: 1 source and 2 target words, but .*score\.jsonl has 1 and 1"):
        attention_inside(scores, read_segments(path), path)
    path = write(tmp_path / "short", ["2-1 1-2"])
    with pytest.raises(InputError, match=r"score\.jsonl has 2 sentences and .*short has 1"):
        attention_inside(scores, read_segments(path), path)
