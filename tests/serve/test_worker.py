"""The thread that translates: in fair batches, bounded, and ended by nothing."""

import asyncio
import threading
from argparse import Namespace
from collections.abc import AsyncIterator, Sequence

import pytest

from rnnsearch_fairseq.serve import worker as module
from rnnsearch_fairseq.serve.messages import Problem, TranslationRequest
from rnnsearch_fairseq.serve.worker import Job, PendingRequest, Worker
from tests.serve.live import PATIENCE

pytestmark = pytest.mark.anyio

LONG = "a" * 1_100


class Gate(Worker):
    """A worker that waits until it is let in; "bad" fails, and other sentences are answered by themselves."""

    def __init__(self) -> None:
        super().__init__(Namespace())
        self.batches: list[list[str]] = []
        self.entered, self.opened = threading.Event(), threading.Event()

    def translate(self, jobs: Sequence[Job]) -> None:
        self.batches.append([job.sentence.removeprefix(LONG) for job in jobs])
        self.entered.set()
        assert self.opened.wait(PATIENCE)
        if "bad" in self.batches[-1]:
            raise MemoryError
        for job in jobs:
            job.request.report(job.number, Problem(error=job.sentence))


def make(*sentences: str) -> PendingRequest:
    return PendingRequest(TranslationRequest(sentences=list(sentences)))


async def answers(request: PendingRequest) -> list[str]:
    await request.finished.wait()
    return [result.error for result in request.results]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def gate() -> AsyncIterator[Gate]:
    """A worker whose thread is at work on a first sentence."""
    gate = Gate()
    task = asyncio.create_task(gate.run())
    assert gate.submit(make("first"))
    assert await asyncio.to_thread(gate.entered.wait, PATIENCE)
    yield gate
    gate.opened.set()
    task.cancel()


async def test_a_batch_has_a_sentence_of_each_request_and_all_of_the_first(gate: Gate) -> None:
    long, short, other = make(*[LONG + str(number) for number in range(6)]), make("b", "c", "d"), make("e")
    assert all(map(gate.submit, (long, short, other)))
    gate.opened.set()
    assert await answers(other) == ["e"]
    assert await answers(short) == ["b", "c", "d"]
    assert await answers(long) == [LONG + str(number) for number in range(6)]
    assert gate.batches == [["first"], ["b", "e", "0", "1", "2", "3"], ["c", "4", "5", "d"]]  # four long ones fill it


async def test_requests_of_one_length_are_answered_in_order_of_arrival(gate: Gate) -> None:
    requests = [make(*[f"{name}{number}" for number in range(20)]) for name in "abcdef"]
    assert all(map(gate.submit, requests))
    gate.opened.set()
    await asyncio.gather(*map(answers, requests))
    last = [next(n for n, batch in enumerate(gate.batches) if f"{name}19" in batch) for name in "abcdef"]
    assert last == sorted(last) and last[0] == last[1] == 1


async def test_a_short_text_does_not_wait_for_all_long_ones(gate: Gate) -> None:
    requests = [make(4 * LONG), make(5 * LONG), make("short")]
    assert all(map(gate.submit, requests))
    gate.opened.set()
    await asyncio.gather(*map(answers, requests))
    assert [len(batch) for batch in gate.batches] == [1, 2, 1] and "short" in gate.batches[1]


async def test_a_full_queue_refuses_requests_until_a_client_leaves(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 2)
    waiting, left, last = make("a", "b", "c"), make("d"), make("j")
    assert gate.submit(waiting) and gate.submit(left) and not gate.submit(last)
    left.abandoned = True  # makes room at once, and is not worked on
    assert gate.submit(last)
    gate.opened.set()
    assert (await answers(waiting), await answers(last)) == (["a", "b", "c"], ["j"])
    assert not any("d" in batch for batch in gate.batches)


async def test_a_failure_costs_only_its_batch(gate: Gate) -> None:
    gate.opened.set()
    failed, other = make("a", "bad"), make("c")
    assert gate.submit(failed)
    assert ["MemoryError" in error for error in await answers(failed)] == [True, True]
    assert gate.submit(other)
    assert await answers(other) == ["c"]
