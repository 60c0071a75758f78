"""BLEU by source length."""

from math import inf
from pathlib import Path

import numpy as np
import pytest
from matplotlib import image
from matplotlib import pyplot as plt

from recipes.reproduce.bleu import bleu
from recipes.reproduce.by_length import Bin, main, plot_by_length
from recipes.reproduce.systems import TestSet
from rnnsearch_fairseq.errors import InputError
from tests.recipes.reproduce.builders import printed_by, write

LENGTHS = [4, 10, 5, 11, 25, 5]
SOURCE = [" ".join(["s"] * length) for length in LENGTHS]
REFERENCE = [" ".join(f"{word}{number}" for word in "abcdefg") for number in range(len(LENGTHS))]
WORSE = [line if number % 2 else line.replace("d", "x") for number, line in enumerate(REFERENCE)]


def score(numbers: list[int]) -> str:
    return f"{bleu([WORSE[n] for n in numbers], [REFERENCE[n] for n in numbers]):.2f}"


@pytest.fixture
def files(tmp_path: Path) -> list[object]:
    return ["--source", write(tmp_path / "en", SOURCE), "--reference", write(tmp_path / "fr", REFERENCE)]


def test_each_bin_is_scored_as_a_corpus(tmp_path: Path, files: list[object]) -> None:
    same, worse = write(tmp_path / "same", REFERENCE), write(tmp_path / "worse", WORSE)
    words = [f"A={same}", f"B={worse}", "--width", 5, *files]
    expected = [
        "| words | sentences | A | B |",
        "| --- | --- | --- | --- |",
        f"| 1–5 | 3 | 100.00 | {score([0, 2, 5])} |",
        "| 6–10 | 1 | 100.00 | 100.00 |",
        "| 11–15 | 1 | 100.00 | 100.00 |",
        "| 16–20 | 0 | – | – |",
        f"| 21–25 | 1 | 100.00 | {score([4])} |",
    ]
    assert printed_by(main, *words).splitlines() == expected
    open_bin = [*expected[:4], f"| 11 or more | 2 | 100.00 | {score([3, 4])} |"]
    assert printed_by(main, *words, "--longest", 10).splitlines() == open_bin
    every = TestSet(["w " * length for length in range(1, 101)], [""] * 100)
    assert every.bins(10, 75)[-2:] == [(71, 75), (76, inf)]
    assert every.bins(20, 100)[-1] == (81, 100)
    assert printed_by(main, *words, "--output", tmp_path / "table.md", "--picture", tmp_path / "curve.svg") == ""
    assert (tmp_path / "table.md").read_text().splitlines() == expected
    assert (tmp_path / "curve.svg").stat().st_size > 1000


def test_output_of_fairseq_generate_in_pieces_is_joined_to_words(tmp_path: Path) -> None:
    blocks = [f"S-{k}\t{s}\nH-{k}\t-0.5\t{h.replace('a', 'a@@ ', 1)}" for k, (s, h) in enumerate(zip(SOURCE, WORSE))]
    pieces = [line.replace("a", "a@@ ", 1) for line in REFERENCE]
    files = ["--source", write(tmp_path / "en", [f"s@@ {line}" for line in SOURCE])]  # one piece more, not one word
    files += ["--reference", write(tmp_path / "fr", pieces)]
    table = printed_by(main, f"A={write(tmp_path / 'out', blocks[::-1])}", "--width", 30, *files)
    assert table.splitlines()[-1] == f"| 1–30 | 6 | {score(list(range(6)))} |"


def test_bad_input_is_refused(tmp_path: Path, files: list[object]) -> None:
    same = write(tmp_path / "same", REFERENCE)
    for words, message in (
        ([f"A={write(tmp_path / 'short', REFERENCE[1:])}"], "short: 5 translations, but the test set has 6"),
        ([f"A={tmp_path / 'nothing'}"], "nothing: cannot be read"),
        ([f"A={same}", "--output", same], ".*same: it would replace an input"),
    ):
        with pytest.raises(InputError, match=message):
            printed_by(main, *words, *files)


def test_picture_has_lengths_across_and_bleu_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bins = [Bin(1, 10, range(7), {"A": 20.0, "_$b": 10.0}), Bin(11, 20, [], {}), Bin(21, inf, [8], {"A": 30, "_$b": 5})]
    with monkeypatch.context() as patched:
        patched.setattr(plt, "close", lambda figure: None)
        plot_by_length(bins, ["A", "_$b"], tmp_path / "figure.png")
    (axes,) = plt.gcf().axes
    plt.close("all")
    np.testing.assert_array_equal(axes.lines[0].get_xdata(), [5.5, 15.5, 25.5])
    np.testing.assert_array_equal([line.get_ydata() for line in axes.lines], [[20, np.nan, 30], [10, np.nan, 5]])
    assert axes.get_xlim() == (0, 30) and axes.get_ylim()[0] == 0 and axes.get_ylim()[1] > 30
    assert [text.get_text() for text in axes.texts] == ["7", "0", "1", "sentences"]
    assert [text.get_text() for text in axes.figure.legends[0].get_texts()] == ["A", "_$b"]
    assert image.imread(tmp_path / "figure.png").size > 0
