"""``rnnsearch tree-tables``."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from recipes.reproduce.eriguchi_tables import main
from recipes.reproduce.token_scores import score_tokens
from rnnsearch_fairseq.errors import InputError

SENTENCES = 20
REFERENCE = [f"w{k} x{k} y{k} z{k} u{k} v{k}" for k in range(SENTENCES)]
Make = Callable[..., None]


def worse(sentences: int, lines: list[str] = REFERENCE) -> list[str]:
    """``lines``, of which the first ``sentences`` are backwards and have a wrong word."""
    return [" ".join(["no", *reversed(line.split()[1:])]) if k < sentences else line for k, line in enumerate(lines)]


def numbers(lines: list[str]) -> str:
    scores = score_tokens(REFERENCE, lines)
    return f"{scores.ribes:.2f} | {scores.bleu:.2f}"


def verdicts(line: str) -> tuple[str, list[str]]:
    """A claim, and the verdicts by RIBES and BLEU."""
    claim, said = line.removeprefix("- ").rsplit(": RIBES ", 1)
    return claim, [part.split(" (")[0] for part in said.split("), BLEU ")]


@pytest.fixture
def reference(tmp_path: Path) -> Path:
    path = tmp_path / "dev.ja"
    path.write_text("".join(f"{line}\n" for line in REFERENCE))
    return path


@pytest.fixture
def make(tmp_path: Path, reference: Path) -> Make:
    """Make a run: its files' translations, and of each epoch perplexity and seconds; a loss goes with perplexity."""

    def make(name: str, epochs: list[tuple[float, int]] = (), **translations: list[str]) -> None:
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        log = "".join(
            f"2026 | INFO | valid | epoch {number:03d} | valid on 'valid' subset | loss {ppl / 10} | ppl {ppl} | "
            f"num_updates {number}\n2026 | INFO | train | epoch {number:03d} | loss 1 | ppl 2 | wps 9 | "
            f"num_updates {number} | lr 1 | train_wall {seconds} | wall 999\n"
            for number, (ppl, seconds) in enumerate(epochs, 1)
        )
        if log:
            (folder / "train.log").write_text(log)
        for file, lines in translations.items():
            (folder / f"{file}.tok").write_text("".join(f"{line}\n" for line in lines))

    return make


@pytest.fixture
def report(
    tmp_path: Path, reference: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., dict[str, list[str]]]:
    """The lines of each section that the command prints, by the beginning of its heading."""

    def run(*words: object) -> dict[str, list[str]]:
        command = ["eriguchi_tables", tmp_path / "runs", "--reference", reference, *words]
        monkeypatch.setattr(sys, "argv", list(map(str, command)))
        main()
        sections = capsys.readouterr().out.split("## ")[1:]
        return {section.split()[0] + section.split()[1][0]: section.splitlines() for section in sections}

    return run


def test_table_3_has_models_objectives_and_the_papers_claims(make: Make, report: Callable[..., dict]) -> None:
    make("tree2seq-softmax", [(30, 170), (20, 180), (25, 200)], beam20=worse(2))
    make("tree2seq-blackout500", [(22, 60)], beam20=worse(3))
    make("anmt-softmax", [(21.5, 100)], beam20=worse(1))
    make("anmt_reversed-softmax", [(21.5, 100)], beam20=worse(12))
    lines = report()["Table3"]
    rows = [
        "| model | objective | perplexity | RIBES | BLEU | seconds an epoch | epochs |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        # Perplexity is the best epoch's, seconds are the median.
        f"| proposed | blackout500 | 22.00 | {numbers(worse(3))} | 60 | 1 |",
        f"| proposed | softmax | 20.00 | {numbers(worse(2))} | 180 | 3 |",
        f"| ANMT | softmax | 21.50 | {numbers(worse(1))} | 100 | 1 |",
        f"| ANMT, source reversed | softmax | 21.50 | {numbers(worse(12))} | 100 | 1 |",
    ]
    assert [line for line in lines if line.startswith("|")] == rows
    claims = [line for line in lines if line.startswith("- ")]
    assert list(map(verdicts, claims[:3])) == [
        ("tree2seq-softmax beats anmt-softmax", ["undecided", "undecided"]),
        # In Markdown, an underscore is escaped.
        ("anmt-softmax beats anmt\\_reversed-softmax", ["agrees", "agrees"]),
        ("tree2seq-softmax beats tree2seq-blackout500", ["undecided", "undecided"]),
    ]
    ribes, bleu = zip(*(numbers(worse(k)).split(" | ") for k in (1, 12)))
    assert f"RIBES agrees ({ribes[0]}, {ribes[1]}: " in claims[1]
    assert f"BLEU agrees ({bleu[0]}, {bleu[1]}: " in claims[1]
    assert claims[3:] == [
        "- tree2seq-softmax takes about three times as long as tree2seq-blackout500: agrees "
        "(180 s, 60 s: 3.0 times; 2 to 4 agree)",
    ]


