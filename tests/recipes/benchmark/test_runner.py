"""The command line: cases in processes of their own, in turns. How fast anything is, no test says."""

import multiprocessing
import re
from pathlib import Path

import pytest
import torch

from recipes.benchmark import runner
from recipes.benchmark.cases import Case, Size
from recipes.benchmark.runner import measure, serve
from tests.commands import run
from tests.recipes.benchmark.builders import TINY, TRAIN, WORDS

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.slow
@pytest.mark.train
def test_models_train_in_turns() -> None:
    setups = ["words: " + " ".join(WORDS), "bad: --arch nothing", "search: " + " ".join(TINY)]
    words = [*setups, "--vocabulary", "20", "--batch", "2", "--lengths", "5,10", "--updates", "2", "--rounds", "2"]
    done = run("python", "-m", "recipes.benchmark", "train", *words, "--", *TRAIN, cwd=ROOT, status=1)
    labels = ["words, 5", "words, 10", "search, 5", "search, 10"]
    turns = re.findall(r"^round (\d), (.*): \S+ s$", done.stderr, re.MULTILINE)
    assert turns == [("1", label) for label in labels] + [("2", label) for label in [*labels[1:], labels[0]]]
    for size in (5, 10):
        assert f"error: bad, {size}: argument --arch/-a: invalid choice: 'nothing'" in done.stderr
        assert f"bad, {size}: failed with exit status 1" in done.stderr
    assert "Traceback" not in done.stderr
    rows = [line.split("|")[1].strip() for line in done.stdout.splitlines() if line.startswith("| ")]
    assert [row for row in rows if row not in ("", "---")] == [*labels, "words", "search", "words", "search"]
    assert done.stdout.startswith("2 rounds of 2 batches; torch ")


def serve_here(case: Case, updates: int, rounds: int) -> list[tuple]:
    """What a process would report, from a thread of the test's."""
    ours, theirs = multiprocessing.Pipe()
    for _ in range(rounds):
        ours.send("go")
    ours.send("")
    serve(theirs, case, updates)
    return [ours.recv() for _ in range(1 + rounds)]


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner.logging, "disable", lambda level: None)


def test_a_process_reports_its_work_and_the_time_of_each_round(quiet: None, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    case = Case("words", "train", "fairseq", [*TRAIN, *WORDS], Size(5, 4, 2, 20, threads=3))
    (count, peak, device), *seconds = serve_here(case, 2, 2)
    assert count == 2 * 2 * 4 and peak > 0 and device.startswith("torch ")
    assert threads == [3]
    assert len(seconds) == 2 and all(wall > 0 and cpu > 0 for wall, cpu in seconds)


def test_a_process_that_dies_is_named_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Fake:
        """Fails in its second round, if it is the first case."""

        def __init__(self, case: Case, updates: int) -> None:
            self.name, self.rounds, self.process = case.name, 0, self

        def kill(self) -> None:
            killed.append(self.name)

        def hear(self) -> tuple[int, None, str]:
            return 10, None, "device"

        def run(self) -> tuple[float, float] | None:
            self.rounds += 1
            order.append(self.name)
            return None if (self.name, self.rounds) == ("a", 2) else (1.0, 0.5)

    order: list[str] = []
    killed: list[str] = []
    monkeypatch.setattr(runner, "Worker", Fake)
    timings = measure([Case(name, "train", "fairseq", [], Size()) for name in "abc"], 1, 3)
    assert [(timing.case.name, timing.wall) for timing in timings] == [("b", [1.0] * 3), ("c", [1.0] * 3)]
    assert "".join(order) == "abc" + "bca" + "bc"
    assert killed == ["a", "b", "c"]
