"""The epochs and the learning curves in a log of fairseq-train."""

from pathlib import Path

import pytest

from recipes.reproduce.curve import read_curves
from recipes.reproduce.epochs import Epoch, read_kinds, read_train_log
from rnnsearch_fairseq.errors import InputError
from tests.plugin.log_lines import LINES, inner_line, train_line, valid_line
from tests.recipes.reproduce.builders import write

# LINES as --log-format simple prints them.
SIMPLE = [
    "2026-11-21 08:59:28 | INFO | fairseq_cli.train | {'_name': None, 'common': {'log_format': 'simple'}}",
    "2026-11-21 08:59:29 | INFO | fairseq.trainer | begin training epoch 1",
    "2026-11-21 09:00:10 | INFO | train_inner | epoch 001:    100 / 363 loss=9.1, nll_word_nats=6.3, ppl=548.7, "
    "ups=2.41, num_updates=100, train_wall=41",
    "2026-11-21 09:02:29 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 8.249 | "
    "nll_sentence_nats 97.741 | ppl 40.5 | num_updates 363",
    "2026-11-21 09:02:30 | INFO | fairseq_cli.train | end of epoch 1 (average epoch stats below)",
    "2026-11-21 09:02:31 | INFO | train | epoch 001 | loss 8.756 | nll_sentence_nats 103.603 | ppl 432.37 | "
    "num_updates 363 | train_wall 166",
]


@pytest.mark.parametrize("lines", [LINES, SIMPLE], ids=["json", "simple"])
def test_all_lines_have_the_statistics_that_fairseq_printed(lines: list[str], tmp_path: Path) -> None:
    log = write(tmp_path / "train.log", lines)
    assert read_train_log(log) == [Epoch(1, 363, 166, 103.603, 8.249, 40.5, 97.741)]
    _, intervals, validated = read_kinds(log)
    assert (intervals.keys(), validated.keys()) == ({100}, {363})
    statistics = {"loss": 9.1, "nll_word_nats": 6.3, "ppl": 548.7, "ups": 2.41, "num_updates": 100, "train_wall": 41}
    assert intervals[100] == {"epoch": 1, **statistics}


def test_an_epoch_that_is_trained_again_replaces_itself_and_those_after_it(tmp_path: Path) -> None:
    lines = [line for number in (1, 2, 3, 4) for line in (valid_line(number, 7 - number), train_line(number))]
    again = [valid_line(2, 4.75), train_line(2, 45), valid_line(3, 4.25)]
    for more, expected in (([], [(2, 45, 4.75)]), ([train_line(3, 40)], [(2, 45, 4.75), (3, 40, 4.25)])):
        resumed = read_train_log(write(tmp_path / "train.log", [*lines, *again, *more]))
        assert [(epoch.number, epoch.seconds, epoch.dev_loss) for epoch in resumed] == [(1, 60, 6), *expected]


def test_a_curve_has_the_updates_of_the_log_and_interpolated_times(tmp_path: Path) -> None:
    validated = [valid_line(1, 5, updates=updates) for updates in (60, 150)]
    lines = [inner_line(50, 90), validated[0], inner_line(100, 80, 30), inner_line(150, 70, 20), validated[1]]
    lines += [valid_line(1, 5, "valid1", updates=150), valid_line(1, 5, updates=180), train_line(2)]
    log = write(tmp_path / "train.log", [*lines, "2026 | INFO | update 200"])
    assert read_curves(log, "ppl") == [([50, 100, 150], [90, 80, 70]), ([60, 150, 180], [40.5] * 3)]
    assert read_curves(log, "ppl", timed=True)[1][0] == pytest.approx([16 / 3600, 60 / 3600, 72 / 3600])


def test_logs_that_say_too_little_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"train\.log"):
        read_train_log(write(tmp_path / "train.log", LINES[:-1]))
    log = write(tmp_path / "train.log", ["nothing", valid_line(1, 5).replace('"100"', '"nan"')])
    assert read_curves(log, "loss") == [([], [])] * 2
    with pytest.raises(InputError, match="holds no training time"):
        read_curves(log, "loss", timed=True)
