"""``rnnsearch plot``."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.plots import main, plot_alignment
from tests.commands import printed_by
from tests.recipes.reproduce.builders import record, write

SOURCE = ["The", "café", "isn", "&apos;t", "$5$", "</s>"]
TARGET = ["L&apos;", "été", "œuvre", "&amp;", "</s>"]
WEIGHTS = np.random.default_rng(1).dirichlet(np.ones(6), size=5)
SENTENCES = [
    ("one tw@@ o", "un deux", [[0.8, 0.1, 0.05, 0.05], [0.1, 0.4, 0.4, 0.1], [0.0, 0.0, 0.1, 0.9]]),
    ("word " * 21, "long", [[1 / 22] * 22] * 2),
    ("three known <unk> words", "trois", [[0.2] * 5] * 2),
    ("hello", "bonjour", [[0.9, 0.1], [0.2, 0.8]]),
]


@pytest.fixture
def alignments(tmp_path: Path) -> Path:
    return write(tmp_path / "alignments.jsonl", [record(number, *of) for number, of in enumerate(SENTENCES)])


def test_source_runs_across_and_target_down(tmp_path: Path, figures: list[Figure]) -> None:
    plot_alignment(SOURCE, TARGET, WEIGHTS, tmp_path / "figure.svg")
    axes = figures[0].axes[0]
    across, down = axes.get_xticklabels(), axes.get_yticklabels()
    assert [label.get_text() for label in across] == ["The", "café", "isn", "'t", "$5$", "</s>"]
    assert [label.get_text() for label in down] == ["L'", "été", "œuvre", "&", "</s>"]
    np.testing.assert_array_equal(axes.get_images()[0].get_array(), WEIGHTS)
    first, last = (label.get_window_extent() for label in (across[0], across[-1]))
    top, bottom = (label.get_window_extent() for label in (down[0], down[-1]))
    assert first.x0 < last.x0 and top.y0 > bottom.y0
    assert first.y0 > top.y1, "source words stand above the matrix"
    assert "<!-- $5$ -->" in (tmp_path / "figure.svg").read_text(), "dollars are words, and not mathematics"


def test_the_longest_of_the_short_sentences_without_unknown_words_is_drawn_in_every_format(
    alignments: Path, tmp_path: Path
) -> None:
    for ending, start in ((".png", b"\x89PNG\r\n\x1a\n"), (".svg", b"<?xml"), (".pdf", b"%PDF")):
        picture = tmp_path / f"figure{ending}"
        assert printed_by(main, alignments, picture) == f"alignment of line 1 -> {picture}\n"
        assert picture.read_bytes().startswith(start)
    drawn = (tmp_path / "figure.svg").read_text(encoding="utf-8")
    assert all(f"<!-- {word} -->" in drawn for word in ("one", "two", "un", "deux"))


def test_what_cannot_be_drawn_is_refused(alignments: Path, tmp_path: Path) -> None:
    for words, named in (
        ([alignments, tmp_path / "figure.svg", "--sentence", 9], r"alignments\.jsonl: .*--sentence"),
        ([alignments, tmp_path / "figure.docx"], r"figure\.docx"),
        ([alignments, tmp_path / "no_folder" / "figure.png"], r"figure\.png"),
    ):
        with pytest.raises(InputError, match=named):
            printed_by(main, *words)
    assert not (tmp_path / "figure.svg").exists()
