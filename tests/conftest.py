"""Fixtures of all tests."""

import random

import numpy as np
import pytest
import torch


@pytest.fixture(autouse=True)
def _seed_random_numbers() -> None:
    """Seed all generators, so that a test does not depend on the tests before it in the process."""
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
