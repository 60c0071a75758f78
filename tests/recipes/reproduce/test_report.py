"""The report on a folder of runs."""

import re
import shutil
import tarfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from recipes.reproduce.bleu import bleu
from recipes.reproduce.report import main
from rnnsearch_fairseq.errors import InputError
from tests.plots.builders import write_log
from tests.recipes.reproduce import builders
from tests.recipes.reproduce.builders import printed_by, record, reference, write

LENGTHS = [12] * 40 + [32] * 15 + [33] * 5 + [52] * 20
SOURCE = [" ".join(f"s{place}" for place in range(length)) for length in LENGTHS]
REFERENCE = reference(LENGTHS)
broken = partial(builders.broken, LENGTHS)
Run = Callable[..., dict[str, list[str]]]


def write_model(folder: Path, hypotheses: list[str], aligned: bool = True) -> None:
    """All files of a run; word N of the translation is aligned to word N of the source."""
    blocks, scores = [], []
    for number, (source, line) in enumerate(zip(SOURCE, hypotheses)):
        length = LENGTHS[number] + 1
        weights = [[float(row == column) for column in range(length)] for row in range(length)]
        rows = " ".join(",".join(map(str, row)) for row in weights)
        blocks.append(f"S-{number}\t{source}\nH-{number}\t-1\t{line}" + (f"\nA-{number}\t{rows}" if aligned else ""))
        scores.append(record(number, source, REFERENCE[number], weights))
    for name in ("generate.out", "nounk.out", "fairseq.out"):
        write(folder / name, blocks)
    if aligned:
        write(folder / "score.jsonl", scores)
    write_log(folder / "train.log", [(1000, 1800, 50, 60), (2500, 1800, 40.5, 55.25), (3000, 180, 30, 58)])


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
def run(runs: Path) -> Run:
    """The lines of each section of report.md, by its heading."""

    def run(*words: object) -> dict[str, list[str]]:
        assert str(runs / "report.md") in printed_by(main, runs, *words, "-s", "en", "-t", "fr")
        sections = (runs / "report.md").read_text(encoding="utf-8").split("\n## ")[1:]
        return {section.splitlines()[0].split(":")[0]: section.splitlines()[2:] for section in sections}

    return run


def rows(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith("|") and "---" not in line][1:]


def answers(sections: dict[str, list[str]]) -> dict[str, str]:
    lines = sections["The paper's claims"]
    return dict(line.removeprefix("- ").split(": ", 1) for line in lines if line.startswith("- "))


