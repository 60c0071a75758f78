"""``rnnsearch tables``."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from recipes.reproduce.bahdanau_tables import choose, device, main
from recipes.reproduce.token_scores import score_tokens
from rnnsearch_fairseq.errors import InputError
from tests.plots.builders import START, TIME, write_log

SENTENCES = 12
LENGTHS = [3 + 3 * number for number in range(SENTENCES)]  # up to 36 words
SOURCE = [" ".join(["s"] * length) for length in LENGTHS]
REFERENCE = [f"a b c d e&apos; f{number % 2}" for number in range(SENTENCES)]
WORSE = [line.replace("c d", "d c") if number % 4 else line for number, line in enumerate(REFERENCE)]
WORST = [line.replace("c d", "x y") for line in REFERENCE]

RANK = "{time} | INFO | utils | rank {rank:3d}: capabilities =  9.0  ; total memory = 79.109 GB ; name = {name:40s}\n"
Run = Callable[..., dict[str, list[str]]]


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def bleu(lines: list[str], numbers: list[int] | None = None) -> str:
    numbers = list(range(SENTENCES)) if numbers is None else numbers
    return f"{score_tokens([REFERENCE[n] for n in numbers], [lines[n] for n in numbers]).bleu:.2f}"


def generated(path: Path, hypotheses: list[str]) -> Path:
    blocks = [f"S-{k}\t{SOURCE[k]}\nT-{k}\t{REFERENCE[k]}\nH-{k}\t-1\t{line}" for k, line in enumerate(hypotheses)]
    return write(path, blocks[::-1])


@pytest.fixture
def files(tmp_path: Path) -> list[object]:
    write(tmp_path / "en", SOURCE)
    return ["--source", tmp_path / "en", "--reference", write(tmp_path / "fr", REFERENCE)]


@pytest.fixture
def data(tmp_path: Path) -> list[object]:
    """Dictionaries that lack the word f1, which every second reference has."""
    write(tmp_path / "dict.en.txt", ["s 9"])
    write(tmp_path / "dict.fr.txt", [f"{word} 9" for word in ("a", "b", "c", "d", "e&apos;", "f0")])
    return ["--data", tmp_path, "-s", "en", "-t", "fr"]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The lines of each section that the command prints, by its heading."""

    def run(*words: object) -> dict[str, list[str]]:
        monkeypatch.setattr(sys, "argv", ["tables", *map(str, words)])
        main()
        sections = capsys.readouterr().out.split("## ")[1:]
        return {section.splitlines()[0].split(":")[0]: section.splitlines()[2:] for section in sections}

    return run


def rows(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith("|") and "---" not in line]


def test_table_1(tmp_path: Path, data: list[object], run: Run) -> None:
    model, banned = generated(tmp_path / "out", WORSE), generated(tmp_path / "banned", WORST)
    moses = write(tmp_path / "moses", WORSE)
    known = list(range(0, SENTENCES, 2))
    lines = run(f"A={model}", f"B={model}", f"Moses={moses}", "--no-unk", f"A={banned}", *data)["Table 1"]
    assert rows(lines) == [
        "| model | all | no unknown words |",
        f"| A | {bleu(WORSE)} | {bleu(WORST, known)} |",
        f"| B | {bleu(WORSE)} | – |",
        f"| Moses | {bleu(WORSE)} | {bleu(WORSE, known)} |",
    ]
    assert bleu(WORSE) != bleu(WORSE, known)
    assert "12 sentences" in "".join(lines)
    assert "the 6 of them" in "".join(lines)
    assert "banned, except by Moses: the same translations as in the column before." in "".join(lines)
    assert "Missing: B (no translations with unknown words banned)." in lines


def test_unknown_words_in_the_source_count_and_pieces_are_looked_up(
    tmp_path: Path, data: list[object], files: list[object], run: Run
) -> None:
    write(tmp_path / "en", ["s@@ s", *SOURCE[1:4], "<unk>", *SOURCE[5:]])
    lines = run(f"Moses={write(tmp_path / 'moses', WORSE)}", *files, *data)["Table 1"]
    assert "the 4 of them" in "".join(lines)


def test_without_dictionaries_that_is_said(tmp_path: Path, files: list[object], run: Run) -> None:
    lines = run(f"Moses={write(tmp_path / 'moses', WORSE)}", *files)["Table 1"]
    assert rows(lines)[1:] == [f"| Moses | {bleu(WORSE)} | – |"]
    assert "Missing: the dictionaries, which tell unknown words." in lines


def test_no_sentence_without_unknown_words(tmp_path: Path, data: list[object], files: list[object], run: Run) -> None:
    write(tmp_path / "dict.en.txt", ["t 9"])
    lines = run(f"Moses={write(tmp_path / 'moses', WORSE)}", *files, *data)["Table 1"]
    assert rows(lines)[1:] == [f"| Moses | {bleu(WORSE)} | – |"]
    assert "the 0 of them" in "".join(lines)


