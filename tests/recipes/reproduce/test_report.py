"""``rnnsearch report``."""

import base64
import json
import re
import sys
from collections.abc import Callable, Sequence
from html.parser import HTMLParser
from pathlib import Path

import pytest

from recipes.reproduce.report import main
from rnnsearch_fairseq.errors import InputError
from tests.plots.builders import write_log

SENTENCES = 80
LENGTHS = [12] * 40 + [32] * 15 + [33] * 5 + [52] * 20
SOURCE = [" ".join(f"s{place}" for place in range(length)) for length in LENGTHS]
REFERENCE = [" ".join(f"t{place % 7}" for place in range(length)) for length in LENGTHS]
Run = Callable[..., dict[str, list[str]]]


def broken(short: int, long: int) -> list[str]:
    """The references with so many wrong words in each short and in each long sentence, spread out."""
    lines = []
    for length, line in zip(LENGTHS, REFERENCE):
        words = line.split()
        for place in range(short if length < 30 else long):
            words[place * 3 % length] = "wrong"
        lines.append(" ".join(words))
    return lines


def write(path: Path, lines: Sequence[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def write_model(folder: Path, hypotheses: list[str], aligned: bool = True) -> None:
    """All files of a run; word N of the translation is aligned to word N of the source."""
    blocks, scores = [], []
    for number, (source, line) in enumerate(zip(SOURCE, hypotheses)):
        length = LENGTHS[number] + 1
        weights = [[float(row == column) for column in range(length)] for row in range(length)]
        rows = " ".join(",".join(map(str, row)) for row in weights)
        blocks.append(f"S-{number}\t{source}\nH-{number}\t-1\t{line}" + (f"\nA-{number}\t{rows}" if aligned else ""))
        words = {"source": [*source.split(), "</s>"], "target": [*REFERENCE[number].split(), "</s>"]}
        scores.append(json.dumps({"id": number, **words, "alignment": weights}))
    write(folder / "generate.out", blocks)
    write(folder / "nounk.out", blocks)
    write(folder / "fairseq.out", blocks)
    if aligned:
        write(folder / "score.jsonl", scores)
    write_log(folder / "train.log", [(100, 360, 50, 60)])


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    write(folder / "data/test.en", SOURCE)
    write(folder / "data/test.fr", REFERENCE)
    write(folder / "data/dict.en.txt", [f"s{place} 1" for place in range(52)])
    write(folder / "data/dict.fr.txt", [f"t{place} 1" for place in range(7)])
    write(folder / "data/test.align", [" ".join(f"{k}-{k}" for k in range(length)) for length in LENGTHS])
    return folder


@pytest.fixture
def run(runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The lines of each section of report.md, by its heading."""

    def run(*words: object) -> dict[str, list[str]]:
        monkeypatch.setattr(sys, "argv", ["report", str(runs), "-s", "en", "-t", "fr", *map(str, words)])
        main()
        assert str(runs / "report.html") in capsys.readouterr().out
        sections = (runs / "report.md").read_text(encoding="utf-8").split("\n## ")[1:]
        return {section.splitlines()[0].split(":")[0]: section.splitlines()[2:] for section in sections}

    return run


class Page(HTMLParser):
    """What a page's tags are, which do not end, and what it takes from elsewhere."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.pictures: list[bytes] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "link")
        if tag == "img":
            kind, code = dict(attrs)["src"].split(",")
            assert kind == "data:image/png;base64"
            self.pictures.append(base64.b64decode(code))
        elif tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.slow
def test_everything_is_in_both_files(runs: Path, run: Run) -> None:
    for name, lines in {
        "RNNencdec-30": broken(2, 11),
        "RNNsearch-30": broken(1, 5),
        "RNNencdec-50": broken(2, 8),
        "RNNsearch-50": broken(1, 3),
        "RNNsearch-50-long": broken(1, 2),
    }.items():
        write_model(runs / name, lines, aligned="search" in name)
    write(runs / "others/Moses.txt", broken(2, 6))
    sections = run()
    assert list(sections) == [
        *("The paper's claims", "Table 1", "Table 2", "Figure 2", "Figure 3", "Table 3"),
        *("Significance", "Alignment error rate"),
    ]
    missing = [line for lines in sections.values() for line in lines if line.startswith("Missing")]
    assert missing == []  # RNNencdec has no alignment
    names = ["RNNencdec-30", "RNNsearch-30", "RNNencdec-50", "RNNsearch-50", "RNNsearch-50⋆", "Moses"]
    assert [line.split(" | ")[0] for line in sections["Table 1"][2:8]] == [f"| {name}" for name in names]
    assert "| 31–40 | 20 | " in "\n".join(sections["Figure 2"])
    assert re.fullmatch(r"\| Moses \| (\S+) \| \1 \| – \|", sections["Table 1"][7])
    caption = "translated with unknown words banned, except by Moses: the same translations as in the column before."
    assert sections["Table 1"][-1].endswith(caption)
    assert sections["Figure 3"][0].startswith("By RNNsearch-50⋆; sentences of 10 to 20 words")
    assert sum("| sentence " in line for line in sections["Table 3"]) == 3
    assert [line for line in sections["Alignment error rate"] if line.startswith("| RNN")] == [
        f"| {name} | 0.00 | 100.00 | 100.00 | {sum(LENGTHS):,} |"
        for name in ("RNNsearch-30", "RNNsearch-50", "RNNsearch-50⋆")
    ]
    pictures = re.findall(r"!\[[^]]*\]\(([^)]*)\)", (runs / "report.md").read_text(encoding="utf-8"))
    assert len(pictures) == 5
    page = Page((runs / "report.html").read_text(encoding="utf-8"))
    assert page.open == []
    assert page.pictures == [(runs / name).read_bytes() for name in pictures]
    assert all(picture.startswith(b"\x89PNG") for picture in page.pictures)
    assert all(name in page.text for name in names)
    assert all("not tested" not in line for line in sections["The paper's claims"] if line.startswith("- "))


def claims(lines: list[str]) -> dict[str, str]:
    pairs = [line.removeprefix("- ").split(": ", 1) for line in lines if line.startswith("- ")]
    return dict(pairs)


def test_what_is_missing_is_named(runs: Path, run: Run) -> None:
    write_model(runs / "RNNsearch-50", broken(1, 2), aligned=False)
    (runs / "RNNsearch-30").mkdir()
    write_log(runs / "RNNsearch-30/train.log", [(1, 1, 1, 1)])
    (runs / "RNNsearch-50/nounk.out").unlink()
    (runs / "RNNsearch-50/fairseq.out").unlink()
    assert "Missing: RNNsearch-30 (no score.jsonl), RNNsearch-50 (no score.jsonl)." in run()["Alignment error rate"]
    (runs / "data/test.align").unlink()
    (runs / "old").mkdir()
    sections = run()
    absent = "RNNencdec-30 (no folder RNNencdec-30), RNNencdec-50 (no folder RNNencdec-50), "
    absent += "RNNsearch-50⋆ (no folder RNNsearch-50-long)"
    assert f"Missing: {absent}." in sections["Table 2"]
    for title in ("Table 1", "Figure 2", "Table 3"):
        assert f"Missing: {absent}, RNNsearch-30 (no generate.out)." in sections[title]
    of_both = ("with unknown words banned", "by fairseq's search")
    said = ", ".join(f"RNNsearch-50 (no translations {kind})" for kind in of_both)
    assert f"Missing: {said}." in sections["Table 1"]
    assert "Missing: a model with generate.out of fairseq-generate --print-alignment soft." in sections["Figure 3"]
    assert "Missing: gold alignments (data/test.align)." in sections["Alignment error rate"]
    assert "In no table: old." in sections["Alignment error rate"]
    said = claims(sections["The paper's claims"])
    assert said["RNNencdec-50 falls with length"] == "not tested (no generate.out of RNNencdec-50)"
    both = "not tested (no nounk.out of RNNsearch-50, no nounk.out of RNNencdec-50)"
    assert said["RNNsearch-50 is above RNNencdec-50, no unknown words"] == both
    alone = "not tested (no nounk.out of RNNsearch-50, no others/Moses)"
    assert said["RNNsearch-50 is as good as Moses, no unknown words"] == alone


def test_few_long_sentences_and_no_dictionaries(runs: Path, run: Run) -> None:
    for name in ("RNNsearch-50", "RNNencdec-50"):
        write_model(runs / name, broken(1, 2))
    (runs / "data/dict.fr.txt").unlink()
    sections = run("--long", 53)
    said = claims(sections["The paper's claims"])
    assert said["RNNencdec-50 falls with length"] == "not tested (long sentences: 0)"
    assert "0 are long (53 words or more) and 80 short; 20 have 50" in sections["The paper's claims"][0]
    assert said["RNNsearch-50 is above RNNencdec-50, no unknown words"] == "not tested (no unknown words: 0)"
    assert "No sentence has 53 words or more; the longest has 52." in sections["Table 3"]
    assert "Missing: the dictionaries, which tell unknown words." in sections["Table 1"]


def test_sentences_may_be_chosen(runs: Path, run: Run) -> None:
    write_model(runs / "mine", REFERENCE)
    sections = run("--figure-3", "0,5", "--table-3", "7", "--width", 60, "--output", runs)
    assert sections["Figure 3"][0].startswith("By mine; sentences chosen. ")
    assert [line for line in sections["Figure 3"] if line.startswith("!")] == [
        "![Alignment of sentence 0](figure-3-0.png)",
        "![Alignment of sentence 5](figure-3-5.png)",
    ]
    assert "| sentence 7 | 12 words |" in sections["Table 3"]
    assert "| 1–60 | 80 | 100.00 |" in sections["Figure 2"]


def test_bad_input_is_refused(runs: Path, run: Run) -> None:
    with pytest.raises(InputError, match=r"runs: holds no run"):
        run()
    write_model(runs / "mine", REFERENCE)
    for option in ("--figure-3", "--table-3"):
        with pytest.raises(InputError, match=rf"{option} 80: the test set has 80 sentences"):
            run(option, "80")
        with pytest.raises(SystemExit):
            run(option, "1,x")
    with pytest.raises(InputError, match=r"--width is 0; give at least 1"):
        run("--width", "0")
    write(runs / "others/mine.txt", REFERENCE)
    with pytest.raises(InputError, match=r"others/mine\.txt: another system is called mine, too"):
        run()
    write(runs / "others/mine.txt", REFERENCE).rename(runs / "others/Moses.a")
    write(runs / "others/Moses.b", REFERENCE)
    with pytest.raises(InputError, match=r"others/Moses\.b: another system is called Moses"):
        run()
    (runs / "others/Moses.a").unlink()
    (runs / "others/Moses.b").unlink()
    write(runs / "others/mine.txt", REFERENCE[1:]).rename(runs / "others/Moses")
    with pytest.raises(InputError, match=r"others/Moses: 79 translations, but the test set has 80"):
        run()
    (runs / "data/test.fr").unlink()
    with pytest.raises(InputError, match=r"test\.fr: cannot be read"):
        run()
    assert not (runs / "report.md").exists()
    assert not (runs / "report.html").exists()


def test_a_model_that_gets_nothing_right_is_reported(runs: Path, run: Run) -> None:
    write_model(runs / "RNNsearch-50", [" ".join(["wrong"] * length) for length in LENGTHS])
    said = claims(run()["The paper's claims"])["RNNsearch-50 does not fall with length, sentences of 50 words or more"]
    assert said == "undecided (0.00, 0.00: +0.00, 95 % interval +0.00 to +0.00)"  # there is nothing to lose


def test_attention_inside_captions_is_reported(runs: Path, run: Run) -> None:
    write_model(runs / "RNNsearch-50", broken(1, 2))
    write_model(runs / "RNNencdec-50", broken(1, 2), aligned=False)
    write(runs / "data/test.segments", [f"3-4 {length - 3}-{length - 4}" for length in LENGTHS])
    lines = run()["Attention inside the right caption"]
    # Word N looks at word N: of the four words of the first caption, the last one looks outside. Equal weights on
    # 13 positions put 3 / 13 in the first caption of the shortest sentences.
    inside = sum(length - 1 for length in LENGTHS) / sum(LENGTHS)
    equal = sum(4 * 3 / (n + 1) + (n - 4) * (n - 3) / (n + 1) for n in LENGTHS) / sum(LENGTHS)
    assert lines[2] == f"| RNNsearch-50 | {100 * inside:.2f} | {100 * equal:.2f} | {sum(LENGTHS):,} |"
    assert not any(line.startswith("Missing") for line in lines)  # RNNencdec has no alignment
    write(runs / "data/test.segments", [f"{length}-{length}" for length in LENGTHS])
    assert run()["Attention inside the right caption"] == ["Missing: a passage of two captions or more."]
