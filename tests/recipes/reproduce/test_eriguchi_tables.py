"""The second paper's tables."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from recipes.reproduce.eriguchi_tables import main
from recipes.reproduce.token_scores import score_tokens
from rnnsearch_fairseq.errors import InputError
from tests.recipes.reproduce.builders import printed_by, write

SENTENCES = 20
REFERENCE = [f"w{k} x{k} y{k} z{k} u{k} v{k}" for k in range(SENTENCES)]
Make = Callable[..., None]
Report = Callable[..., dict[str, list[str]]]


def worse(sentences: int) -> list[str]:
    """The references, of which the first ``sentences`` are backwards and have a wrong word."""
    return [
        " ".join(["no", *reversed(line.split()[1:])]) if k < sentences else line for k, line in enumerate(REFERENCE)
    ]


def numbers(lines: list[str]) -> str:
    return " | ".join(f"{score:.2f}" for score in score_tokens(REFERENCE, lines).scores.values())


def rows(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith("|")][2:]


def claims(lines: list[str]) -> list[str]:
    return [line.removeprefix("- ") for line in lines if line.startswith("- ")]


def verdicts(claim: str) -> tuple[str, list[str]]:
    """A claim, and the verdicts by RIBES and BLEU."""
    text, answers = claim.split(", perplexity")[0].rsplit(": RIBES ", 1)
    return text, [answer.split(" (")[0] for answer in answers.split("), BLEU ")]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Make a run: its files' translations, and of each epoch perplexity and seconds; a loss goes with perplexity."""

    def make(name: str, epochs: list[tuple[float, int]] = (), **translations: list[str]) -> None:
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        log = [
            f"2026 | INFO | valid | epoch {number:03d} | valid on 'valid' subset | loss {ppl / 10} | ppl {ppl} | "
            f"num_updates {number}\n2026 | INFO | train | epoch {number:03d} | loss 1 | ppl 2 | wps 9 | "
            f"num_updates {number} | lr 1 | train_wall {seconds} | wall 999"
            for number, (ppl, seconds) in enumerate(epochs, 1)
        ]
        if log:
            write(folder / "train.log", log)
        for file, lines in translations.items():
            write(folder / f"{file}.tok", lines)

    return make


@pytest.fixture
def report(tmp_path: Path) -> Report:
    """The lines of each section that the program prints, by the number of its table or its first letter."""

    def report(*options: object) -> dict[str, list[str]]:
        reference = write(tmp_path / "dev.ja", REFERENCE)
        text = "\n" + printed_by(main, tmp_path / "runs", "--reference", reference, *options)
        return {part.removeprefix("Table ")[0]: part.splitlines() for part in text.split("\n## ")[1:]}

    return report


def test_table_3_has_models_objectives_and_the_papers_claims(make: Make, report: Report) -> None:
    make("tree2seq-softmax", [(30, 170), (20, 180), (25, 200)], lengths20=worse(2))
    make("tree2seq-blackout500", [(22, 60)], lengths20=worse(3))
    make("anmt-softmax", [(21.5, 100)], lengths20=worse(1))
    make("anmt_reversed-softmax", [(21.5, 100)], lengths20=worse(12))
    lines = report()["3"]
    assert rows(lines) == [
        # Perplexity is the best epoch's, seconds are the median.
        f"| proposed | blackout500 | 22.00 | {numbers(worse(3))} | 60 | 1 |",
        f"| proposed | softmax | 20.00 | {numbers(worse(2))} | 180 | 3 |",
        f"| ANMT | softmax | 21.50 | {numbers(worse(1))} | 100 | 1 |",
        f"| ANMT, source reversed | softmax | 21.50 | {numbers(worse(12))} | 100 | 1 |",
    ]
    *compared, time = claims(lines)
    assert list(map(verdicts, compared)) == [
        ("tree2seq-softmax beats anmt-softmax", ["undecided", "undecided"]),
        # In Markdown, an underscore is escaped.
        ("anmt-softmax beats anmt\\_reversed-softmax", ["agrees", "agrees"]),
        ("tree2seq-softmax beats tree2seq-blackout500", ["undecided", "undecided"]),
    ]
    ribes, bleu = zip(*(numbers(worse(k)).split(" | ") for k in (1, 12)))
    assert f"RIBES agrees ({ribes[0]}, {ribes[1]}: " in compared[1]
    assert f"BLEU agrees ({bleu[0]}, {bleu[1]}: " in compared[1]
    claim = "tree2seq-softmax takes about three times as long as tree2seq-blackout500"
    assert time == f"{claim}: agrees (180 s, 60 s: 3.0 times; 2 to 4 agree)"