@pytest.mark.slow
def test_the_report_of_all_models(runs: Path, run: Run) -> None:
    systems = {
        "RNNencdec-30": broken(2, 11),
        "RNNsearch-30": broken(1, 5),
        "RNNencdec-50": broken(2, 8),
        "RNNsearch-50": broken(1, 3),
        "RNNsearch-50-long": broken(1, 2),
    }
    for name, lines in systems.items():
        write_model(runs / name, lines, aligned="search" in name)
    write(runs / "others/phrase-based.txt", broken(2, 6))
    sections = run()
    assert list(sections) == [
        *("The paper's claims", "Table 1", "Table 2", "Figure 2", "Figure 3", "Table 3"),
        *("Significance", "Alignment error rate", "Monotony of alignments"),
    ]
    assert [line for lines in sections.values() for line in lines if line.startswith("Missing")] == []
    scores = {name.replace("-long", "⋆"): f"{bleu(lines, REFERENCE):.2f}" for name, lines in systems.items()}
    moses = f"{bleu(broken(2, 6), REFERENCE):.2f}"
    assert rows(sections["Table 1"]) == [
        *(f"| {name} | {score} | {score} | {score} |" for name, score in scores.items()),
        f"| phrase-based | {moses} | {moses} | – |",
    ]
    caption = (
        "translated with unknown words banned, except by phrase-based: the same translations as in the column before."
    )
    assert sections["Table 1"][-1].endswith(caption)
    assert rows(sections["Table 2"])[0] == "| RNNencdec-30 | – | 3,000 | 3 | 1.05 | CPU | 2 | 40.50 | 55.25 |"
    assert "| 31–40 | 20 | " in "\n".join(sections["Figure 2"])
    assert sections["Figure 3"][0].startswith(
        "RNNsearch-50 made these alignments. The first sentence is drawn by chance from all, the others"
    )
    assert sum("| sentence " in line for line in sections["Table 3"]) == 3
    assert len(rows(sections["Significance"])) == 6 * 5 / 2
    first = scores["RNNencdec-30"], scores["RNNsearch-30"]
    apart = f"{float(first[0]) - float(first[1]):+.2f}"
    row = rows(sections["Significance"])[0]
    assert row.startswith(f"| RNNencdec-30 | RNNsearch-30 | {' | '.join(first)} | {apart} | -")
    assert row.endswith(" | one seed |")
    assert rows(sections["Alignment error rate"]) == [
        f"| {name} | 0.00 | 100.00 | 100.00 | {sum(LENGTHS):,} |"
        for name in ("RNNsearch-30", "RNNsearch-50", "RNNsearch-50⋆")
    ]
    assert (
        rows(sections["Monotony of alignments"])[-1]
        == f"| gold | {sum(LENGTHS) - 80:,} | 100.0 | 0.0 | 0.0 | 0.0 | – |"
    )
    pictures = re.findall(r"!\[[^]]*\]\(([^)]*)\)", (runs / "report.md").read_text(encoding="utf-8"))
    assert len(pictures) == 5
    assert all((runs / name).read_bytes().startswith(b"\x89PNG") for name in pictures)
    assert not any("not tested" in answer for answer in answers(sections).values())
    shutil.move(runs, runs.with_name("old"))
    with tarfile.open(runs.with_name("old") / "runs-1.tar.xz") as archive:
        archive.extractall(runs)
    again = run()
    for title in ("Table 1", "Table 2", "Figure 2", "Table 3", "Significance"):
        assert again[title] == sections[title]


def test_seeds_are_pooled_and_table_3_has_the_papers_sentences(runs: Path, run: Run, tmp_path: Path) -> None:
    source = [*SOURCE[:-1], "In a press conference on Thursday , Mr Blair stated that"]
    write(runs / "data/test.en", source)
    shutil.copytree(runs / "data", tmp_path / "second/data")
    for folder, lines in ((runs, broken(1, 2)), (tmp_path / "second", broken(3, 2))):
        for name in ("RNNsearch-50", "RNNencdec-50"):
            write_model(folder / name, lines, aligned=False)
    sections = run(tmp_path / "second")
    assert sections["Table 3"][0] == "| sentence 79 | 11 words |"
    mean = f"{(bleu(broken(1, 2), REFERENCE) + bleu(broken(3, 2), REFERENCE)) / 2:.2f}"
    assert f"| {mean} | {mean} | +0.00 | +0.00 to +0.00 | two seeds |" in rows(sections["Significance"])[0]
    assert "; two seeds)" in answers(sections)["RNNsearch-50 is above RNNencdec-50, all sentences"]
    for title, lines in (("Table 1", broken(1, 2)), ("RUNS 2, Table 1", broken(3, 2))):
        assert f"| RNNencdec-50 | {bleu(lines, REFERENCE):.2f} | " in rows(sections[title])[0]
    assert (runs / "figure-2-runs-2.png").exists() and "RUNS 2, Figure 2" in sections
    write(tmp_path / "second/data/test.fr", REFERENCE[::-1])
    with pytest.raises(InputError, match="second/data: another test set"):
        run(tmp_path / "second")


