"""What the tests of the server share."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from rnnsearch_fairseq.inference.translator import Translator, load
from tests.serve.live import Live, serving


@pytest.fixture(scope="session")
def model(models: Path) -> Path:
    """A model that reads trees; without them, it is like any other."""
    return models / "tree2seq_small"


@pytest.fixture(scope="module")
def translator(models: Path) -> Translator:
    return load(models / "bahdanau_gru")


@pytest.fixture(scope="module")
def live(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A running server."""
    with serving(model, tmp_path_factory.mktemp("live") / "log", "--max-len-b", "30") as running:
        yield running


@pytest.fixture
def serve(translator: Translator) -> Iterator[Callable[..., Any]]:
    """Starts applications without a network, and returns their clients."""
    from fastapi.testclient import TestClient

    from rnnsearch_fairseq.serve.server import make_app
    from rnnsearch_fairseq.serve.worker import Worker

    with contextlib.ExitStack() as stack:

        def start(model: Translator = translator, cors: Sequence[str] = ()) -> TestClient:
            app = make_app(Worker(model), cors=cors)
            return stack.enter_context(TestClient(app, "http://localhost:8000", raise_server_exceptions=False))

        yield start


@pytest.fixture
def client(serve: Callable[..., Any]) -> Any:
    """The client of an application with the plain model."""
    return serve()
