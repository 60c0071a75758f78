"""``rnnsearch by-length``."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from matplotlib import image
from matplotlib import pyplot as plt
from sacrebleu.metrics import BLEU

from recipes.reproduce.by_length import Bin, bleu_by_length, main, plot_by_length
from recipes.reproduce.systems import TestSet
from rnnsearch_fairseq.errors import InputError

LENGTHS = [4, 10, 5, 11, 25, 5]
SOURCE = [" ".join(["s"] * length) for length in LENGTHS]
REFERENCE = [" ".join(f"{word}{number}" for word in "abcdefg") for number in range(len(LENGTHS))]
WORSE = [line if number % 2 else line.replace("d", "x") for number, line in enumerate(REFERENCE)]
Run = Callable[..., list[str]]


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def generated(path: Path, source: list[str], reference: list[str], hypotheses: list[str]) -> Path:
    """An output of fairseq-generate, longest sentence first."""
    blocks = [
        f"S-{k}\t{s}\nT-{k}\t{r}\nH-{k}\t-0.5\t{h}\nD-{k}\t-0.5\t{h.replace(' .', '.')}\nP-{k}\t-0.1"
        for k, (s, r, h) in enumerate(zip(source, reference, hypotheses))
    ]
    return write(path, sorted(blocks, key=len, reverse=True))


def score(hypotheses: list[str], numbers: list[int], joined: str = " b") -> str:
    found, expected = ([lines[n].replace(" b", joined) for n in numbers] for lines in (hypotheses, REFERENCE))
    return f"{BLEU(tokenize='none', force=True).corpus_score(found, [expected]).score:.2f}"


@pytest.fixture
def files(tmp_path: Path) -> list[object]:
    write(tmp_path / "en", SOURCE)
    return ["--source", tmp_path / "en", "--reference", write(tmp_path / "fr", REFERENCE)]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*words: object) -> list[str]:
        monkeypatch.setattr(sys, "argv", ["by-length", *map(str, words)])
        main()
        return capsys.readouterr().out.splitlines()

    return run


def test_each_bin_is_scored_as_a_corpus(tmp_path: Path, files: list[object], run: Run) -> None:
    same, worse = write(tmp_path / "same", REFERENCE), write(tmp_path / "worse", WORSE)
    assert run(f"A={same}", f"B={worse}", "--width", 5, *files) == [
        "| words | sentences | A | B |",
        "| --- | --- | --- | --- |",
        f"| 1–5 | 3 | 100.00 | {score(WORSE, [0, 2, 5])} |",
        "| 6–10 | 1 | 100.00 | 100.00 |",
        "| 11–15 | 1 | 100.00 | 100.00 |",
        "| 16–20 | 0 | – | – |",
        f"| 21–25 | 1 | 100.00 | {score(WORSE, [4])} |",
    ]
    assert run(f"A={same}", "--format", "tsv", "--output", tmp_path / "table.tsv", *files) == []
    assert (tmp_path / "table.tsv").read_text().splitlines() == [
        "words\tsentences\tA",
        "1–10\t4\t100.00",
        "11–20\t1\t100.00",
        "21–30\t1\t100.00",
    ]


def test_output_of_fairseq_generate_brings_its_test_set_and_is_joined_to_words(tmp_path: Path, run: Run) -> None:
    pieces = [line.replace(" b", "@@ b") for line in REFERENCE]
    assert pieces[0].startswith("a0@@ b0 c0")
    source = [f"s@@ {line}" for line in SOURCE]  # one piece more, not one word
    out = generated(tmp_path / "out", source, pieces, [line.replace(" b", "@@ b") for line in WORSE])
    assert run(f"A={out}", "--width", 5)[2:] == [
        f"| 1–5 | 3 | {score(WORSE, [0, 2, 5], 'b')} |",
        "| 6–10 | 1 | 100.00 |",
        "| 11–15 | 1 | 100.00 |",
        "| 16–20 | 0 | – |",
        f"| 21–25 | 1 | {score(WORSE, [4], 'b')} |",
    ]


def test_detokenised_text_is_scored_by_sacrebleus_tokens(tmp_path: Path, run: Run) -> None:
    reference = ["a b c d e.", "a b c d f."]
    write(tmp_path / "en", ["s s", "s"])
    files = ["--source", tmp_path / "en", "--reference", write(tmp_path / "fr", reference)]
    out = generated(tmp_path / "out", ["s s", "s"], reference, ["a b c d e .", "a b c d x ."])
    plain = write(tmp_path / "plain", ["a b c d e.", "a b c d x."])
    expected = BLEU(tokenize="13a").corpus_score(["a b c d e.", "a b c d x."], [reference]).score
    assert run(f"A={out}", f"B={plain}", "--tokenize", "13a", *files)[-1] == (
        f"| 1–10 | 2 | {expected:.2f} | {expected:.2f} |"
    )
    with pytest.raises(InputError, match=r"--tokenize 13a .*give --source and --reference"):
        run(f"A={out}", "--tokenize", "13a")


def test_empty_sources_and_width_one() -> None:
    test = TestSet(["", "s", "s s"], ["a", "b", "c"])
    assert [(str(bin), list(bin.sentences)) for bin in bleu_by_length(test, {"A": ["a", "b", "c"]}, 1)] == [
        ("1", [0, 1]),
        ("2", [2]),
    ]


def test_bad_input_is_refused(tmp_path: Path, files: list[object], run: Run) -> None:
    same = write(tmp_path / "same", REFERENCE)
    with pytest.raises(InputError, match=r"short: 5 translations, but the test set has 6"):
        run(f"A={write(tmp_path / 'short', REFERENCE[1:])}", *files)
    with pytest.raises(InputError, match=r"A=.*given twice"):
        run(f"A={same}", f"A={same}", *files)
    with pytest.raises(InputError, match=r"nothing: cannot be read"):
        run(f"A={tmp_path / 'nothing'}", *files)
    with pytest.raises(InputError, match=r"give --source and --reference"):
        run(f"A={same}")
    with pytest.raises(InputError, match=r"belong together"):
        run(f"A={same}", *files[:2])
    for name in ("same", "en"):
        with pytest.raises(InputError, match=rf"--output .*{name}: it would replace an input"):
            run(f"A={same}", "--output", tmp_path / name, *files)
    with pytest.raises(InputError, match=r"--width is 0; give at least 1"):
        run(f"A={same}", "--width", 0, *files)
    with pytest.raises(InputError, match=r"out: sentence 0 has no reference"):
        run(f"A={write(tmp_path / 'out', ['S-0	a', 'H-0	-1	b'])}")
    with pytest.raises(SystemExit):
        run(str(same), *files)


def test_picture_has_lengths_across_and_bleu_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bins = [
        Bin(1, 10, range(7), {"A": 20.0, "_$b": 10.0}),
        Bin(11, 20, [], {}),
        Bin(21, 30, [8], {"A": 30.0, "_$b": 5.0}),
    ]
    with monkeypatch.context() as patched:
        patched.setattr(plt, "close", lambda figure: None)
        plot_by_length(bins, ["A", "_$b"], tmp_path / "figure.png")
    (axes,) = plt.gcf().axes
    plt.close("all")
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("Sentence length", "BLEU score")
    np.testing.assert_array_equal(axes.lines[0].get_xdata(), [5.5, 15.5, 25.5])
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), [20, np.nan, 30])
    np.testing.assert_array_equal(axes.lines[1].get_ydata(), [10, np.nan, 5])
    assert axes.get_xlim() == (0, 30)
    assert axes.get_ylim()[0] == 0
    assert axes.get_ylim()[1] > 30
    assert [text.get_text() for text in axes.texts] == ["7", "0", "1", "sentences"]
    (legend,) = axes.figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["A", "_$b"]
    assert image.imread(tmp_path / "figure.png").size > 0


@pytest.mark.parametrize("ending", ["svg", "pdf"])
def test_other_kinds_of_pictures(tmp_path: Path, files: list[object], run: Run, ending: str) -> None:
    run(f"A⋆={write(tmp_path / 'same', REFERENCE)}", "--picture", tmp_path / f"figure.{ending}", *files)
    assert (tmp_path / f"figure.{ending}").stat().st_size > 1000