def test_runs_and_files_that_are_missing_are_named(make: Make, report: Callable[..., dict]) -> None:
    make("tree2seq-softmax", [(20, 180)], beam20=REFERENCE)
    make("anmt-blackout500", [(20, 180)])
    make("anmt-blackout2000", [], beam20=REFERENCE)
    make("anmt_reversed-blackout100")
    make("phrases_only-blackout100", [(20, 180)], beam20=REFERENCE)
    make("readings")
    sections = report()
    (missing,) = (line for line in sections["Table3"] if line.startswith("Missing"))
    assert missing == (
        "Missing: tree2seq-blackout500 (no folder), tree2seq-blackout2000 (no folder), "
        "anmt-blackout500 (no beam20.tok), anmt-blackout2000 (no train.log), anmt-softmax (no folder), "
        r"anmt\_reversed-blackout100 (no train.log and no beam20.tok), anmt\_reversed-blackout500 (no folder), "
        r"anmt\_reversed-blackout2000 (no folder), anmt\_reversed-softmax (no folder)."
    )
    assert [line for line in sections["Table3"] if line.startswith("- ")] == ["- nothing to compare"]
    (missing,) = (line for line in sections["Table4"] if line.startswith("Missing"))
    assert (
        missing
        == "Missing: "
        + ", ".join(
            f"tree2seq-blackout2000 (no {search}.tok)" for search in ("simple6", "simple20", "lengths6", "lengths20")
        )
        + "."
    )
    assert [line for line in sections["Table5"] if line.startswith("| proposed, without")] == [
        "| proposed, without sequential LSTMs | blackout100 | 20.00 | 100.00 | 100.00 |"
    ]
    assert r"phrases\_only-softmax (no folder)" in "".join(sections["Table5"])
    assert sections["Table5"][-2] == "In no table: readings."


def test_table_4_has_searches(make: Make, report: Callable[..., dict]) -> None:
    short = [line.rsplit(" ", 2)[0] for line in REFERENCE]
    make("tree2seq-blackout2000", simple6=worse(12), simple20=short, lengths6=worse(13), lengths20=REFERENCE)
    make("anmt-softmax", simple6=worse(1))
    lines = report()["Table4"]
    assert [line for line in lines if line.startswith("|")][2:] == [
        f"| tree2seq-blackout2000 | simple | 6 | {numbers(worse(12))} | 1.000 | 1.000 |",
        f"| tree2seq-blackout2000 | simple | 20 | {numbers(short)} | {2.718281828 ** (1 - 6 / 4):.3f} | 0.667 |",
        f"| tree2seq-blackout2000 | length statistics | 6 | {numbers(worse(13))} | 1.000 | 1.000 |",
        "| tree2seq-blackout2000 | length statistics | 20 | 100.00 | 100.00 | 1.000 | 1.000 |",
        f"| anmt-softmax | simple | 6 | {numbers(worse(1))} | 1.000 | 1.000 |",
    ]
    claims = [line for line in lines if line.startswith("- ")]
    assert list(map(verdicts, claims)) == [
        ("tree2seq-blackout2000: lengths20 beats simple6", ["agrees", "agrees"]),
        ("tree2seq-blackout2000: lengths20 beats simple20", ["agrees", "agrees"]),
        ("tree2seq-blackout2000: lengths6 beats simple6", ["undecided", "undecided"]),
    ]
    assert "Missing: anmt-softmax (no simple20.tok), " in "".join(lines)


def test_further_seeds_have_rows_and_claims_of_their_own(make: Make, report: Callable[..., dict]) -> None:
    make("tree2seq-softmax", [(20, 60)], beam20=worse(1))
    make("tree2seq-softmax-seed2", [(21, 60)], beam20=worse(2))
    make("anmt-softmax", [(22, 60)], beam20=worse(3))
    make("anmt-softmax-seed2", [(23, 60)], beam20=worse(4))
    make("anmt-blackout500-seed2", [(24, 60)])
    lines = report()["Table3"]
    assert [line.rsplit(" |", 5)[0] for line in lines if line.startswith("|")][2:] == [
        "| proposed | softmax | 20.00",
        "| proposed | softmax, seed 2 | 21.00",
        "| ANMT | softmax | 22.00",
        "| ANMT | softmax, seed 2 | 23.00",
    ]
    assert [line.partition(":")[0] for line in lines if line.startswith("- ")] == [
        "- tree2seq-softmax beats anmt-softmax",
        "- tree2seq-softmax-seed2 beats anmt-softmax-seed2",
    ]
    missing = "".join(line for line in lines if line.startswith("Missing"))
    assert "anmt-blackout500-seed2 (no beam20.tok)" in missing
    assert missing.count("-seed2") == 1, "no further seed is asked for"


