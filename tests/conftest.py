"""Fixtures of all tests, and the mark of tests that check a patch of fairseq."""

import logging
import os
import random

import fairseq  # noqa: F401 (so that importing the package registers its models)
import numpy as np
import pytest
import torch


@pytest.fixture(autouse=True)
def _seed_random_numbers() -> None:
    """Seed all generators, so that a test does not depend on the tests before it in the process."""
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)


@pytest.fixture
def warned(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """The warnings of this package, whatever level the libraries have given to the root logger."""
    caplog.set_level(logging.WARNING, "rnnsearch_fairseq")
    return caplog


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "patched: checks the patches of fairseq; skipped unless RNNSEARCH_PATCHES=all")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    chosen = os.environ.get("RNNSEARCH_PATCHES", "all")
    if chosen != "all" and item.get_closest_marker("patched"):
        pytest.skip(f"RNNSEARCH_PATCHES={chosen}: this test checks the patches")
