"""What is read of a log of fairseq-train."""

import json
import logging
import time
from collections import OrderedDict
from pathlib import Path

import pytest
from fairseq.logging import meters, progress_bar

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.plots.train_log import Epoch, Point, best_epoch, read_curve, read_train_log
from tests.plots.builders import SIMPLE

FORMAT = "%(asctime)s | %(levelname)s | %(name)s | %(message)s"  # fairseq_cli/train.py

FIRST = Epoch(1, 363, 166, 103.603, 8.249, 304.2, 97.741)


def train_line(number: int, seconds: int = 60) -> str:
    return (
        f"2026-11-21 10:56:12 | INFO | train | epoch {number:03d} | loss 5 | ppl 32 | wps 1000.5 | "
        f"num_updates {100 * number} | lr 0.5 | train_wall {seconds} | wall 9999"
    )


def valid_line(number: int, loss: float | str, subset: str = "valid", updates: int = 0) -> str:
    return (
        f"2026-11-21 10:56:11 | INFO | {subset} | epoch {number:03d} | valid on '{subset}' subset | loss {loss} | "
        f"ppl 40.5 | wps 9000 | num_updates {updates or 100 * number} | best_loss 1.5"
    )


def read(folder: Path, *lines: str) -> list[Epoch]:
    path = folder / "train.log"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return read_train_log(path)


def test_an_epoch_has_what_fairseq_printed(tmp_path: Path) -> None:
    assert read(tmp_path, SIMPLE) == [FIRST]
    # --log-file has the messages alone, and from the second epoch on every one of them several times.
    messages = [line.rsplit(" | INFO | ", 1)[1].split(" | ", 1)[1] for line in SIMPLE.splitlines()]
    assert read(tmp_path, *messages) == [FIRST]
    assert read(tmp_path, *(message for message in messages for _ in range(3))) == [FIRST]


def test_a_log_of_version_0_2_0_says_the_same(tmp_path: Path) -> None:
    assert read(tmp_path, SIMPLE.replace("_nats", "")) == [FIRST]


def test_json_says_the_same(tmp_path: Path) -> None:
    # In --log-format json, "train_wall" is "wall" of the training, and "train_train_wall" is its "train_wall".
    lines = []
    for line in SIMPLE.splitlines():
        if " | epoch 001 | " not in line:
            continue
        tag, statistics = line.split(" | ")[2], line.split(" subset | " if "subset" in line else " | epoch 001 | ")[1]
        named = {f"{tag}_{name}": text for name, text in (piece.split(" ") for piece in statistics.split(" | "))}
        lines.append(f"2026-11-21 08:59:28 | INFO | {tag} | {json.dumps({'epoch': 1, **named})}")
    assert '"train_train_wall": "166", "train_wall": "200"' in lines[1]
    inner = '2026 | INFO | train_inner | {"epoch": 2, "update": 1.4, "loss": "1", "num_updates": "400", "lr": "1", '
    inner += '"wps": "9", "train_wall": "7"}'
    assert read(tmp_path, *lines, inner, lines[1][:80]) == [FIRST]
    assert read(tmp_path, *(line.split(" | ")[-1] for line in lines)) == [FIRST]


@pytest.mark.parametrize("log_format", ["simple", "json"])
def test_what_this_fairseq_prints_is_read(tmp_path: Path, log_format: str) -> None:
    wall, words = meters.StopwatchMeter(), meters.TimeMeter()
    wall.sum, words.n, words.start = 61.6, 5_000_000, time.perf_counter() - 20_000
    dev = OrderedDict(loss=73.724, nll_loss=7.801, ppl=223.09, num_updates=25)
    train = OrderedDict(loss=76.065, nll_loss=7.963, wps=words, num_updates=25, lr=0.5, train_wall=wall, wall=70.0)
    handler = logging.FileHandler(tmp_path / "train.log")
    handler.setFormatter(logging.Formatter(FORMAT))
    level = progress_bar.logger.level
    progress_bar.logger.addHandler(handler)
    progress_bar.logger.setLevel(logging.INFO)
    try:
        for tag, prefix, statistics in (("valid", "valid on 'valid' subset", dev), ("train", None, train)):
            bar = progress_bar.progress_bar([], log_format=log_format, epoch=12, prefix=prefix)
            bar.print(statistics, tag=tag, step=25)
    finally:
        progress_bar.logger.setLevel(level)
        progress_bar.logger.removeHandler(handler)
        handler.close()
    assert read_train_log(tmp_path / "train.log") == [Epoch(12, 25, 62, None, 73.724, 223.09, None)]


