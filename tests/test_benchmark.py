"""The benchmark: what it measures, and what it refuses. How fast anything is, no test says."""

import json
from pathlib import Path

import pytest
import torch

from rnnsearch_fairseq.benchmark import (
    Timing,
    as_table,
    count_operations,
    parse_arguments,
    parse_setups,
    random_batch,
)
from rnnsearch_fairseq.data.grammar import write_corpus
from rnnsearch_fairseq.errors import InputError
from tests.builders import make_dictionary
from tests.test_commands import PLUGIN, preprocess, run

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
    with pytest.raises(InputError, match="must be 'NAME: OPTIONS'"):
        parse_setups(given, [])


def test_the_table_has_medians_and_compares_rounds() -> None:
    first = Timing("first", 600, 8 * 10**9, wall=[1.0, 2.0, 3.0], cpu=[0.5, 1.0, 1.5])
    second = Timing("second", 300, wall=[1.0, 4.0, 3.0], cpu=[1.0, 1.0, 1.0])
    table = as_table([first, second], "words", {"float32": 1e10})
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]
    assert rows == [
        ["first", "300", "200 to 600", "600", "4", "0.40", "1.00"],
        ["second", "100", "75 to 300", "300", "–", "–", "2.00"],
    ]


def test_operations_of_products_are_counted() -> None:
    first, second = torch.randn(3, 5), torch.randn(5, 7)
    counted = count_operations(lambda: torch.zeros(3, 7).addmm_(first, second) + first @ second)
    assert counted == 2 * (2 * 3 * 5 * 7)


@pytest.mark.parametrize("lengths", [(4, 6), (1, 1)])
def test_random_batches_have_the_lengths(lengths: tuple[int, int]) -> None:
    dictionaries = (make_dictionary(9), make_dictionary(5))
    batch = random_batch(dictionaries, lengths, pairs=3)
    sides = (batch["net_input"]["src_tokens"], batch["target"])
    for side, length, dictionary in zip(sides, lengths, dictionaries):
        assert side.shape == (3, length)
        assert side[:, -1].eq(dictionary.eos()).all()
        assert side[:, :-1].ge(dictionary.nspecial).all()
    assert batch["ntokens"] == 3 * lengths[1]


def test_two_models_train_in_turns(folder: Path) -> None:
    setups = ["words: --arch anmt_small", "search: --arch bahdanau_gru_small --alignment-size 8 --maxout-size 8"]
    words = [*setups, "--updates", "2", "--rounds", "3", "--output", "timings.json", "--", "bin", *TRAIN]
    done = run("python", "-m", "rnnsearch_fairseq.benchmark", "train", *words, cwd=folder)
    assert [line.split("|")[1].strip() for line in done.stdout.splitlines()[4:]] == ["words", "search"]
    timings = json.loads((folder / "timings.json").read_text())
    assert [timing["name"] for timing in timings] == ["words", "search", "machine"]
    assert timings[0]["count"] == timings[1]["count"] > 16
    assert min(timing["operations"] for timing in timings) > 0
    assert all(len(timing[kind]) == 3 and min(timing[kind]) > 0 for timing in timings for kind in ("wall", "cpu"))


def test_random_words_train_and_two_models_translate_in_turns(folder: Path) -> None:
    words = [
        "search: --arch bahdanau_gru_small --alignment-size 8 --maxout-size 8",
        "--lengths",
        "5,4",
        "--rounds",
        "1",
    ]
    done = run("python", "-m", "rnnsearch_fairseq.benchmark", "train", *words, "--", "bin", *TRAIN, cwd=folder)
    assert "| search |" in done.stdout
    options = [
        *TRAIN,
        "--arch",
        "bahdanau_gru_small",
        "--alignment-size",
        "8",
        "--maxout-size",
        "8",
        "--max-update",
        "1",
    ]
    run("fairseq-train", "bin", *PLUGIN, *options, "--save-dir", "model", cwd=folder)
    setups = [f"{name}: --path model/checkpoint_last.pt --beam {beam}" for name, beam in (("narrow", 1), ("wide", 3))]
    words = [*setups, "--rounds", "2", "--output", "timings.json", "--", "bin", "--batch-size", "1"]
    words += ["--gen-subset", "valid", "--max-len-b", "5"]
    done = run("python", "-m", "rnnsearch_fairseq.benchmark", "generate", *words, cwd=folder)
    assert [line.split("|")[1].strip() for line in done.stdout.splitlines()[4:]] == ["narrow", "wide"]
    timings = json.loads((folder / "timings.json").read_text())
    assert [(timing["name"], timing["count"], len(timing["wall"])) for timing in timings] == [
        ("narrow", 2, 2),
        ("wide", 2, 2),
    ]


@pytest.mark.parametrize("given", ["5", "0,4", "5,x", "5,4,3"])
def test_bad_lengths_are_refused(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_arguments(["train", "a: ", "--lengths", given])
    assert "is not two lengths" in capsys.readouterr().err
    with pytest.raises(InputError, match="--lengths is of training"):
        parse_arguments(["generate", "a: ", "--lengths", "5,4"])


def test_more_updates_than_batches_are_refused(folder: Path) -> None:
    words = ["words: --arch anmt_small", "--updates", "4", "--", "bin", *TRAIN]
    done = run("python", "-m", "rnnsearch_fairseq.benchmark", "train", *words, cwd=folder, status=1)
    assert "words: the data has 3 batches" in done.stderr
