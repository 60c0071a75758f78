"""What all tests share."""

import random

import numpy as np
import pytest
import torch


@pytest.fixture(autouse=True)
def _same_numbers_in_any_order() -> None:
    """Random numbers do not depend on the tests that ran before in the same process, nor does a test's result."""
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