def test_an_epoch_that_is_trained_again_replaces_itself_and_those_after_it(tmp_path: Path) -> None:
    lines = [line for number in (1, 2, 3, 4) for line in (valid_line(number, 7 - number), train_line(number))]
    again = [valid_line(2, 4.75), train_line(2, 45), valid_line(3, 4.25)]
    assert [epoch.number for epoch in read(tmp_path, *lines)] == [1, 2, 3, 4]
    resumed = read(tmp_path, *lines, *again)
    assert [(epoch.number, epoch.seconds, epoch.dev_loss) for epoch in resumed] == [(1, 60, 6), (2, 45, 4.75)]
    resumed = read(tmp_path, *lines, *again, train_line(3, 40))
    assert [(epoch.number, epoch.seconds, epoch.dev_loss) for epoch in resumed[1:]] == [(2, 45, 4.75), (3, 40, 4.25)]


@pytest.mark.parametrize("losses", [(6, 5.5), (5.5, 6), ("nan", 5.5)])
def test_of_several_validations_the_best_counts_and_of_several_sets_the_first(
    tmp_path: Path, losses: tuple[float | str, float]
) -> None:
    (epoch,) = read(
        tmp_path,
        valid_line(1, losses[0], updates=50),
        valid_line(1, 2, "valid1", updates=50),
        valid_line(1, losses[1]),
        valid_line(1, 1.5, "valid1"),
        train_line(1),
    )
    assert epoch.dev_loss == 5.5


def test_validations_behind_the_checkpoint_of_a_restart_do_not_count(tmp_path: Path) -> None:
    stopped = [valid_line(1, 6, updates=50), valid_line(1, 3, updates=100)]
    resumed = [valid_line(1, 5, updates=100), train_line(1)]
    assert [epoch.dev_loss for epoch in read(tmp_path, *stopped, *resumed)] == [5]


def test_the_best_epoch_is_the_first_of_lowest_loss(tmp_path: Path) -> None:
    lines = []
    for number, loss in enumerate(["nan", 5, 4, 4, 6], 1):
        lines += [valid_line(number, loss), train_line(number)]
    epochs = read(tmp_path, *lines, train_line(6))
    assert (epochs[-1].dev_loss, epochs[-1].dev_ppl) == (None, None)
    best = best_epoch(epochs)
    assert best is not None
    assert best.number == 3
    assert best_epoch(epochs[-1:]) is None
    assert best_epoch(epochs[:1]) is None


# Learning curves


def inner_line(updates: int, ppl: float, seconds: int = 10) -> str:
    return (
        f"2026-11-21 09:00:10 | INFO | train_inner | epoch 001:    {updates} / 363 loss=9.1, ppl={ppl}, "
        f"num_updates={updates}, lr=1, train_wall={seconds}, wall=0"
    )


def curve(folder: Path, *lines: str) -> tuple[list[Point], list[Point]]:
    path = folder / "train.log"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return read_curve(path)


