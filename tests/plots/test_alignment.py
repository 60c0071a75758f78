"""The picture of an alignment."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from matplotlib import image
from matplotlib import pyplot as plt

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.plots.alignment import main, plot_alignment

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ["The", "café", "isn", "&apos;t", "open", "</s>"]
TARGET = ["L&apos;", "été", "œuvre", "&amp;", "</s>"]
WEIGHTS = np.random.default_rng(1).dirichlet(np.ones(6), size=5)

OUTPUT = """S-0\tone tw@@ o
H-0\t-0.1\tun deux
A-0\t0.8,0.1,0.05,0.05 0.1,0.4,0.4,0.1 0.0,0.0,0.1,0.9
S-1\t{long}
H-1\t-0.1\tlong
A-1\t{row} {row}
S-2\thello
H-2\t-0.1\tbonjour
A-2\t0.9,0.1 0.2,0.8
""".format(long=" ".join(["word"] * 21), row=",".join(["0.045454"] * 22))


@pytest.fixture(autouse=True)
def no_figures() -> Iterator[None]:
    plt.close("all")
    yield
    plt.close("all")


@pytest.fixture
def output(tmp_path: Path) -> Path:
    path = tmp_path / "generate-test.txt"
    path.write_text(OUTPUT, encoding="utf-8")
    return path


def run(monkeypatch: pytest.MonkeyPatch, *words: object) -> None:
    monkeypatch.setattr(sys, "argv", ["alignment_plot", *map(str, words)])
    main()


def grey(path: Path) -> np.ndarray:
    return image.imread(path)[..., :3].mean(axis=-1)


def test_png_is_a_png_with_ink(tmp_path: Path) -> None:
    picture = tmp_path / "figure.png"
    plot_alignment(SOURCE, TARGET, WEIGHTS, picture)
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    pixels = grey(picture)
    assert pixels.min() < 0.05
    assert pixels.max() > 0.95
    assert len(np.unique(pixels.round(2))) > 10, "shades, not black and white"


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


def test_svg_holds_the_words_as_they_are_read(tmp_path: Path) -> None:
    picture = tmp_path / "figure.svg"
    plot_alignment(SOURCE, TARGET, WEIGHTS, picture)
    text = picture.read_text(encoding="utf-8")
    assert text.startswith("<?xml")
    # Letters are drawn as outlines, each word with itself as a comment.
    for word in ("The", "café", "isn", "'t", "open", "L'", "été", "œuvre", "&amp;", "&lt;/s&gt;"):
        assert f"<!-- {word} -->" in text
    assert "apos" not in text


def test_pdf_is_written_too(tmp_path: Path) -> None:
    plot_alignment(SOURCE, TARGET, WEIGHTS, tmp_path / "figure.pdf")
    assert (tmp_path / "figure.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize("word", ["$5$", "$$", "$_$"])
def test_dollars_are_words_and_not_mathematics(tmp_path: Path, word: str) -> None:
    letters = {}
    for drawn in (word, "x" * len(word)):
        plot_alignment([drawn, "</s>"], ["</s>", drawn], np.full((2, 2), 0.5), tmp_path / "figure.svg")
        letters[drawn] = (tmp_path / "figure.svg").read_text(encoding="utf-8").count("<use ")
    assert len(set(letters.values())) == 1, "every letter is drawn, dollars included"


def test_no_figure_stays_open(tmp_path: Path) -> None:
    plot_alignment(SOURCE, TARGET, WEIGHTS, tmp_path / "figure.png")
    assert plt.get_fignums() == []


# -- command line --


def test_longest_of_the_short_sentences_is_drawn(
    output: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(monkeypatch, output, tmp_path / "figure.svg")
    assert f"alignment of sentence 0 -> {tmp_path / 'figure.svg'}" in capsys.readouterr().out
    text = (tmp_path / "figure.svg").read_text(encoding="utf-8")
    assert all(f"<!-- {word} -->" in text for word in ("one", "two", "un", "deux"))


@pytest.mark.slow
def test_command_prints_nothing_but_its_line(output: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rnnsearch_fairseq", "plot", "alignment", output, tmp_path / "figure.png"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == [f"alignment of sentence 0 -> {tmp_path / 'figure.png'}"]
    assert "DEBUG" not in done.stderr


def test_sentence_may_be_chosen(output: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(monkeypatch, output, tmp_path / "figure.svg", "--sentence", 2)
    text = (tmp_path / "figure.svg").read_text(encoding="utf-8")
    assert "<!-- bonjour -->" in text
    assert "<!-- two -->" not in text


def test_unknown_sentence_is_refused(output: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"generate-test\.txt: no sentence 9; it holds 3 translations"):
        run(monkeypatch, output, tmp_path / "figure.svg", "--sentence", 9)
    assert not (tmp_path / "figure.svg").exists()


def test_missing_output_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"nothing\.txt: cannot be read"):
        run(monkeypatch, tmp_path / "nothing.txt", tmp_path / "figure.svg")


@pytest.mark.parametrize("ending", ["docx", "nothing"])
def test_unknown_kind_of_picture_is_refused(
    output: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    with pytest.raises(InputError, match=rf"figure\.{ending}"):
        run(monkeypatch, output, tmp_path / f"figure.{ending}")


def test_picture_that_cannot_be_written_is_refused(
    output: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match=r"figure\.png"):
        run(monkeypatch, output, tmp_path / "no_folder" / "figure.png")
