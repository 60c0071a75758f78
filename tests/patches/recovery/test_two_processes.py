"""Trainings by two processes, with BlackOut or more batches an update: stopped, they go on as if they had not been."""

import json
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from rnnsearch_fairseq.criterions import blackout
from tests.patches.recovery.training import is_equal, read_state, train_two

pytestmark = [pytest.mark.slow, pytest.mark.train, pytest.mark.patched]

BLACKOUT = ["--criterion", "blackout", "--blackout-samples", "5", "--dropout", "0"]
WAYS = {
    "blackout": [*BLACKOUT, "--update-freq", "2"],
    "update-freq by epoch": ["--update-freq", "1,2"],
}


def negatives(folder: Path, rank: int) -> list[list[int]]:
    """What a process drew, by batch."""
    return [json.loads(line) for line in (folder / f"drawn{rank}").read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("options", WAYS.values(), ids=WAYS)
def test_two_processes_go_on_where_they_stopped(data: Path, tmp_path: Path, options: list[str]) -> None:
    """In the middle of the second epoch, where there are pools of two updates."""
    folders = [tmp_path / "whole", tmp_path / "parts"]

    def train_both(folder: Path, *more: str) -> Any:
        def record(rank: int, original: Any = blackout.draw_negatives) -> None:
            def draw(*args: Any) -> Tensor:
                drawn = original(*args)
                with (folder / f"drawn{rank}").open("a") as lines:
                    print(json.dumps(drawn.flatten().tolist()), file=lines)
                return drawn

            blackout.draw_negatives = draw

        folder.mkdir(exist_ok=True)
        first, second = train_two(data, folder, record, [*options, *more])
        assert (first.status, second.status) == (0, 0), first.printed + second.printed
        return first

    whole = train_both(folders[0])
    stopped = train_both(folders[1], "--max-update", str(len(whole.updates()) - 3))
    resumed = train_both(folders[1])
    assert stopped.updates() + resumed.updates() == whole.updates()
    assert is_equal(read_state(resumed.last), read_state(whole.last))
    if "blackout" in options:
        for rank in (0, 1):
            assert negatives(folders[1], rank) == negatives(folders[0], rank)
        for first, second in zip(*(negatives(folders[0], rank) for rank in (0, 1)), strict=True):
            # Two draws are the same word in one case of five or so.
            assert sum(map(int.__eq__, first, second)) < 0.5 * min(len(first), len(second))