def test_a_curve_has_the_updates_of_the_log_and_interpolated_times(tmp_path: Path) -> None:
    validated = [valid_line(1, 5, updates=updates) for updates in (60, 150, 180)]
    validated[2] += " | bleu 31.2"
    lines = [inner_line(50, 90), validated[0], inner_line(100, 80, 30), inner_line(150, 70, 20), validated[1]]
    lines += [
        valid_line(1, 5, "valid1", updates=150),
        validated[2],
        train_line(2),
        "2026 | INFO | progress | update 200",
    ]
    train, dev = curve(tmp_path, *lines)
    assert train == [Point(50, 10, 90, None), Point(100, 40, 80, None), Point(150, 60, 70, None)]
    assert dev == [Point(60, 16, 40.5, None), Point(150, 60, 40.5, None), Point(180, 72, 40.5, 31.2)]
    # Each message of --log-file may stand there several times.
    assert curve(tmp_path, *(line.split(" | ", 3)[3] for line in lines for _ in range(3))) == (train, dev)


def test_a_curve_in_json_is_the_same(tmp_path: Path) -> None:
    inner = {"epoch": 1, "update": 0.275, "loss": "9.1", "ppl": "548.7", "num_updates": "100", "train_wall": "41"}
    dev = {"epoch": 1, "valid_ppl": "304.2", "valid_num_updates": "363"}
    lines = [f"2026-11-21 | INFO | x | {json.dumps(record)}" for record in (inner, dev)]
    assert curve(tmp_path, *lines) == ([Point(100, 41, 548.7, None)], [Point(363, 41 * 3.63, 304.2, None)])
    simple = curve(tmp_path, SIMPLE)
    assert [(point.updates, point.ppl) for points in simple for point in points] == [(100, 548.7), (363, 304.2)]


def test_a_curve_without_updates_between_has_epochs(tmp_path: Path) -> None:
    lines = [valid_line(1, 5), train_line(1), valid_line(2, 4), train_line(2, 90)]
    train, dev = curve(tmp_path, *lines)
    assert train == [Point(100, 60, 32, None), Point(200, 150, 32, None)]
    assert [point.seconds for point in dev] == [60, 150]
    train, dev = curve(tmp_path, lines[0], train_line(1).replace("train_wall", "wall"))
    assert [point.seconds for point in (*train, *dev)] == [None, None]


def test_what_was_trained_again_replaces_a_curve_from_there_on(tmp_path: Path) -> None:
    lines = [inner_line(50, 90), valid_line(1, 5, updates=60), inner_line(100, 80), valid_line(1, 5, updates=100)]
    again = [inner_line(100, 79, 20), inner_line(150, 70)]
    train, dev = curve(tmp_path, *lines, train_line(1), inner_line(150, 75), *again)
    assert [(point.updates, point.ppl, point.seconds) for point in train] == [
        (50, 90, 10),
        (100, 79, 30),
        (150, 70, 40),
    ]
    assert [point.updates for point in dev] == [60]
    _, dev = curve(tmp_path, *lines, inner_line(150, 70), valid_line(1, 4, updates=100))
    assert [point.updates for point in dev] == [60, 100]


def test_a_curve_of_nothing_is_refused(tmp_path: Path) -> None:
    for lines in (["nothing"], [valid_line(1, 5).replace("num_updates 100", "num_updates nan")]):
        with pytest.raises(InputError, match=r"train\.log: holds no update"):
            curve(tmp_path, *lines)


def test_other_bytes_and_carriage_returns_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_bytes(b"\xff\xfe\r\n" + SIMPLE.replace("\n", "\r\n").encode())
    assert read_train_log(path) == [FIRST]


def test_logs_that_say_too_little_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nothing\.log: cannot be read"):
        read_train_log(tmp_path / "nothing.log")
    with pytest.raises(InputError, match=r"train\.log: holds no finished epoch"):
        read(tmp_path, *SIMPLE.splitlines()[:-1])
    with pytest.raises(InputError, match=r"train\.log, line 2: epoch 7 has no 'train_wall'"):
        read(tmp_path, "", train_line(7).split(" | train_wall")[0])
