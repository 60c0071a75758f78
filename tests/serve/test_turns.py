"""The thread that translates: in fair turns, bounded, and ended by nothing."""

import asyncio
import functools
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("fastapi")

from rnnsearch_fairseq.serve.messages import Problem, TranslationRequest
from rnnsearch_fairseq.serve.turns import LATE, Job, Pending, Turns
from tests.serve.live import PATIENCE

LONG = "a" * 900


class Gate:
    """Work that waits until it is let in, and pauses; "bad" fails, and each other sentence is answered by itself."""

    def __init__(self) -> None:
        self.turns: list[list[str]] = []
        self.entered, self.opened = threading.Event(), threading.Event()

    def __call__(self, jobs: Sequence[Job], pause: Callable[[], None]) -> None:
        self.turns.append([job.sentence for job in jobs])
        self.entered.set()
        assert self.opened.wait(PATIENCE)
        pause()
        if "bad" in self.turns[-1]:
            raise MemoryError
        for job in jobs:
            job.request.finish(job.place, Problem(detail=job.sentence))


def in_loop(test: Callable[..., Coroutine]) -> Callable[..., None]:
    """Run a test in an event loop."""

    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        asyncio.run(test(**fixtures))

    return run


def make(*sentences: str, seconds: float = PATIENCE) -> Pending:
    return Pending(TranslationRequest(sentences=list(sentences)), seconds)


async def outcome(request: Pending) -> list[str] | str:
    """Wait for the answers to a request's sentences, or to the request."""
    async for _ in request.progress():
        pass
    answer = request.outcome
    return answer.detail if isinstance(answer, Problem) else [each.detail for each in answer.sentences]


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def turns(gate: Gate) -> Iterator[Turns]:
    made = Turns(gate, most_waiting=8)
    yield made
    gate.opened.set()
    made.close()


def begin(turns: Turns, gate: Gate) -> Pending:
    """Let the thread be at work on a first sentence."""
    first = make("first")
    assert turns.submit(first)
    assert gate.entered.wait(PATIENCE)
    return first


@in_loop
async def test_shorter_sentences_have_their_turn_in_the_pauses_of_a_longer_turn(turns: Turns, gate: Gate) -> None:
    begin(turns, gate)
    long, short = make(*[LONG + str(number) for number in range(6)]), make("b", "c")
    assert turns.submit(long) and turns.submit(short)
    gate.opened.set()
    assert await outcome(short) == ["b", "c"]
    assert await outcome(long) == [LONG + str(number) for number in range(6)]
    in_short = [[sentence.removeprefix(LONG) for sentence in turn] for turn in gate.turns]
    assert in_short == [["first"], ["0", "1", "2", "3"], ["b", "c"], ["4", "5"]]


@in_loop
async def test_after_a_pause_the_work_goes_on_for_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    long, short, shorter = requests = make(LONG), make("b"), make("c")
    now, done = 0, ""
    monkeypatch.setattr("rnnsearch_fairseq.serve.turns.time", SimpleNamespace(monotonic=lambda: now))

    def work(jobs: Sequence[Job], pause: Callable[[], None]) -> None:
        nonlocal now, done
        (job,) = jobs
        for second in range(6 if job.sentence == LONG else 2):
            pause()
            done, now = done + job.sentence[0], now + 1
            if job.sentence == LONG and second < 2:
                assert turns.submit((short, shorter)[second])
        job.request.finish(0, Problem(detail=""))

    turns = Turns(work, most_waiting=8)
    assert turns.submit(long)
    assert [await outcome(request) for request in requests] == [[""]] * 3
    turns.close()
    assert done == "abbaaccaaa"


@in_loop
async def test_a_full_queue_takes_all_of_a_request_or_nothing(turns: Turns, gate: Gate) -> None:
    begin(turns, gate)
    first, left = make("a", "b", "c"), make("d", "e", "f", "g", "h")
    assert turns.submit(first) and turns.submit(left)
    assert not turns.submit(make("i"))
    left.abandoned = True  # makes room at once, and is not worked on
    last = make("i", "j")
    assert turns.submit(last)
    gate.opened.set()
    assert (await outcome(first), await outcome(last)) == (["a", "b", "c"], ["i", "j"])
    assert not any("d" in turn for turn in gate.turns)


@in_loop
async def test_a_failure_costs_only_its_sentence(turns: Turns, gate: Gate) -> None:
    request = make("a", "bad", "c")
    gate.opened.set()
    assert turns.submit(request)
    failed = "sentence 2 cannot be translated: the server failed (MemoryError)"
    assert await outcome(request) == ["a", failed, "c"]


@in_loop
async def test_a_request_that_takes_too_long_ends_and_is_no_failure(
    turns: Turns, gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    begin(turns, gate).abandoned = True
    late = make("a", seconds=0.01)
    assert turns.submit(late)
    assert await outcome(late) == LATE
    gate.opened.set()
    more = make("b")
    assert turns.submit(more)
    assert await outcome(more) == ["b"]
    assert gate.turns == [["first"], ["b"]]
    assert caplog.records == []


@in_loop
async def test_after_the_end_nothing_is_accepted(gate: Gate) -> None:
    turns = Turns(gate, most_waiting=8)
    begin(turns, gate)
    waiting = make("a")
    assert turns.submit(waiting)
    threading.Timer(0.05, gate.opened.set).start()
    turns.close()
    assert gate.turns == [["first"]]
    assert not turns.submit(make("b"))