def test_table_2(tmp_path: Path, run: Run) -> None:
    one = write_log(tmp_path / "one", [(1000, 1800, 50, 60), (2500, 1800, 40.5, 55.25), (3000, 180, 30, 58)])
    two = write_log(tmp_path / "two", [(10, 36, 50, 60)], start=" ")
    assert rows(run("--log", f"A={one}", f"B={two}")["Table 2"]) == [
        "| model | updates | epochs | hours | device | best epoch | train NLL | dev NLL |",
        "| A | 3,000 | 3 | 1.05 | CPU | 2 | 40.50 | 55.25 |",
        "| B | 10 | 1 | 0.01 | – | 1 | 50.00 | 60.00 |",
    ]


def test_devices(tmp_path: Path) -> None:
    def ranks(*names: str) -> str:
        lines = [RANK.format(time=TIME, rank=rank, name=name) for rank, name in enumerate(names)]
        return "".join(lines) + START.format(time=TIME, count=len(names))

    path = tmp_path / "train.log"
    for text, expected in (
        (ranks("NVIDIA H100 80GB HBM3"), "NVIDIA H100 80GB HBM3"),
        (ranks("NVIDIA A", "NVIDIA A"), "2 × NVIDIA A"),
        (ranks("NVIDIA A", "NVIDIA B"), "2 × NVIDIA A / NVIDIA B"),
        (START.format(time=TIME, count=4), "4 × CPU"),
        # The last start counts.
        (ranks("NVIDIA A") + START.format(time=TIME, count=1), "CPU"),
        (START.format(time=TIME, count=1) + ranks("NVIDIA A"), "NVIDIA A"),
    ):
        path.write_text(text)
        assert device(path) == expected


def test_table_3_has_every_system_in_words(tmp_path: Path, run: Run) -> None:
    pieces = generated(tmp_path / "out", [line.replace("a b", "a@@ b <unk> |") for line in REFERENCE])
    sections = run(f"A_1={pieces}", "--words", 36)
    assert sections["Table 3"] == [
        "| sentence 11 | 36 words |",
        "| --- | --- |",
        f"| source | {SOURCE[11]} |",
        "| reference | a b c d e' f1 |",
        "| A\\_1 | ab &lt;unk&gt; \\| c d e' f1 |",
        "",
    ]
    drawn = [line for line in run(f"A={pieces}", "--words", 3, "--examples", 4)["Table 3"] if "| sentence" in line]
    assert len(drawn) == 4
    assert drawn == [line for line in run(f"A={pieces}", "--words", 3, "--examples", 4)["Table 3"] if line in drawn]
    none = run(f"A={pieces}", "--words", 37)["Table 3"]
    assert "No sentence has 37 words or more; the longest has 36." in none


def test_sentences_are_drawn_by_seed() -> None:
    numbers = list(range(100))
    assert choose(numbers, 5, 1) == choose(numbers, 5, 1) != choose(numbers, 5, 2)
    assert choose(numbers, 5) == sorted(set(choose(numbers, 5)))
    assert choose([4, 9], 5) == [4, 9]


def test_significance(tmp_path: Path, files: list[object], run: Run) -> None:
    named = [
        f"{name}={write(tmp_path / name, lines)}" for name, lines in (("A", REFERENCE), ("B", WORST), ("C", WORST))
    ]
    lines = rows(run(*named, *files)["Significance"])
    apart = 100 - float(bleu(WORST))
    assert lines[0] == "| A | B | BLEU of A | BLEU of B | A − B | 95 % interval |"
    for line, pair in zip(lines[1:3], ("A | B", "A | C")):
        assert line.startswith(f"| {pair} | 100.00 | {bleu(WORST)} | +{apart:.2f} | +")
        low, high = map(float, line.split(" | ")[-1].removesuffix(" |").split(" to "))
        assert 0 < low <= round(apart, 2) <= high
    assert lines[3] == f"| B | C | {bleu(WORST)} | {bleu(WORST)} | +0.00 | +0.00 to +0.00 |"
    assert "takes two systems" in "".join(run(named[0], *files)["Significance"])


def test_what_is_not_given_is_named(tmp_path: Path, files: list[object], run: Run) -> None:
    assert "Missing: logs." in run(f"A={write(tmp_path / 'a', WORSE)}", *files)["Table 2"]
    assert (
        "Missing: translations." in run("--log", f"A={write_log(tmp_path / 'log', [(1, 1, 1, 1)])}")["Tables 1 and 3"]
    )


def test_bad_input_is_refused(tmp_path: Path, files: list[object], data: list[object], run: Run) -> None:
    moses = f"A={write(tmp_path / 'moses', WORSE)}"
    for words, said in (
        ([], "nothing to read"),
        ([moses, *files, "--data", tmp_path], "--data, -s and -t belong together"),
        ([moses, *files, "--no-unk", moses.replace("A=", "B=")], r"--no-unk B=\.\.\.: no such system"),
        ([moses, *files, *data, "-t", "de"], r"dict\.de\.txt: cannot be read"),
        ([moses, *files, "--log", f"A={tmp_path / 'moses'}"], r"moses: holds no finished epoch"),
        ([moses, *files, "--output", tmp_path / "moses"], r"moses: it would replace an input"),
        ([moses, *files, "--output", tmp_path / "fr"], r"fr: it would replace an input"),
    ):
        with pytest.raises(InputError, match=said):
            run(*words)
    write(tmp_path / "dict.fr.txt", ["a b c"])
    with pytest.raises(InputError, match=r"dict\.fr\.txt, line 1: not a word and a number"):
        run(moses, *files, *data)
