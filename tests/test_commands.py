"""fairseq's own command lines with the plugin, and `rnnsearch translate` with what they trained."""

import json
import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from recipes.grammar import write_corpus
from tests.commands import PLUGIN, TINY, preprocess, run

pytestmark = [pytest.mark.slow, pytest.mark.train]
LINES = 12
BEST = "saved/checkpoint2.pt"
LONGEST = ["--max-len-b", "15"]  # words of a translation
SEARCH = [*LONGEST, "--beam", "4", "--nbest", "2"]
# The words of all lines of a kind that a sentence has: its source S, its translations H, and their alignments A.
Lines = dict[str, dict[int, list[list[str]]]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text, binarized in bin, and a model of two epochs in saved, validated with --eval-bleu."""
    folder = tmp_path_factory.mktemp("commands")
    write_corpus(folder, {"train": 80, "valid": LINES}, seed=5, longest=8)
    (folder / "preparation.json").unlink()  # so that text is in the words of the data
    preprocess(folder, *["-s", "en", "-t", "fr", "--trainpref", "train", "--validpref", "valid", "--testpref", "valid"])
    words = ["bin", *PLUGIN, "--task", "rnnsearch", "--arch", "bahdanau_gru", *TINY, "--max-epoch", "2"]
    words += ["--optimizer", "adam", "--lr", "0.01", "--batch-size", "20", "--save-dir", "saved", "--eval-bleu"]
    words += ["--search", "groundhog", "--eval-bleu-args", '{"beam": 2}', "--eval-bleu-detok", "space"]
    assert run("fairseq-train", *words, "--num-workers", "0", cwd=folder).stdout.count("| bleu ") >= 2
    return folder


def translated(folder: Path, command: str, *words: str, models: str = BEST, stdin: str = "") -> Lines:
    """What fairseq-generate or fairseq-interactive prints."""
    common = ["bin", *PLUGIN, "--path", models, "--batch-size", "5"]
    printed = run(f"fairseq-{command}", *common, *words, cwd=folder, stdin=stdin).stdout
    lines: Lines = defaultdict(lambda: defaultdict(list))
    for kind, number, text in re.findall(r"^([SHA])-(\d+)\t(?:.*\t)?(.*)$", printed, re.MULTILINE):
        lines[kind][int(number)].append(text.split())
    return lines


@pytest.fixture(scope="module")
def ours(folder: Path) -> Lines:
    """The translations by the task rnnsearch."""
    return translated(folder, "generate", "--task", "rnnsearch", *SEARCH, "--print-alignment", "soft")


def test_typed_lines_are_translated_as_binarized_ones(folder: Path, ours: Lines) -> None:
    words = ["--task", "rnnsearch", *SEARCH, "-s", "en", "-t", "fr", "--buffer-size", "5"]
    typed = translated(folder, "interactive", *words, stdin=(folder / "valid.en").read_text(encoding="utf-8"))
    assert [*typed["H"]] == [*range(LINES)], "in the order of the lines"
    assert typed["H"] == ours["H"] and {len(lines) for lines in ours["H"].values()} == {2}


def test_validation_has_the_loss_of_the_training(folder: Path) -> None:
    words = ["bin", *PLUGIN, "--task", "rnnsearch", "--path", BEST, "--valid-subset", "valid", "--batch-size", "5"]
    printed = run("python", "-m", "fairseq_cli.validate", *words, cwd=folder)
    loss = torch.load(folder / BEST, weights_only=True)["extra_state"]["val_loss"]
    assert f" | loss {loss:g} | " in printed.stdout + printed.stderr


def by_rnnsearch(folder: Path, lines: Sequence[str], *words: str) -> list[str]:
    """What ``rnnsearch translate`` prints for these lines."""
    (folder / "typed").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return run("rnnsearch", "translate", "typed", *LONGEST, *words, cwd=folder).stdout.split("\n")[:-1]


def test_text_is_translated_as_binarized_data_is(folder: Path, ours: Lines) -> None:
    lines, expected = ([" ".join(ours[kind][number][0]) for number in range(3)] for kind in ("S", "H"))
    command = ["--model", BEST, "--beam", "4", "--alignments", "alignments"]
    assert by_rnnsearch(folder, [lines[0], "", *lines[1:]], *command) == [expected[0], "", *expected[1:]]
    records = [json.loads(line) for line in (folder / "alignments").read_text().splitlines()]
    assert (records[1]["id"], records[1]["target"]) == (1, ["</s>"])
    for number, record in enumerate([records[0], *records[2:]]):
        rows = [[float(weight) for weight in row.split(",")] for row in ours["A"][number][0]]
        np.testing.assert_allclose(record["alignment"], rows, atol=1e-4)
    models = "saved/checkpoint1.pt:saved/checkpoint2.pt"
    both = translated(folder, "generate", "--task", "rnnsearch", *LONGEST, models=models)
    assert by_rnnsearch(folder, lines, "--model", models) == [" ".join(both["H"][n][0]) for n in range(3)]
