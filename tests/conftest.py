"""What all tests share."""

import random

import numpy as np
import pytest
import torch


@pytest.fixture(autouse=True)
def _same_numbers_in_any_order() -> None:
    """A test's random numbers, and so its result, do not depend on the tests that ran before it in the process."""
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
