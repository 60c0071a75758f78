"""The lines that tell people how a training goes."""

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fairseq.data.iterators import CountingIterator
from fairseq.logging import metrics, progress_bar

from recipes.reproduce.epochs import read_train_log
from rnnsearch_fairseq.patches import ORIGINALS, progress
from tests.commands import PAPER, SEARCH, preprocess, train

pytestmark = pytest.mark.patched


@pytest.fixture(autouse=True)
def each_update(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line after each update."""
    monkeypatch.setattr(progress, "SECONDS", 0.0)


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """What is logged by a bar whose metrics are those of a new training."""
    caplog.set_level(logging.INFO, progress_bar.logger.name)
    metrics.reset()
    yield caplog
    metrics.reset()


def lines(text: str) -> list[str]:
    """The lines for people in what fairseq-train printed."""
    return re.findall(r"^.* \| INFO \| progress \| (.*)$", text, re.MULTILINE)


def epoch(first: int, size: int, epoch: int = 1, done: int = 0, options: Any = None, **limits: int) -> None:
    """Run through the rest of an epoch of ``size`` batches, of which ``done`` are; ``first`` is the next update."""
    bar = progress_bar.progress_bar(
        CountingIterator(range(size - done), done, size), log_format="simple", epoch=epoch, **options or {}
    )
    bar.update_config({"optimization": {"max_update": 0, "max_epoch": 0, **limits}})
    for update, _ in enumerate(bar, first):
        metrics.log_scalar("num_updates", update, weight=0)
        metrics.log_scalar("ppl", 1000 + update)
        metrics.log_speed("wps", 50)
        metrics.log_speed("ups", 1)


@pytest.mark.parametrize(
    ("limits", "goal", "whose"),
    [
        ({}, "200", " of epoch 2"),
        ({"max_update": 5000}, "5,000", ""),
        ({"max_epoch": 4}, "400", ""),
        ({"max_update": 300, "max_epoch": 4}, "300", ""),
    ],
)
def test_lines_say_how_far_it_is_and_to_where(
    logged: pytest.LogCaptureFixture, limits: dict[str, int], goal: str, whose: str
) -> None:
    epoch(196, 100, epoch=2, done=95, **limits)
    printed = [record.getMessage() for record in logged.records if record.name == "progress"]
    assert len(printed) == 4  # the first update starts the clock
    for update, line in enumerate(printed, 197):
        pattern = rf"update {update} of {goal} \| perplexity 1,\d+\.\d \| [\d,]+ words/s \| \d+ (s|min) left{whose}"
        assert re.fullmatch(pattern, line), line


def test_perplexity_is_that_of_the_updates_since_the_last_line(
    logged: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0, *(10 * second for second in range(1, 100))])
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(progress, "_last", None)
    monkeypatch.setattr(progress, "SECONDS", 35)
    epoch(1, 6, max_update=10)
    epoch(7, 3, epoch=2, max_update=10)  # shorter than the time between lines
    epoch(10, 1, epoch=3, max_update=10)
    printed = [record.getMessage() for record in logged.records if record.name == "progress"]
    found = [re.match(r"update (\d+) of 10 \| perplexity ([\d,.]+) ", line).groups() for line in printed]
    assert found == [("4", "1,002.5"), ("8", "1,007.5")]


def test_the_speed_of_a_training_that_goes_on_is_its_own(logged: pytest.LogCaptureFixture) -> None:
    epoch(1, 3, max_update=6)
    metrics.get_meter("default", "ups").init = 1e6  # seconds of an earlier training
    state = metrics.state_dict()
    metrics.reset()
    metrics.load_state_dict(state)
    logged.clear()
    epoch(4, 3, max_update=6)
    printed = [record.getMessage() for record in logged.records if record.name == "progress"]
    assert len(printed) == 2
    assert all(re.search(r"\| \d+ (s|min) left$", line) for line in printed), printed


def test_validations_do_not_take_the_place_of_other_lines(
    logged: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = 0.0
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: seconds))
    monkeypatch.setattr(progress, "_last", 0.0)
    monkeypatch.setattr(progress, "SECONDS", 35)
    for number in range(1, 6):
        seconds = 10.0 * number
        epoch(2 * number - 1, 2, epoch=number, max_update=10)
        bar = progress_bar.progress_bar([], log_format="simple", epoch=number)
        bar.print({"ppl": 2.0, "num_updates": 2 * number}, tag="valid")
    printed = [record.getMessage() for record in logged.records if record.name == "progress"]
    assert [line.startswith("update 7 of 10 | ") for line in printed].count(True) == 1
    assert len(printed) == 5 + 1


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59.4, "59 s"), (60, "1 min"), (7169, "119 min"), (7200, "2 h 0 min")]
)
def test_durations_are_read_at_a_glance(seconds: float, text: str) -> None:
    assert progress._duration(seconds) == text


def test_a_bar_that_is_left_early_leaves_no_metrics_behind() -> None:
    bar = progress_bar.progress_bar(range(9), log_format="simple", epoch=1)
    before = [*map(id, metrics.get_active_aggregators())]
    for _ in bar:
        assert len(metrics.get_active_aggregators()) == len(before) + 1
        break
    assert [*map(id, metrics.get_active_aggregators())] == before


@pytest.mark.parametrize("options", [{"log_format": "none", "epoch": 1}, {"log_format": "simple"}])
def test_bars_of_other_commands_and_silent_ones_are_fairseqs(options: dict[str, Any]) -> None:
    original = ORIGINALS[progress_bar, "progress_bar"]([], **options)
    assert type(progress_bar.progress_bar([], **options)) is type(original)


def test_validation_says_that_it_goes_on_and_what_it_found(logged: pytest.LogCaptureFixture) -> None:
    bar = progress_bar.progress_bar(range(2), log_format="simple", epoch=3, prefix="valid on 'dev' subset")
    for _ in bar:
        pass
    bar.print({"loss": 3.0, "ppl": 1234.56, "bleu": 31.2, "num_updates": 1200}, tag="dev", step=1200)
    assert [record.getMessage() for record in logged.records if record.name == "progress"] == [
        "validation: batch 1 of 2",
        "validation: batch 2 of 2",
        "update 1,200 | dev perplexity 1,234.6 | dev BLEU 31.20",
    ]


def test_weights_and_biases_gets_its_numbers(logged: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[str, Any]] = []
    wandb = SimpleNamespace(
        init=lambda **options: sent.append(("init", options)),
        log=lambda numbers, step: sent.append(("log", (numbers, step))),
        config=SimpleNamespace(update=lambda options: sent.append(("config", [*options]))),
    )
    monkeypatch.setattr(progress_bar, "wandb", wandb)
    bar = progress_bar.progress_bar([0], log_format="simple", epoch=1, wandb_project="p", wandb_run_name="r")
    bar.update_config({"optimization": {"max_update": 1, "max_epoch": 0}})
    for _ in bar:
        bar.log({"ppl": 9.5, "num_updates": 100}, tag="train_inner", step=100)
    assert sent == [
        ("init", {"project": "p", "reinit": False, "name": "r"}),
        ("config", ["optimization"]),
        ("log", ({"train_inner/ppl": 9.5}, 100)),
    ]


@pytest.mark.slow
@pytest.mark.train
@pytest.mark.parametrize("log_format", ["simple", "json"])
def test_a_training_tells_how_it_goes(tmp_path: Path, log_format: str) -> None:
    """In what is printed and in --log-file, there each line once; TensorBoard has the numbers, too."""
    for part in ("train", "valid"):
        for language in ("en", "fr"):
            (tmp_path / f"{part}.{language}").write_text("the cat sees a black horse .\na cat ( 3.14 )\n" * 8)
    preprocess(tmp_path, "bin", "--trainpref", "train", "--validpref", "valid")
    words = ["--batch-size", "4", "--max-epoch", "3", "--no-epoch-checkpoints", "--log-interval", "1", "--cpu"]
    words += ["--log-format", log_format, "--log-file", "log", "--tensorboard-logdir", "board"]
    printed = train(tmp_path / "bin", tmp_path / "model", *SEARCH, *PAPER, *words)
    found = lines(printed)
    by_update = [line for line in found if " of 12 | " in line]
    number = r"[\d,]+(\.\d)?"
    for update, line in enumerate(by_update, 2):
        assert re.fullmatch(rf"update {update} of 12 \| perplexity {number} \| {number} words/s \| \d+ s left", line)
    assert len(by_update) == 11
    validated = [line for line in found if re.fullmatch(rf"update (4|8|12) \| valid perplexity {number}", line)]
    assert len(validated) == 3
    told = (tmp_path / "log").read_text().splitlines()
    assert [line for line in told if line in found] == found
    assert len(read_train_log(tmp_path / "log")) == 3
    assert {path.parent.name for path in (tmp_path / "board").rglob("events.*")} == {"train_inner", "train", "valid"}
