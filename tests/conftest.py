"""Fixtures of all tests."""

import logging
import random
import signal
from pathlib import Path
from typing import Any

import fairseq  # noqa: F401 (so that importing the package registers its models)
import numpy as np
import pytest
import torch

from tests import zygote
from tests.trained import ARCHITECTURES, train


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # pytest-xdist's workers inherit PATH and what signals do
        # Tests send both signals, but nohup ignores SIGHUP, and a shell's & ignores SIGINT.
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        zygote.start()


def pytest_unconfigure() -> None:
    zygote.stop()


@pytest.fixture(autouse=True)
def _seed_random_numbers() -> None:
    """Seed all generators, so that a test does not depend on the tests before it in the process."""
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model of each kind."""
    folder = tmp_path_factory.mktemp("models")
    for arch in ARCHITECTURES:
        train(folder / arch, arch)
    return folder


@pytest.fixture
def warned(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """The warnings of this package, whatever level the libraries have given to the root logger."""
    caplog.set_level(logging.WARNING, "rnnsearch_fairseq")
    return caplog


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The figures of matplotlib that are written."""
    from matplotlib.figure import Figure

    written: list[Any] = []
    save = Figure.savefig

    def record(figure: Figure, *args: Any, **options: Any) -> None:
        written.append(figure)
        save(figure, *args, **options)

    monkeypatch.setattr(Figure, "savefig", record)
    return written
