"""What the tests of faults share: data, and a training with which others are compared."""

import sys
from pathlib import Path

import pytest

from recipes.grammar import write_corpus
from rnnsearch_fairseq.corpus import parses
from tests.patches.recovery.training import PAIRS, TREES, Trained, train


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Binarized sentence pairs with the trees of their sources."""
    folder = tmp_path_factory.mktemp("faults")
    write_corpus(folder, PAIRS, seed=5, longest=12)
    with pytest.MonkeyPatch.context() as patch:
        for part in PAIRS:
            words = [f"{folder}/{part}.en", f"{folder}/{part}.penn", "--format", "penn"]
            patch.setattr(sys, "argv", ["trees", *words, "--output", f"{folder}/{part}.trees"])
            parses.main()
        import fairseq_cli.preprocess

        for words in (["-s", "en", "-t", "fr"], ["--only-source", "-s", "trees"]):
            words += [word for part in PAIRS for word in (f"--{part}pref", f"{folder}/{part}")]
            patch.setattr(sys, "argv", ["fairseq-preprocess", *words, "--destdir", f"{folder}/bin"])
            fairseq_cli.preprocess.cli_main()
    return folder / "bin"


@pytest.fixture(scope="session")
def undisturbed(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Two epochs of twelve updates, saved after every fifth."""
    return train(data, tmp_path_factory.mktemp("undisturbed"))


@pytest.fixture(scope="session")
def undisturbed_trees(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Four epochs of six updates, of a tree model, with the second paper's training."""
    return train(data, tmp_path_factory.mktemp("undisturbed_trees"), words=TREES)
