"""Words and sentences a second, by the command line. How fast anything is, no test says."""

import contextlib
import json
import logging
import sys
from pathlib import Path

import pytest
import torch

from recipes.benchmark import speed
from recipes.benchmark.__main__ import COMMANDS, main
from recipes.benchmark.arguments import parse_arguments
from recipes.benchmark.setups import Setup, configure
from recipes.benchmark.workloads import count_operations
from rnnsearch_fairseq.corpora.grammar import write_corpus
from rnnsearch_fairseq.errors import InputError
from tests.commands import preprocess, run
from tests.recipes.benchmark.builders import TINY, TRAIN, WORDS

COMMON = [*TRAIN, "--batch-size", "8"]
ROOT = Path(__file__).resolve().parents[3]
SETUPS = ["words: " + " ".join(WORDS), "search: " + " ".join(TINY)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("benchmark")
    write_corpus(folder, {"train": 24, "valid": 2}, seed=5, longest=8)
    preprocess(folder, "bin", "--trainpref", "train", "--validpref", "valid")
    return folder


def test_operations_of_products_are_counted() -> None:
    first, second = torch.randn(3, 5), torch.randn(5, 7)
    counted = count_operations(lambda: torch.zeros(3, 7).addmm_(first, second) + first @ second)
    assert counted == 2 * (2 * 3 * 5 * 7)


@pytest.mark.slow
@pytest.mark.train
def test_two_models_train_in_turns(folder: Path) -> None:
    words = [*SETUPS, "--updates", "2", "--rounds", "3", "--output", folder / "timings.json", "--", folder / "bin"]
    done = run("python", "-m", "recipes.benchmark", "train", *words, *COMMON, cwd=ROOT)
    assert [line.split("|")[1].strip() for line in done.stdout.splitlines()[4:]] == ["words", "search"]
    timings = json.loads((folder / "timings.json").read_text())
    assert [timing["name"] for timing in timings] == ["words", "search", "machine"]
    assert timings[0]["count"] == timings[1]["count"] > 16
    assert min(timing["operations"] for timing in timings) > 0
    assert all(len(timing[kind]) == 3 and min(timing[kind]) > 0 for timing in timings for kind in ("wall", "cpu"))


@pytest.mark.train
def test_random_words_train_on_the_data_s_dictionaries(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", *SETUPS, "--lengths", "5,4", "--rounds", "1", "--updates", "2", "--", str(folder / "bin")]
    timings = speed.train(parse_arguments([*words, *COMMON]))
    assert [timing["count"] for timing in timings] == [2 * 8 * 4, 2 * 8 * 4, 0]
    assert "| search |" in capsys.readouterr().out


def test_more_updates_than_batches_are_refused(folder: Path) -> None:
    words = ["train", SETUPS[0], "--updates", "4", "--", str(folder / "bin"), *COMMON]
    with pytest.raises(InputError, match="words: the data has 3 batches"):
        speed.train(parse_arguments(words))


@pytest.mark.slow
def test_one_model_translates_with_two_beams_in_turns(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = str(folder / "bin")
    model = make_model(data, folder)
    setups = [f"{name}: --path {model} --beam {beam}" for name, beam in (("narrow", 1), ("wide", 3))]
    words = ["generate", *setups, "--rounds", "2", "--", data, "--batch-size", "1", "--cpu"]
    timings = speed.generate(parse_arguments([*words, "--gen-subset", "valid", "--max-len-b", "5"]))
    assert [line.split("|")[1].strip() for line in capsys.readouterr().out.splitlines()[4:]] == ["narrow", "wide"]
    assert [(timing["name"], timing["count"], len(timing["wall"])) for timing in timings] == [
        ("narrow", 2, 2),
        ("wide", 2, 2),
    ]
    with pytest.raises(InputError, match="narrow: unrecognized arguments: --beams 3; see fairseq-generate --help"):
        speed.generate(parse_arguments([*words, "--beams", "3"]))


def make_model(data: str, folder: Path) -> Path:
    """A checkpoint of a model that was never trained."""
    setup = Setup("model", configure("model", [data, *COMMON, *TINY, "--no-save-optimizer-state"]))
    setup.trainer.save_checkpoint(str(folder / "model.pt"), {"train_iterator": {"epoch": 1}})
    return folder / "model.pt"


def test_a_bad_name_for_the_output_costs_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    monkeypatch.setitem(COMMANDS, "train", lambda args: ran.append(args.command) or ran)
    monkeypatch.setattr(logging, "disable", lambda level: None)
    for name, runs in (("timings.json", 1), ("nowhere/timings.json", 0)):
        ran.clear()
        monkeypatch.setattr(sys, "argv", ["benchmark", "train", "a: ", "--output", str(tmp_path / name)])
        with pytest.raises(InputError, match="cannot be written") if not runs else contextlib.nullcontext():
            main()
        assert len(ran) == runs
    assert json.loads((tmp_path / "timings.json").read_text()) == ["train"]
