"""fairseq's own command lines with the plugin, end to end, on a few hundred sentence pairs."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from shlex import split

import numpy as np
import pytest

from recipes.grammar import write_corpus
from tests.commands import PAPER, PLUGIN, TINY, Output, generate, preprocess, run, train

# Hydra and fairseq warn of each other's age.
pytestmark = [pytest.mark.slow, pytest.mark.train, pytest.mark.filterwarnings("ignore::UserWarning")]

PARTS = {"train": 200, "valid": 13, "test": 13}
EPOCHS = 80


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The binarized data; its subset "test1" is the training set again."""
    folder = tmp_path_factory.mktemp("commands")
    write_corpus(folder, PARTS, seed=1, longest=10)
    (folder / "preparation.json").unlink()  # so that text is in the words of the data
    preprocess(folder, *split("-s en -t fr --trainpref train --validpref valid --testpref test,train"))
    return folder / "bin"


@pytest.fixture(scope="module")
def overfitted(data: Path) -> Path:
    """A folder with a model that knows the training pairs by heart, and one half-way there."""
    folder = data.parent / "overfitted"
    sizes = split("--embedding-size 64 --hidden-size 96 --alignment-size 96 --maxout-size 64")
    words = split("--optimizer adam --lr 0.005 --clip-norm 1 --criterion cross_entropy --batch-size 25")
    words += ["--task", "rnnsearch", "--max-epoch", str(EPOCHS), "--no-save-optimizer-state"]
    words += ["--save-interval", str(EPOCHS // 2), "--validate-interval", str(EPOCHS // 2)]
    train(data, folder, "--arch", "bahdanau_gru_small", *sizes, *words)
    return folder


@pytest.fixture(scope="module")
def best(overfitted: Path) -> Path:
    return overfitted / f"checkpoint{EPOCHS}.pt"


@pytest.fixture(scope="module")
def aligned(data: Path, best: Path) -> Output:
    """The test set with the weights of the alignments."""
    return generate(data, best, "--print-alignment", "soft")


def test_a_model_that_knows_200_pairs_by_heart_translates_them(data: Path, best: Path) -> None:
    output = generate(data, best, "--max-tokens", "1000", subset="test1")
    assert sorted(output.order) == list(range(PARTS["train"]))
    bleu = re.search(r"^Generate test1 with beam=5: BLEU4 = ([\d.]+)", output.text, re.MULTILINE)
    assert bleu is not None and float(bleu[1]) > 95


def translated(folder: Path, lines: Sequence[str], *words: str | Path) -> list[str]:
    """What ``rnnsearch translate`` prints for these lines."""
    (folder / "typed").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    command = ("-m", "rnnsearch_fairseq", "translate", folder / "typed", *words)
    return run("python", *command, cwd=folder).stdout.split("\n")[:-1]


def test_text_is_translated_as_binarized_data_is(data: Path, overfitted: Path, best: Path, aligned: Output) -> None:
    lines, expected = ([" ".join(aligned.words(kind)[number]) for number in range(3)] for kind in ("S", "H"))
    command = ["--model", best, "--alignments", data.parent / "alignments"]
    assert translated(data.parent, [lines[0], "", *lines[1:]], *command) == [expected[0], "", *expected[1:]]
    records = [json.loads(line) for line in (data.parent / "alignments").read_text().splitlines()]
    for number, record in enumerate([records[0], *records[2:]]):
        rows = [[float(weight) for weight in row.split(",")] for row in aligned.words("A")[number]]
        np.testing.assert_allclose(record["alignment"], rows, atol=1e-4)
    models = f"{best}:{overfitted}/checkpoint{EPOCHS // 2}.pt"
    both = generate(data, models)
    assert translated(data.parent, lines, "--model", models) == [" ".join(both.words("H")[n]) for n in range(3)]


def test_a_checkpoint_of_another_architecture_is_refused_in_one_sentence(data: Path, best: Path) -> None:
    words = [data, *PLUGIN, "--arch", "rnnencdec", *TINY, *PAPER, "--batch-size", "16", "--restore-file", best]
    done = run("fairseq-train", *words, cwd=data.parent, status=1)
    assert "Traceback" not in done.stdout + done.stderr
    assert re.fullmatch(r"error: .*another architecture.* --arch.*", done.stderr.rstrip("\n").rsplit("\n", 1)[-1])
