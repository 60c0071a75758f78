"""The command ``rnnsearch score``."""

import json
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import rnnsearch_fairseq
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference import score
from rnnsearch_fairseq.inference.aligned_pairs import read_scores
from tests.trained import PARSES

SOURCE, TARGET = "It's a cat.\n\nThe zebra sleeps.\n", "C'est un chat.\nle\nle zèbre dort.\n"
FILES = {
    "en": SOURCE,
    "fr": TARGET,
    "raw.en": SOURCE[:12],
    "raw.fr": TARGET[:15],
    "prepared.en": "it &apos;s a cat .\n",
    "prepared.fr": "c&apos; est un chat .\n",
    "trees": f"{PARSES[4]}\n-\n(S (NP the zebra) sleeps .)\n",
    "other.trees": f"{PARSES[0]}\n-\n-\n",
    "short": "le\n",
    "long": "le\nle\n" + "le " * 2000 + "\n",
}
Command = Callable[..., tuple[list[dict[str, Any]], str]]


@pytest.fixture
def command(models: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    """Run the command in this process, on FILES; returns the lines and standard error."""
    for name, content in FILES.items():
        (models / name).write_text(content)

    def run(*words: str | Path, model: str = "bahdanau_gru", files: str = "en fr") -> tuple[list[dict[str, Any]], str]:
        monkeypatch.chdir(models)
        monkeypatch.setattr(sys, "argv", ["score", *files.split(), "--model", model, *map(str, words)])
        capfd.readouterr()
        score.main()
        out, err = capfd.readouterr()
        return [json.loads(line) for line in out.splitlines()], err

    return run


def test_every_pair_is_a_line_and_is_read_again(command: Command, models: Path, tmp_path: Path) -> None:
    records, summary = command()
    assert [record["id"] for record in records] == [0, 1, 2]
    assert records[0]["source"] == ["it", "&apos;s", "a", "cat", ".", "</s>"]
    assert records[2]["target"] == ["le", "<unk>", "dort", ".", "</s>"]
    expected = rnnsearch_fairseq.load(models / "bahdanau_gru").align(SOURCE.splitlines(), TARGET.splitlines())
    for record, alignment in zip(records, expected, strict=True):
        assert record["word_logprobs"] == pytest.approx(alignment.logprobs.tolist(), abs=1e-6)
        assert record["logprob"] == pytest.approx(alignment.logprobs.sum().item(), abs=1e-6)
        assert record["alignment"][0] == pytest.approx(alignment.weights[0].tolist(), abs=1e-6)
    path = tmp_path / "scores"
    command("--output", path)
    for number, (pair, alignment) in enumerate(zip(read_scores(path), expected, strict=True)):
        assert pair.number == number
        assert [pair.source, pair.target] == [records[number]["source"], records[number]["target"]]
        torch.testing.assert_close(pair.weights, alignment.weights.double(), rtol=0, atol=1e-6)
    nll = -sum(record["logprob"] for record in records)
    assert f"scored 3 pairs, 13 target words with end-of-sentence: {nll / 3:.4f} nats a sentence" in summary
    assert f"perplexity {math.exp(nll / 13):.4f}" in summary
    # Prepared text stays as it is. One pair, since in a batch of another size, the last digits of weights may differ.
    assert command("--prepared", files="prepared.en prepared.fr")[0] == command(files="raw.en raw.fr")[0]


def test_trees_are_read_and_missed(command: Command, warned: pytest.LogCaptureFixture) -> None:
    records, _ = command("--trees", "trees", model="tree2seq_small")
    assert not warned.text
    command(model="tree2seq_small")
    assert "no sentence has a parse: give them" in warned.text
    assert records[0]["phrases"] == [[0, 5], [1, 5], [1, 4], [2, 4]]
    assert records[1]["phrases"] == [] and records[1]["phrase_attention"] == [[], []]
    total = [sum(row) for field in ("alignment", "phrase_attention") for row in records[0][field][:1]]
    assert sum(total) == pytest.approx(1, abs=1e-4)


def test_what_cannot_be_scored_is_refused_and_writes_nothing(command: Command, tmp_path: Path) -> None:
    plain, trees = "bahdanau_gru", "tree2seq_small"
    for model, files, words, message in (
        (plain, "en short", [], "short: ends at line 1"),
        (plain, "en long", [], "long, line 3 has 2,000 words"),
        (trees, "en fr", ["--trees", "other.trees"], "en, line 1: leaf 1 of the parse is 'the', but word 1 is 'it'"),
        (plain, "en fr", ["--output", "fr"], "it would replace an input"),
    ):
        with pytest.raises(InputError, match=message):
            command("--output", tmp_path / "out", *words, model=model, files=files)
    assert os.listdir(tmp_path) == []
