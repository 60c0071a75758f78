"""What the tests of the server share."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.serve.live import Live, serving
from tests.trained import make_checkpoint, train

EXAMPLE = "The dog sleeps."


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that reads trees; without them, it is like any other."""
    return train(tmp_path_factory.mktemp("live") / "run", "tree2seq_small")


@pytest.fixture(scope="session")
def unknown_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose likeliest word is always <unk>."""
    state, path = make_checkpoint(), tmp_path_factory.mktemp("live") / "unknown.pt"
    state["model"]["decoder.network.readout.to_vocabulary.bias"][3] = 1e3
    torch.save(state, path)
    return path


@pytest.fixture(scope="module")
def live(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A running server, which parses no sentences."""
    log = tmp_path_factory.mktemp("live") / "log"
    with serving(model, log, "--max-len-b", "30", "--example", EXAMPLE) as running:
        yield running