def test_runs_and_files_that_are_missing_are_named(make: Make, report: Report) -> None:
    make("tree2seq-softmax", [(20, 180)], lengths20=REFERENCE)
    make("anmt-blackout500", [(20, 180)])
    make("anmt-blackout2000", [], lengths20=REFERENCE)
    make("anmt_reversed-blackout100")
    make("phrases_only-blackout100", [(20, 180)], lengths20=REFERENCE)
    make("readings")
    sections = report()
    assert (
        "Missing: tree2seq-blackout500 (no folder), tree2seq-blackout2000 (no folder), "
        "anmt-blackout500 (no lengths20.tok), anmt-blackout2000 (no train.log), anmt-softmax (no folder), "
        r"anmt\_reversed-blackout100 (no train.log and no lengths20.tok), anmt\_reversed-blackout500 (no folder), "
        r"anmt\_reversed-blackout2000 (no folder), anmt\_reversed-softmax (no folder)."
    ) in sections["3"]
    assert claims(sections["3"]) == ["nothing to compare"]
    searches = [f"tree2seq-blackout2000 (no {name}.tok)" for name in ("simple6", "simple20", "lengths6", "lengths20")]
    assert f"Missing: {', '.join(searches)}." in sections["4"]
    assert rows(sections["5"])[-1] == "| proposed, without sequential LSTMs | blackout100 | 20.00 | 100.00 | 100.00 |"
    assert "In no table: readings." in sections["A"]


def test_table_4_has_searches(make: Make, report: Report) -> None:
    short = [line.rsplit(" ", 2)[0] for line in REFERENCE]
    make("tree2seq-blackout2000", simple6=worse(12), simple20=short, lengths6=worse(13), lengths20=REFERENCE)
    lines = report()["4"]
    assert rows(lines) == [
        f"| tree2seq-blackout2000 | simple | 6 | {numbers(worse(12))} | 1.000 | 1.000 |",
        f"| tree2seq-blackout2000 | simple | 20 | {numbers(short)} | {2.718281828 ** (1 - 6 / 4):.3f} | 0.667 |",
        f"| tree2seq-blackout2000 | length statistics | 6 | {numbers(worse(13))} | 1.000 | 1.000 |",
        "| tree2seq-blackout2000 | length statistics | 20 | 100.00 | 100.00 | 1.000 | 1.000 |",
    ]
    assert list(map(verdicts, claims(lines))) == [
        ("tree2seq-blackout2000: lengths20 beats simple6", ["agrees", "agrees"]),
        ("tree2seq-blackout2000: lengths20 beats simple20", ["agrees", "agrees"]),
        ("tree2seq-blackout2000: simple6 beats simple20", ["does not agree", "undecided"]),
        ("tree2seq-blackout2000: lengths6 beats simple6 (not a claim of the paper)", ["undecided", "undecided"]),
    ]


def test_seeds_are_pooled_and_parsed_sentences_scored_by_themselves(make: Make, report: Report, tmp_path: Path) -> None:
    make("tree2seq-softmax", [(30, 170)], lengths20=worse(2))
    make("tree2seq-softmax-seed2", [(20, 180)], lengths20=worse(4))
    make("anmt-softmax", [(40, 100)], lengths20=worse(12))
    trees = write(tmp_path / "trees", ["-", "-"] + ["s s r s r"] * (SENTENCES - 2))
    lines = report("--trees", trees)["3"]
    assert rows(lines)[0] == f"| proposed | softmax | 30.00 | {numbers(worse(2))} | 100.00 | 100.00 | 170 | 1 |"
    (claim,) = claims(lines)
    assert claim.count("; two seeds against one seed)") == 4
    assert claim.endswith("perplexity not decided (25.00, 40.00)")
    assert "RIBES agrees (85.00, 40.00: " in claim and "RIBES, parsed agrees (94.44, 44.44: " in claim


def test_the_share_of_attention_on_phrases(make: Make, report: Report, tmp_path: Path) -> None:
    make("tree2seq-softmax", [(30, 170)], lengths20=REFERENCE)
    pair = {"source": ["a", "b", "</s>"], "target": ["x", "</s>"], "alignment": [[0.2, 0.1, 0.1], [0.5, 0.2, 0.1]]}
    parsed = pair | {"id": 0, "phrases": [[0, 2]], "phrase_attention": [[0.6], [0.2]]}
    unparsed = pair | {"id": 1, "phrases": [], "phrase_attention": [[], []]}
    write(tmp_path / "runs/tree2seq-softmax/score.jsonl", [json.dumps(parsed), json.dumps(unparsed)])
    assert rows(report()["A"]) == ["| tree2seq-softmax | 40.0 | 50.0 |"]


def test_bad_folders_and_files_are_refused(make: Make, report: Report, tmp_path: Path) -> None:
    make("tree2seq-softmax-2", [(20, 60)], lengths20=REFERENCE)
    with pytest.raises(InputError, match="runs: holds no run"):
        report()
    make("anmt-softmax", [(20, 60)], lengths20=REFERENCE[1:])
    with pytest.raises(InputError, match=r"anmt-softmax/lengths20\.tok has 19"):
        report()
    log = write(tmp_path / "runs/anmt-softmax/lengths20.tok", REFERENCE).with_name("train.log")
    write(log, log.read_text().splitlines()[1:])
    with pytest.raises(InputError, match=r"train\.log: no epoch was validated"):
        report()
