"""What is read of the epochs in a log of fairseq-train."""

from pathlib import Path

import pytest

from recipes.reproduce.epochs import Epoch, read_train_log
from rnnsearch_fairseq.errors import InputError
from tests.plugin.log_lines import LINES, train_line, valid_line
from tests.recipes.reproduce.test_curve_points import SIMPLE

FIRST = Epoch(1, 363, 166, 103.603, 8.249, 40.5, 97.741)


def read(folder: Path, *lines: str) -> list[Epoch]:
    path = folder / "train.log"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return read_train_log(path)


def test_an_epoch_has_what_fairseq_printed(tmp_path: Path) -> None:
    assert read(tmp_path, *LINES) == read(tmp_path, SIMPLE) == [FIRST]


def test_an_epoch_that_is_trained_again_replaces_itself_and_those_after_it(tmp_path: Path) -> None:
    lines = [line for number in (1, 2, 3, 4) for line in (valid_line(number, 7 - number), train_line(number))]
    again = [valid_line(2, 4.75), train_line(2, 45), valid_line(3, 4.25)]
    assert [epoch.number for epoch in read(tmp_path, *lines)] == [1, 2, 3, 4]
    resumed = read(tmp_path, *lines, *again)
    assert [(epoch.number, epoch.seconds, epoch.dev_loss) for epoch in resumed] == [(1, 60, 6), (2, 45, 4.75)]
    resumed = read(tmp_path, *lines, *again, train_line(3, 40))
    assert [(epoch.number, epoch.seconds, epoch.dev_loss) for epoch in resumed[1:]] == [(2, 45, 4.75), (3, 40, 4.25)]


@pytest.mark.parametrize("losses", [(6, 5.5), ("nan", 5.5)])
def test_of_several_validations_the_best_counts(tmp_path: Path, losses: tuple[float | str, float]) -> None:
    (epoch,) = read(tmp_path, valid_line(1, losses[0], updates=50), valid_line(1, losses[1]), train_line(1))
    assert epoch.dev_loss == 5.5


@pytest.mark.parametrize("lines", [LINES[:-1], [train_line(7).replace("train_wall", "other")]])
def test_logs_that_say_too_little_are_refused(tmp_path: Path, lines: list[str]) -> None:
    with pytest.raises(InputError, match=r"train\.log"):
        read(tmp_path, *lines)
