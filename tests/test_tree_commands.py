"""Tree-to-sequence from text to translation, by the commands, on some pairs of the grammar and their parses."""

from pathlib import Path

import pytest

from recipes.grammar import write_corpus
from tests.commands import PLUGIN, Output, preprocess, run

pytestmark = [pytest.mark.slow, pytest.mark.train]
SIZES = ["--embedding-size", "32", "--hidden-size", "32"]
PAPER = ["--optimizer", "sgd", "--lr", "1.0", "--clip-norm", "3", "--sentence-avg", "--batch-size", "32"]
TRAIN, VALID = 120, 10


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text, trees with every tenth parse failed, lengths, and all of it binarized."""
    folder = tmp_path_factory.mktemp("trees")
    write_corpus(folder, {"train": TRAIN, "valid": VALID}, seed=5, longest=12)
    for part in ("train", "valid"):
        lines = (folder / f"{part}.penn").read_text(encoding="utf-8").splitlines()
        lines[::10] = ["(())"] * len(lines[::10])
        (folder / f"{part}.penn").write_text("\n".join(lines) + "\n", encoding="utf-8")
        words = [f"{part}.en", f"{part}.penn", "--format", "penn", "--output", f"{part}.trees"]
        run("python", "-m", "recipes.trees.transitions", *words, cwd=folder)
    texts = ["--trainpref", "train", "--validpref", "valid", "--testpref", "valid"]
    for languages in (["-s", "en", "-t", "fr"], ["--only-source", "-s", "trees"]):
        preprocess(folder, *languages, *texts)
    run("python", "-m", "recipes.trees.lengths", "train.en", "train.fr", "--output", "lengths", cwd=folder)
    return folder


def train(folder: Path, save: str, *words: str) -> str:
    common = ["bin", *PLUGIN, "-s", "en", "-t", "fr", "--save-dir", save, "--num-workers", "0"]
    return run("fairseq-train", *common, *SIZES, *PAPER, "--max-epoch", "2", *words, cwd=folder).stdout


def test_typed_trees_give_the_translations_of_binarized_ones(folder: Path) -> None:
    words = ["--task", "rnnsearch", "--tree-lang", "trees", "--arch", "tree2seq_small", "--max-words", "10"]
    train(folder, "tree", *words, "--require-parse", "--criterion", "blackout", "--blackout-samples", "20")
    searching = ["--search", "tree2seq", "--length-statistics", "lengths", "--beam", "3", "--max-len-b", "20"]
    command = ["bin", *PLUGIN, "-s", "en", "-t", "fr", "--task", "rnnsearch", "--tree-lang", "trees", *searching]
    command += ["--path", "tree/checkpoint_last.pt", "--batch-size", "4", "--print-alignment", "soft"]
    generated = Output(run("fairseq-generate", *command, cwd=folder).stdout)
    assert sorted(generated.order) == list(range(VALID))
    for number, rows in generated.words("A").items():
        assert len(rows) in (len(generated.words("H")[number]), len(generated.words("H")[number]) + 1)
        # Attention to phrases is left out, so the weights of the words make at most one.
        assert all(sum(map(float, row.split(","))) <= 1 + 1e-4 for row in rows)
    translating = ["translate", "valid.en", "--model", "tree/checkpoint_last.pt", "--trees", "valid.trees", *searching]
    shown = run("python", "-m", "rnnsearch_fairseq", *translating, cwd=folder).stdout.splitlines()
    # The text's record says Moses, so words are written as text.
    assert [line.replace(" ", "") for line in shown] == ["".join(generated.words("H")[n]) for n in range(VALID)]