def test_what_is_missing_is_named(runs: Path, run: Run) -> None:
    write_model(runs / "RNNsearch-50", broken(1, 2), aligned=False)
    (runs / "RNNsearch-30").mkdir()
    write_log(runs / "RNNsearch-30/train.log", [(1, 1, 1, 1)])
    (runs / "RNNsearch-50/nounk.out").unlink()
    assert "Missing: RNNsearch-30 (no score.jsonl), RNNsearch-50 (no score.jsonl)." in run()["Alignment error rate"]
    (runs / "data/test.align").unlink()
    (runs / "data/dict.fr.txt").unlink()
    (runs / "old").mkdir()
    sections = run()
    assert not any(
        "RNNencdec" in line for lines in sections.values() for line in lines
    )  # what has no folder is left out
    for title in ("Figure 2", "Table 3"):
        assert "Missing: RNNsearch-30 (no generate.out)." in sections[title]
    files = "RNNsearch-30 (no generate.out, no nounk.out, no fairseq.out), RNNsearch-50 (no nounk.out)"
    assert f"Missing: the dictionaries, which tell unknown words, {files}." in sections["Table 1"]
    assert "Missing: a model with generate.out of fairseq-generate --print-alignment soft." in sections["Figure 3"]
    assert "Missing: gold alignments (data/test.align)." in sections["Alignment error rate"]
    assert "In no table: old." in sections["Monotony of alignments"]
    assert "Not compared: it takes two systems." in sections["Significance"]
    alone = "not tested (no nounk.out of RNNsearch-50, no others/phrase-based)"
    assert answers(sections)["RNNsearch-50 is at least as good as phrase-based, no unknown words"] == alone


def test_sentences_with_an_unknown_word_on_either_side_are_not_known(runs: Path, run: Run) -> None:
    write_model(runs / "mine", REFERENCE)
    write(runs / "data/test.en", ["s0 <unk>", "s0 new", *SOURCE[2:]])
    write(runs / "data/dict.fr.txt", [f"t{place} 1" for place in range(6)])
    write(runs / "data/test.fr", ["t0", "t0", "t0 t1 t2 t5", *REFERENCE[3:]])
    assert "No unknown words: the 1 of them" in "".join(run()["Table 1"])


def test_few_long_sentences(runs: Path, run: Run) -> None:
    for name in ("RNNsearch-50", "RNNencdec-50"):
        write_model(runs / name, broken(1, 2))
    sections = run("--long", 53)
    assert answers(sections)["RNNencdec-50 falls with length"] == "not tested (long sentences: 0)"
    assert "0 are long (53 words or more) and 80 short; 20 have 50" in sections["The paper's claims"][2]
    assert "No sentence has 53 words or more; the longest has 52." in sections["Table 3"]
    assert "| +0.00 | +0.00 to +0.00 |" in rows(sections["Significance"])[0]  # the two systems are equal


def test_sentences_may_be_chosen(runs: Path, run: Run) -> None:
    pieces = [line.replace("t0 t1", "t@@ 0 <unk> |") for line in REFERENCE]
    write_model(runs / "mine_1", pieces, aligned=False)
    write_model(runs / "mine", REFERENCE)
    sections = run("--figure-3", "0,5", "--table-3", "7", "--width", 60)
    assert "The paper's claims" not in sections  # they are of other models
    assert sections["Figure 3"][0].startswith("mine made these alignments. The sentences are chosen. ")
    assert [line for line in sections["Figure 3"] if line.startswith("!")] == [
        "![Alignment of sentence 0](figure-3-0.png)",
        "![Alignment of sentence 5](figure-3-5.png)",
    ]
    assert sections["Table 3"][0] == "| sentence 7 | 12 words |"
    assert any(line.startswith("| mine\\_1 | t0 &lt;unk&gt; \\| t2 t3") for line in sections["Table 3"])
    assert rows(sections["Figure 2"])[0].startswith("| 1–60 | 80 | 100.00 |")


def test_bad_input_is_refused(runs: Path, run: Run) -> None:
    with pytest.raises(InputError, match="runs: holds no run"):
        run()
    write_model(runs / "mine", REFERENCE)
    with pytest.raises(InputError, match="--table-3 80: the test set has 80 sentences"):
        run("--table-3", "80")
    with pytest.raises(SystemExit):
        run("--figure-3", "1,x")
    other = write(runs / "others/mine.txt", REFERENCE)
    with pytest.raises(InputError, match=r"others/mine\.txt: another system is called mine, too"):
        run()
    write(other, REFERENCE[1:]).rename(runs / "others/phrase-based")
    with pytest.raises(InputError, match="others/phrase-based: 79 translations, but the test set has 80"):
        run()
    (runs / "data/test.fr").unlink()
    with pytest.raises(InputError, match=r"test\.fr: cannot be read"):
        run()
    assert not (runs / "report.md").exists()
