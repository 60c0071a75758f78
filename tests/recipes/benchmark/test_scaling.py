"""The time of an update at several sizes. How fast anything is, no test says."""

import contextlib
import json
import logging
import multiprocessing

import pytest

from recipes.benchmark import scaling
from recipes.benchmark.arguments import parse_arguments
from recipes.benchmark.processes import Processes, check_shares, serve
from recipes.benchmark.scaling import make_workloads
from recipes.benchmark.sizes import Size
from recipes.benchmark.workloads import Updates, measure
from rnnsearch_fairseq.errors import InputError
from tests.recipes.benchmark.builders import TINY, TRAIN, WORDS

BASE = Size((5, 4), 2, 20)


@pytest.mark.parametrize("axis", ["source", "target", "lengths", "batch", "vocabulary"])
def test_batches_have_the_sizes(axis: str) -> None:
    sizes = [BASE.along(axis, size) for size in (6, 9)]
    workloads = make_workloads("words", [*TRAIN, *WORDS], axis, sizes, updates=2, stack=contextlib.ExitStack())
    for size, work in zip(sizes, workloads):
        assert isinstance(work, Updates) and len(work.batches) == 2
        for batch in work.batches:
            assert batch["net_input"]["src_tokens"].shape == (size.batch, size.lengths[0])
            assert batch["target"].shape == (size.batch, size.lengths[1])
        assert len(work.trainer.task.target_dictionary) == size.vocabulary
    shared = len({id(work.trainer) for work in workloads if isinstance(work, Updates)})
    assert shared == (2 if axis == "vocabulary" else 1)


def test_two_models_grow_in_turns(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["words: " + " ".join(WORDS), "search: " + " ".join(TINY), "--lengths", "5,4", "--vocabulary", "20"]
    words += ["--along", "source=5,10,20", "--along", "vocabulary=20,40", "--rounds", "3", "--updates", "1"]
    found = scaling.run(parse_arguments(["scaling", *words, "--", *TRAIN, "--batch-size", "2"]))
    json.dumps(found)
    assert [(line["setup"], line["along"], line["sizes"]) for line in found] == [
        (name, axis, sizes)
        for axis, sizes in (("source", [5, 10, 20]), ("vocabulary", [20, 40]))
        for name in ("words", "search")
    ]
    for line in found:
        assert line["base"] == {"lengths": (5, 4), "batch": 2, "vocabulary": 20, "processes": 1}
        assert [len(rounds) for rounds in line["seconds"]] == [3] * len(line["sizes"])
        assert all(seconds > 0 for rounds in line["seconds"] for seconds in rounds)
        assert (line["error"] is None) == (line["along"] == "vocabulary")
    printed = capsys.readouterr().out
    assert "Milliseconds by source length; 4 target words, batches of 2, a vocabulary of 20\n" in printed
    assert [line.split("|")[1].strip() for line in printed.splitlines() if line.startswith("| ")] == 2 * [
        "",
        "---",
        "words",
        "search",
    ]


@pytest.mark.slow
@pytest.mark.train
def test_two_processes_make_the_updates_together() -> None:
    with Processes("words", [*TRAIN, *WORDS], Size((5, 4), 6, 20, processes=2), updates=2) as together:
        assert together.timing.count == 2 * 6 * 4  # by fairseq's sum over the processes
        before = together.cpu_seconds()
        measure([together], rounds=2)
        assert len(together.timing.wall) == 2 and min(together.timing.wall) > 0
        assert min(together.timing.cpu) > 0
        assert sum(together.timing.cpu) == pytest.approx(together.cpu_seconds() - before)  # not that of the start
        (first, _), (second, _) = together.members
        assert first.is_alive() and second.is_alive()
    assert first.exitcode == second.exitcode == 0


def test_what_a_process_refuses_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "disable", lambda level: None)
    ours, theirs = multiprocessing.Pipe()
    serve(theirs, "words", [*TRAIN, *WORDS, "--hidden-size", "0"], BASE, 1)
    assert "--hidden-size is 0" in str(ours.recv())
    meeting = ["--distributed-world-size", "2", "--distributed-no-spawn", "--distributed-init-method", "nowhere://"]
    serve(theirs, "words", [*TRAIN, *WORDS, *meeting], BASE, 1)
    assert isinstance(error := ours.recv(), RuntimeError) and "Traceback" in str(error)


def test_processes_must_share_equally() -> None:
    check_shares(6, [1, 2, 3])
    with pytest.raises(InputError, match="--along processes: 4 can't share --batch-size 6 equally"):
        check_shares(6, [1, 2, 4])
