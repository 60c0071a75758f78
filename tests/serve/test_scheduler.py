"""The thread that translates: in fair batches, bounded, and ended by nothing."""

import asyncio
import functools
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any

import pytest

pytest.importorskip("fastapi")

from rnnsearch_fairseq.serve import scheduler as scheduling
from rnnsearch_fairseq.serve.messages import Problem, TranslationRequest
from rnnsearch_fairseq.serve.scheduler import LATE, Job, PendingRequest, Scheduler
from tests.serve.live import PATIENCE

LONG = "a" * 1_100


class Gate:
    """Work that waits until it is let in; "bad" fails, and each other sentence is answered by itself."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.entered, self.opened = threading.Event(), threading.Event()

    def __call__(self, jobs: Sequence[Job]) -> None:
        self.batches.append([job.sentence.removeprefix(LONG) for job in jobs])
        self.entered.set()
        assert self.opened.wait(PATIENCE)
        if "bad" in self.batches[-1]:
            raise MemoryError
        for job in jobs:
            job.request.report(job.number, Problem(error=job.sentence))


def in_loop(test: Callable[..., Coroutine]) -> Callable[..., None]:
    """Run a test in an event loop."""

    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        asyncio.run(test(**fixtures))

    return run


def make(*sentences: str) -> PendingRequest:
    return PendingRequest(TranslationRequest(sentences=list(sentences)))


async def outcome(request: PendingRequest) -> list[str] | str:
    """Wait for the answers to a request's sentences, or to the request."""
    *_, answer = [news async for news in request.progress()]
    return answer.error if isinstance(answer, Problem) else [result.error for result in answer.sentences]


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def scheduler(gate: Gate) -> Iterator[Scheduler]:
    made = Scheduler(gate)
    yield made
    gate.opened.set()
    made.close()


def begin(scheduler: Scheduler, gate: Gate) -> PendingRequest:
    """Let the thread be at work on a first sentence."""
    first = make("first")
    assert scheduler.submit(first)
    assert gate.entered.wait(PATIENCE)
    return first


@in_loop
async def test_a_batch_has_sentences_of_similar_length_and_one_of_each_request_in_turn(
    scheduler: Scheduler, gate: Gate
) -> None:
    begin(scheduler, gate)
    long, short, other = make(*[LONG + str(number) for number in range(6)]), make("b", "c", "d"), make("e")
    assert all(map(scheduler.submit, (long, short, other)))
    gate.opened.set()
    assert await outcome(other) == ["e"]
    assert await outcome(short) == ["b", "c", "d"]
    assert await outcome(long) == [LONG + str(number) for number in range(6)]
    # Four long sentences fill a batch. The others then go before the rest of the long request.
    assert gate.batches == [["first"], ["0", "1", "2", "3"], ["b", "e", "c", "d"], ["4", "5"]]


@in_loop
async def test_a_full_queue_refuses_requests_until_a_client_leaves(
    scheduler: Scheduler, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduling, "MAX_WAITING", 2)
    begin(scheduler, gate)
    first, left = make("a", "b", "c"), make("d")
    assert scheduler.submit(first) and scheduler.submit(left)
    assert not scheduler.submit(make("i"))
    left.abandoned = True  # makes room at once, and is not worked on
    last = make("j")
    assert scheduler.submit(last)
    gate.opened.set()
    assert (await outcome(first), await outcome(last)) == (["a", "b", "c"], ["j"])
    assert not any("d" in batch for batch in gate.batches)


@in_loop
async def test_a_failure_costs_only_its_sentence(scheduler: Scheduler, gate: Gate) -> None:
    request = make("a", "bad", "c")
    gate.opened.set()
    assert scheduler.submit(request)
    good, failed, other = await outcome(request)
    assert (good, other) == ("a", "c")
    assert "sentence 2" in failed and "MemoryError" in failed


@in_loop
async def test_a_request_that_takes_too_long_is_told_so(
    scheduler: Scheduler, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(scheduler, gate)
    monkeypatch.setattr(scheduling, "MAX_SECONDS", 0)
    late = make("a")
    assert scheduler.submit(late)
    assert await outcome(late) == LATE
