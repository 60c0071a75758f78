"""Work on blocks of rows in other processes."""

import os
import signal

import pytest

from rnnsearch_fairseq.corpus import rows
from rnnsearch_fairseq.errors import InputError


def _die(block: list[int]) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_that_is_killed_ends_the_work() -> None:
    with pytest.raises(InputError, match="a process was killed"):
        list(rows.map_blocks(_die, range(rows.MIN_BLOCKS * rows.BLOCK), "words"))