def test_table_5_has_runs_with_and_without_sequential_lstms(make: Make, report: Callable[..., dict]) -> None:
    make("tree2seq-blackout2000", [(20, 60)], beam20=worse(1))
    make("phrases_only-blackout2000", [(25, 60)], beam20=worse(13))
    lines = report()["Table5"]
    assert [line for line in lines if line.startswith("|")][2:] == [
        f"| proposed | blackout2000 | 20.00 | {numbers(worse(1))} |",
        f"| proposed, without sequential LSTMs | blackout2000 | 25.00 | {numbers(worse(13))} |",
    ]
    (claim,) = (line for line in lines if line.startswith("- "))
    assert verdicts(claim) == ("tree2seq-blackout2000 beats phrases\\_only-blackout2000", ["agrees", "agrees"])


@pytest.mark.parametrize(
    ("slow", "fast", "said"), [(61, 30, "agrees"), (59, 30, "does not agree"), (130, 30, "does not")]
)
def test_about_three_times_as_long(make: Make, report: Callable[..., dict], slow: int, fast: int, said: str) -> None:
    make("anmt-softmax", [(20, slow)], beam20=REFERENCE)
    make("anmt-blackout2000", [(20, fast)], beam20=REFERENCE)
    assert f"as long as anmt-blackout2000: {said}" in "".join(report()["Table3"])


def test_epochs_of_no_second_are_not_divided_by(make: Make, report: Callable[..., dict]) -> None:
    make("anmt-softmax", [(20, 1)], beam20=REFERENCE)
    make("anmt-blackout2000", [(20, 0)], beam20=REFERENCE)
    assert "as long as anmt-blackout2000: not compared (1 s, 0 s)" in "".join(report()["Table3"])


def test_output_is_written_whole(make: Make, report: Callable[..., dict], tmp_path: Path) -> None:
    make("tree2seq-softmax", [(20, 60)], beam20=worse(2))
    assert report("--output", tmp_path / "tables.md") == {}
    written = (tmp_path / "tables.md").read_text()
    assert [line for line in written.splitlines() if line.startswith("## ")] == [
        "## Table 3: models and objectives",
        "## Table 4: searches",
        "## Table 5: the sequential LSTMs",
        "## How claims are tested",
    ]


def test_bad_folders_and_files_are_refused(make: Make, report: Callable[..., dict], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="runs: holds no run"):
        report()
    make("tree2seq-softmax-2", [(20, 60)], beam20=REFERENCE)
    with pytest.raises(InputError, match="runs: holds no run"):
        report()
    make("anmt-softmax", [(20, 60)], beam20=REFERENCE[1:])
    with pytest.raises(InputError, match=r"anmt-softmax/beam20\.tok has 19"):
        report("--output", tmp_path / "tables.md")
    assert not (tmp_path / "tables.md").exists()
    (tmp_path / "runs/anmt-softmax/beam20.tok").write_text("\n" * SENTENCES)
    log = tmp_path / "runs/anmt-softmax/train.log"
    with pytest.raises(InputError, match=r"train\.log: it would replace an input"):
        report("--output", log)
    log.write_text(log.read_text().splitlines()[1])
    with pytest.raises(InputError, match=r"train\.log: no epoch was validated"):
        report()


def test_more_negatives_are_claimed_to_be_better_in_scores_alone(make: Make, report: Callable[..., dict]) -> None:
    make("tree2seq-blackout500", [(19, 60)], beam20=worse(15))
    make("tree2seq-blackout2000", [(22, 60)], beam20=worse(1))
    make("anmt-blackout500", [(19, 60)], beam20=worse(1))
    make("anmt-blackout2000", [(22, 60)], beam20=worse(1))
    lines = report()["Table3"]
    assert [verdicts(line) for line in lines if line.startswith("- ") and "0 beats tree2seq" in line] == [
        ("tree2seq-blackout2000 beats tree2seq-blackout500", ["agrees", "agrees"])
    ]
    assert not any("anmt-blackout2000 beats" in line for line in lines)
