"""What the tests of the server share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serve.live import Live, serving
from tests.trained import train

EXAMPLE = "The dog sleeps."


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that reads trees; without them, it is like any other."""
    return train(tmp_path_factory.mktemp("live") / "run", "tree2seq_small")


@pytest.fixture(scope="module")
def live(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A running server, which parses no sentences."""
    log = tmp_path_factory.mktemp("live") / "log"
    with serving(model, log, "--max-len-b", "30", "--example", EXAMPLE) as running:
        yield running
