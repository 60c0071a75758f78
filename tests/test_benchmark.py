"""The benchmark: what it measures, and what it refuses. How fast anything is, no test says."""

import json
from pathlib import Path

import pytest

from rnnsearch_fairseq.benchmark import Timing, as_table, parse_setups
from rnnsearch_fairseq.data.grammar import write_corpus
from rnnsearch_fairseq.errors import InputError
from tests.test_commands import preprocess, run

TRAIN = ["--optimizer", "sgd", "--lr", "0.1", "--batch-size", "8", "--embedding-size", "8", "--hidden-size", "8"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("benchmark")
    write_corpus(folder, {"train": 24, "valid": 2}, seed=5, longest=8)
    preprocess(folder, "bin", "--trainpref", "train", "--validpref", "valid")
    return folder


def test_setups_come_before_what_is_common() -> None:
    setups = parse_setups(["a: --arch x --lr '[1, 2]'", "b:"], ["bin", "--lr", "3"])
    assert setups == {"a": ["--arch", "x", "--lr", "[1, 2]", "bin", "--lr", "3"], "b": ["bin", "--lr", "3"]}


@pytest.mark.parametrize("given", [["no name"], [": --arch x"], ["a: --x", "a: --y"]])
def test_setups_without_a_name_of_their_own_are_refused(given: list[str]) -> None:
    with pytest.raises(InputError, match="must be 'NAME: OPTIONS of fairseq-train'"):
        parse_setups(given, [])


def test_the_table_has_medians_and_compares_rounds() -> None:
    first = Timing("first", 600, wall=[1.0, 2.0, 3.0], cpu=[0.5, 1.0, 1.5])
    second = Timing("second", 300, wall=[1.0, 4.0, 3.0], cpu=[1.0, 1.0, 1.0])
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in as_table([first, second]).splitlines()[2:]]
    assert rows == [
        ["first", "300", "200 to 600", "600", "1.00"],
        ["second", "100", "75 to 300", "300", "2.00"],
    ]


def test_two_models_train_in_turns(folder: Path) -> None:
    setups = ["words: --arch anmt_small", "search: --arch bahdanau_gru_small --alignment-size 8 --maxout-size 8"]
    words = [*setups, "--updates", "2", "--rounds", "3", "--output", "timings.json", "--", "bin", *TRAIN]
    done = run("python", "-m", "rnnsearch_fairseq.benchmark", "train", *words, cwd=folder)
    assert [line.split("|")[1].strip() for line in done.stdout.splitlines()[4:]] == ["words", "search"]
    timings = json.loads((folder / "timings.json").read_text())
    assert [timing["name"] for timing in timings] == ["words", "search"]
    assert timings[0]["words"] == timings[1]["words"] > 16
    assert all(len(timing[kind]) == 3 and min(timing[kind]) > 0 for timing in timings for kind in ("wall", "cpu"))


def test_more_updates_than_batches_are_refused(folder: Path) -> None:
    words = ["words: --arch anmt_small", "--updates", "4", "--", "bin", *TRAIN]
    done = run("python", "-m", "rnnsearch_fairseq.benchmark", "train", *words, cwd=folder, status=1)
    assert "words: the data has 3 batches" in done.stderr
