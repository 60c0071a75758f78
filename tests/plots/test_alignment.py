"""``rnnsearch plot alignment``."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from matplotlib import image
from matplotlib import pyplot as plt

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.plots.alignment import main, plot_alignment

SOURCE = ["The", "café", "isn", "&apos;t", "open", "</s>"]
TARGET = ["L&apos;", "été", "œuvre", "&amp;", "</s>"]
WEIGHTS = np.random.default_rng(1).dirichlet(np.ones(6), size=5)
SENTENCES = [
    ("one tw@@ o", "un deux", [[0.8, 0.1, 0.05, 0.05], [0.1, 0.4, 0.4, 0.1], [0.0, 0.0, 0.1, 0.9]]),
    ("word " * 21, "long", [[1 / 22] * 22] * 2),
    ("three known <unk> words", "trois", [[0.2] * 5] * 2),
    ("hello", "bonjour", [[0.9, 0.1], [0.2, 0.8]]),
]


@pytest.fixture(autouse=True)
def no_figures() -> Iterator[None]:
    plt.close("all")
    yield
    plt.close("all")


@pytest.fixture
def alignments(tmp_path: Path) -> Path:
    path = tmp_path / "alignments.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for number, (source, target, weights) in enumerate(SENTENCES):
            words = {"source": [*source.split(), "</s>"], "target": [*target.split(), "</s>"]}
            file.write(json.dumps({"id": number, **words, "alignment": weights}) + "\n")
    return path


def run(monkeypatch: pytest.MonkeyPatch, *words: object) -> None:
    monkeypatch.setattr(sys, "argv", ["plot alignment", *map(str, words)])
    main()


def grey(path: Path) -> np.ndarray:
    return image.imread(path)[..., :3].mean(axis=-1)


def test_zero_is_black_and_one_is_white(tmp_path: Path) -> None:
    plot_alignment(["a"] * 4, ["b"] * 4, np.zeros((4, 4)), tmp_path / "black.png")
    plot_alignment(["a"] * 4, ["b"] * 4, np.ones((4, 4)), tmp_path / "white.png")
    black, white = grey(tmp_path / "black.png"), grey(tmp_path / "white.png")
    assert black.shape == white.shape
    # Where the matrices are, one picture is black and the other white; elsewhere they are alike.
    matrix = np.abs(black - white) > 0.5
    assert 0.2 < matrix.mean() < 0.9
    assert np.median(black[matrix]) < 0.01
    assert np.median(white[matrix]) > 0.99


def test_source_runs_across_and_target_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(plt, "close", lambda figure: None)
        plot_alignment(SOURCE, TARGET, WEIGHTS, tmp_path / "figure.png")
    axes = plt.gcf().axes[0]
    across, down = axes.get_xticklabels(), axes.get_yticklabels()
    assert [label.get_text() for label in across] == ["The", "café", "isn", "'t", "open", "</s>"]
    assert [label.get_text() for label in down] == ["L'", "été", "œuvre", "&", "</s>"]
    np.testing.assert_array_equal(axes.get_images()[0].get_array(), WEIGHTS)
    left, right = across[0].get_window_extent(), across[-1].get_window_extent()
    top, bottom = down[0].get_window_extent(), down[-1].get_window_extent()
    assert left.x0 < right.x0
    assert top.y0 > bottom.y0
    assert left.y0 > top.y1, "source words stand above the matrix"


def test_every_format_is_written_and_no_figure_stays_open(tmp_path: Path) -> None:
    for ending, start in ((".png", b"\x89PNG\r\n\x1a\n"), (".svg", b"<?xml"), (".pdf", b"%PDF")):
        picture = tmp_path / f"figure{ending}"
        plot_alignment(SOURCE, TARGET, WEIGHTS, picture)
        assert picture.read_bytes().startswith(start)
    assert plt.get_fignums() == []
    # Letters are drawn as outlines, each word with itself as a comment.
    text = (tmp_path / "figure.svg").read_text(encoding="utf-8")
    for word in ("The", "café", "isn", "'t", "open", "L'", "été", "œuvre", "&amp;", "&lt;/s&gt;"):
        assert f"<!-- {word} -->" in text


def test_dollars_are_words_and_not_mathematics(tmp_path: Path) -> None:
    letters = set()
    for drawn in ("$5$", "xxx"):
        plot_alignment([drawn, "</s>"], ["</s>", drawn], np.full((2, 2), 0.5), tmp_path / "figure.svg")
        letters.add((tmp_path / "figure.svg").read_text(encoding="utf-8").count("<use "))
    assert len(letters) == 1, "every letter is drawn, dollars included"


# The command


def test_the_longest_of_the_short_sentences_without_unknown_words_is_drawn(
    alignments: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, alignments, tmp_path / "figure.svg")
    assert capsys.readouterr().out.splitlines() == [f"alignment of sentence 0 -> {tmp_path / 'figure.svg'}"]
    text = (tmp_path / "figure.svg").read_text(encoding="utf-8")
    assert all(f"<!-- {word} -->" in text for word in ("one", "two", "un", "deux"))


def test_a_sentence_may_be_chosen(alignments: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(monkeypatch, alignments, tmp_path / "figure.svg", "--sentence", 3)
    assert "<!-- bonjour -->" in (tmp_path / "figure.svg").read_text(encoding="utf-8")


def test_what_cannot_be_drawn_is_refused(alignments: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for words, named in (
        ([alignments, tmp_path / "figure.svg", "--sentence", 9], r"alignments\.jsonl: .*--sentence"),
        ([tmp_path / "nothing.txt", tmp_path / "figure.svg"], r"nothing\.txt"),
        ([alignments, tmp_path / "figure.docx"], r"figure\.docx"),
        ([alignments, tmp_path / "no_folder" / "figure.png"], r"figure\.png"),
    ):
        with pytest.raises(InputError, match=named):
            run(monkeypatch, *words)
    assert not (tmp_path / "figure.svg").exists()
