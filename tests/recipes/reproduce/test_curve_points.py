"""The learning curves in a log of fairseq-train."""

from pathlib import Path

import pytest

from recipes.reproduce.curve import Point, read_curve
from recipes.reproduce.logs import read_kinds
from rnnsearch_fairseq.errors import InputError
from tests.plugin.log_lines import LINES, inner_line, train_line, valid_line

# LINES as --log-format simple prints them.
SIMPLE = """\
2026-11-21 08:59:28 | INFO | fairseq_cli.train | {'_name': None, 'common': {'log_format': 'simple'}, 'max_epoch': 0}
2026-11-21 08:59:29 | INFO | fairseq.trainer | begin training epoch 1
2026-11-21 09:00:10 | INFO | train_inner | epoch 001:    100 / 363 loss=9.1, nll_word_nats=6.3, ppl=548.7, ups=2.41, \
num_updates=100, train_wall=41
2026-11-21 09:02:29 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 8.249 | nll_sentence_nats 97.741 | \
ppl 40.5 | num_updates 363
2026-11-21 09:02:30 | INFO | fairseq_cli.train | end of epoch 1 (average epoch stats below)
2026-11-21 09:02:31 | INFO | train | epoch 001 | loss 8.756 | nll_sentence_nats 103.603 | ppl 432.37 | \
num_updates 363 | train_wall 166
"""


def curve(folder: Path, *lines: str) -> tuple[list[Point], list[Point]]:
    path = folder / "train.log"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return read_curve(path)


@pytest.mark.parametrize("text", ["\n".join(LINES), SIMPLE], ids=["json", "simple"])
def test_each_kind_of_line_has_the_statistics_that_fairseq_printed(text: str, tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(text)
    epochs, intervals, validated = read_kinds(tmp_path / "train.log")
    assert [epochs.keys(), intervals.keys(), validated.keys()] == [{363}, {100}, {363}]
    assert intervals[100] == {"epoch": 1, "loss": 9.1, "nll_word_nats": 6.3, "ppl": 548.7, "ups": 2.41} | {
        "num_updates": 100,
        "train_wall": 41,
    }
    assert validated[363].items() >= {"epoch": 1, "loss": 8.249, "nll_sentence_nats": 97.741}.items()
    assert epochs[363].items() >= {"epoch": 1, "nll_sentence_nats": 103.603, "train_wall": 166}.items()


def test_a_curve_has_the_updates_of_the_log_and_interpolated_times(tmp_path: Path) -> None:
    validated = [valid_line(1, 5, updates=updates) for updates in (60, 150, 180)]
    validated[2] = valid_line(1, 5, updates=180, bleu=31.2)
    lines = [inner_line(50, 90), validated[0], inner_line(100, 80, 30), inner_line(150, 70, 20), validated[1]]
    lines += [valid_line(1, 5, "valid1", updates=150), validated[2], train_line(2), "2026 | INFO | update 200"]
    train, dev = curve(tmp_path, *lines)
    assert train == [Point(50, 10, 90, None), Point(100, 40, 80, None), Point(150, 60, 70, None)]
    assert dev == [Point(60, 16, 40.5, None), Point(150, 60, 40.5, None), Point(180, 72, 40.5, 31.2)]


def test_a_curve_without_updates_between_has_epochs(tmp_path: Path) -> None:
    lines = [valid_line(1, 5), train_line(1), valid_line(2, 4), train_line(2, 90)]
    train, dev = curve(tmp_path, *lines)
    assert train == [Point(100, 60, 32, None), Point(200, 150, 32, None)]
    assert [point.seconds for point in dev] == [60, 150]
    train, dev = curve(tmp_path, lines[0], train_line(1).replace("train_wall", "other"))
    assert [point.seconds for point in (*train, *dev)] == [None, None]


def test_what_was_trained_again_replaces_a_curve_from_there_on(tmp_path: Path) -> None:
    lines = [inner_line(50, 90), valid_line(1, 5, updates=60), inner_line(100, 80), valid_line(1, 5, updates=100)]
    again = [inner_line(100, 79, 20), inner_line(150, 70)]
    train, dev = curve(tmp_path, *lines, train_line(1), inner_line(150, 75), *again)
    assert train == [Point(50, 10, 90, None), Point(100, 30, 79, None), Point(150, 40, 70, None)]
    assert [point.updates for point in dev] == [60]
    _, dev = curve(tmp_path, *lines, inner_line(150, 70), valid_line(1, 4, updates=100))
    assert [point.updates for point in dev] == [60, 100]


def test_a_curve_of_nothing_is_refused(tmp_path: Path) -> None:
    for lines in (["nothing"], [valid_line(1, 5).replace('"100"', '"nan"')]):
        with pytest.raises(InputError, match=r"train\.log: "):
            curve(tmp_path, *lines)
