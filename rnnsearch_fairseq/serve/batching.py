"""A queue whose items one thread processes in batches."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

logger = logging.getLogger(__name__)

# Error messages of requests that were not answered in time.
BUSY = "the server is busy; please try again in a moment"
LATE = "the server did not finish in time; please send fewer sentences, or try again in a moment"

Item = TypeVar("Item")
Result = TypeVar("Result")


class Busy(Exception):
    """The queue is full."""


class Abandoned(Exception):
    """The results of these items are no longer wanted."""


class Batcher(Generic[Item, Result]):
    """A queue of bounded length, and a thread that takes batches of items from it.

    If ``work`` fails on a batch, each item is tried alone, so that one item cannot fail the others; but Abandoned fails
    the whole batch. No exception ends the thread.

    Args:
        work: returns the results of some items, in order.
        most_at_once: the most items in a batch.
        most_waiting: the most items in the queue.
    """

    def __init__(
        self, work: Callable[[Sequence[Item]], Sequence[Result]], most_at_once: int, most_waiting: int
    ) -> None:
        self._work, self._most_at_once, self._most_waiting = work, most_at_once, most_waiting
        self._waiting: deque[tuple[Item, Future[Result]]] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="translation", daemon=True)
        self._thread.start()

    def submit(self, items: Sequence[Item]) -> list["Future[Result]"]:
        """Queue all of ``items``; return a future for each, which can be cancelled while it waits.

        Raises:
            Busy: there is no room for all of them; none is queued.
        """
        futures: list[Future[Result]] = [Future() for _ in items]
        with self._changed:
            self._waiting = deque(waiting for waiting in self._waiting if not waiting[1].cancelled())
            if self._closed or len(self._waiting) + len(items) > self._most_waiting:
                raise Busy
            self._waiting.extend(zip(items, futures))
            self._changed.notify()
        return futures

    def close(self) -> None:
        """Cancel the waiting items, and end the thread after its current batch."""
        with self._changed:
            self._closed = True
            for _, future in self._waiting:
                future.cancel()
            self._waiting.clear()
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if self._closed:
                    return
                taken = [self._waiting.popleft() for _ in range(min(len(self._waiting), self._most_at_once))]
            batch = [(item, future) for item, future in taken if future.set_running_or_notify_cancel()]
            for (_, future), result in zip(batch, self._results([item for item, _ in batch])):
                if isinstance(result, BaseException):
                    future.set_exception(result)
                else:
                    future.set_result(result)

    def _results(self, items: list[Item]) -> list[Result | BaseException]:
        try:
            return list(self._work(items)) if items else []
        except Abandoned as error:
            return [error] * len(items)
        except BaseException as error:  # even SystemExit must not end the thread
            if len(items) > 1:
                return [result for item in items for result in self._results([item])]
            logger.exception("a sentence could not be translated")
            return [error]
