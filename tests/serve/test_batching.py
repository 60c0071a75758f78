"""The queue: bounded, in batches, and ended by nothing."""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError

import pytest

from rnnsearch_fairseq.serve.batching import Abandoned, Batcher, Busy
from tests.serve.live import PATIENCE

BAD = {13, 14}


class Gate:
    """Work that waits until it is let in, and keeps what it was given; BAD items fail, and nobody waits for 7."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.entered, self.opened = threading.Semaphore(0), threading.Event()

    def __call__(self, items: Sequence[int]) -> list[int]:
        self.batches.append(list(items))
        self.entered.release()
        assert self.opened.wait(PATIENCE)
        if bad := BAD.intersection(items):
            raise SystemExit(max(bad))
        if 7 in items:
            raise Abandoned
        return [item * 10 for item in items]


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def batcher(gate: Gate) -> Iterator[Batcher[int, int]]:
    made: Batcher[int, int] = Batcher(gate, most_at_once=3, most_waiting=5)
    yield made
    gate.opened.set()
    made.close()


def start(batcher: Batcher[int, int], gate: Gate) -> None:
    """Let the thread be at work on item 0."""
    batcher.submit([0])
    assert gate.entered.acquire(timeout=PATIENCE)


def test_what_waits_is_taken_together_and_in_order(batcher: Batcher[int, int], gate: Gate) -> None:
    start(batcher, gate)
    futures = [*batcher.submit([1, 2]), *batcher.submit([3, 4])]
    gate.opened.set()
    assert [future.result(PATIENCE) for future in futures] == [10, 20, 30, 40]
    assert gate.batches == [[0], [1, 2, 3], [4]]


def test_a_full_queue_takes_all_of_a_request_or_nothing(batcher: Batcher[int, int], gate: Gate) -> None:
    start(batcher, gate)
    waiting = batcher.submit([1, 2, 3, 4])
    with pytest.raises(Busy):
        batcher.submit([5, 6])
    waiting += batcher.submit([6])
    gate.opened.set()
    assert [future.result(PATIENCE) for future in waiting] == [10, 20, 30, 40, 60]
    assert batcher.submit([8])[0].result(PATIENCE) == 80


def test_what_fails_fails_alone_and_the_thread_goes_on(batcher: Batcher[int, int], gate: Gate) -> None:
    start(batcher, gate)
    good, bad, other = batcher.submit([1, 13, 2])
    gate.opened.set()
    assert (good.result(PATIENCE), other.result(PATIENCE)) == (10, 20)
    with pytest.raises(SystemExit):
        bad.result(PATIENCE)
    assert batcher.submit([3])[0].result(PATIENCE) == 30


def test_two_that_fail_fail_each_by_their_own_error(batcher: Batcher[int, int], gate: Gate) -> None:
    start(batcher, gate)
    futures = batcher.submit([13, 14])
    gate.opened.set()
    errors = [future.exception(PATIENCE) for future in futures]
    assert [type(error) for error in errors] == [SystemExit, SystemExit]
    assert [str(error) for error in errors] == ["13", "14"]
    assert gate.batches == [[0], [13, 14], [13], [14]]


def test_what_nobody_waits_for_is_not_tried_again_nor_logged(
    batcher: Batcher[int, int], gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    start(batcher, gate)
    futures = batcher.submit([7, 8])
    gate.opened.set()
    assert all(isinstance(future.exception(PATIENCE), Abandoned) for future in futures)
    assert gate.batches == [[0], [7, 8]]
    assert caplog.records == []


def test_what_is_cancelled_makes_room_at_once(batcher: Batcher[int, int], gate: Gate) -> None:
    start(batcher, gate)
    futures = batcher.submit([1, 2, 3, 4, 5])
    assert futures[1].cancel() and futures[2].cancel()
    with pytest.raises(Busy):
        batcher.submit([6, 8, 9])
    more = batcher.submit([6, 8])
    gate.opened.set()
    assert [future.result(PATIENCE) for future in more] == [60, 80]


def test_what_is_cancelled_is_not_worked_on(batcher: Batcher[int, int], gate: Gate) -> None:
    start(batcher, gate)
    futures = batcher.submit([1, 2, 3, 4, 5])
    assert futures[1].cancel()
    gate.opened.set()
    assert futures[4].result(PATIENCE) == 50
    assert gate.batches == [[0], [1, 3], [4, 5]]


def test_closing_cancels_what_waits_and_refuses_more(gate: Gate) -> None:
    batcher: Batcher[int, int] = Batcher(gate, 3, 5)
    start(batcher, gate)
    (waiting,) = batcher.submit([1])
    cancelled = threading.Event()
    waiting.add_done_callback(lambda _: cancelled.set())
    closing = threading.Thread(target=batcher.close)
    closing.start()
    assert cancelled.wait(PATIENCE)
    gate.opened.set()
    closing.join(PATIENCE)
    assert not closing.is_alive()
    with pytest.raises(CancelledError):
        waiting.result(PATIENCE)
    with pytest.raises(Busy):
        batcher.submit([2])
