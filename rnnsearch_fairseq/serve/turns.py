"""The requests that wait, and the thread that translates their sentences in turns."""

import asyncio
import contextlib
import logging
import math
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from rnnsearch_fairseq.serve.messages import Answer, Partial, Problem, Translated, TranslationRequest

logger = logging.getLogger(__name__)

LATE = "the server did not finish in time; please send fewer sentences, or try again in a moment"
SHORTEST = 64  # characters; a shorter sentence counts as one of these
TURN = 4_096  # of translations' characters, rounded up to a power of two
SECONDS_BETWEEN_REPORTS = 1.0


class Abandoned(Exception):
    """Nobody waits for any sentence of this turn."""


class Pending:
    """A request, between the event loop and the thread. If ``abandoned`` is set, its sentences are left out."""

    def __init__(self, request: TranslationRequest, seconds: float) -> None:
        trees = request.trees or [None] * len(request.sentences)
        levels = (max(len(sentence), SHORTEST).bit_length() for sentence in request.sentences)
        each = enumerate(zip(request.sentences, trees, levels))
        self.waiting = deque(Job(self, place, request.nbest, *one) for place, one in each)
        self.abandoned = False
        self._results: list[Translated | Problem | None] = [None] * len(request.sentences)
        self._partials: dict[int, str] = {}
        self._refusal: Problem | None = None
        self._loop, self._news = asyncio.get_running_loop(), asyncio.Event()
        self._ends = self._loop.time() + seconds

    def show(self, place: int, text: str) -> None:
        """Keep an unfinished translation, until it is sent; called by the thread."""
        self._partials[place] = text
        self._tell()

    def finish(self, place: int, result: Translated | Problem) -> None:
        """Keep a result; called by the thread."""
        self._results[place] = result
        self._tell()

    def _tell(self) -> None:
        with contextlib.suppress(RuntimeError):  # the event loop has ended
            self._loop.call_soon_threadsafe(self._news.set)

    def stop(self, reason: str) -> None:
        """End the request without results."""
        self._refusal, self.abandoned = Problem(detail=reason), True
        self._news.set()

    async def progress(self) -> AsyncIterator[list[Partial]]:
        """Yield new unfinished translations, an empty list at least every second, until there is an outcome."""
        while self._refusal is None and None in self._results:
            left = self._ends - self._loop.time()
            if left <= 0:
                self.stop(LATE)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._news.wait(), min(left, SECONDS_BETWEEN_REPORTS))
            self._news.clear()
            partials, self._partials = self._partials, {}
            yield [Partial(sentence=place, text=text) for place, text in list(partials.items())]

    @property
    def outcome(self) -> Answer | Problem:
        """All results, or why there are none."""
        return self._refusal or Answer(sentences=self._results)


@dataclass(eq=False)
class Job:
    """A sentence of a request. Its ``level`` rises by one where its length doubles."""

    request: Pending
    place: int
    nbest: int
    sentence: str
    tree: str | None
    level: int


class Turns:
    """A thread that translates.

    A turn has sentences of one level: one of each request, then a second one and so on, until it is long enough.
    ``work`` calls ``pause`` between its steps, in which waiting sentences of lower levels have a turn; after it, the
    work goes on for as long as that took. So a short request never waits for the end of a long one, which takes at most
    twice its time. No exception ends the thread: if ``work`` fails, each sentence is tried alone.

    Args:
        work: translates sentences and finishes each; ``pause``, its second argument, raises Abandoned if nobody waits.
        most_waiting: the most sentences that wait.
    """

    def __init__(self, work: Callable[[Sequence[Job], Callable[[], None]], None], most_waiting: int) -> None:
        self._work, self._most_waiting = work, most_waiting
        self._requests: deque[Pending] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="translation", daemon=True)
        self._thread.start()

    def submit(self, request: Pending) -> bool:
        """Let a request wait for its turn; False if too many sentences would wait."""
        with self._changed:
            waiting = sum(len(each.waiting) for each in self._requests if not each.abandoned)
            accepted = not self._closed and waiting + len(request.waiting) <= self._most_waiting
            if accepted:
                self._requests.append(request)
                self._changed.notify()
        return accepted

    def close(self) -> None:
        """Accept no more requests, and end the thread after its turn."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while not self._closed:
            with self._changed:
                self._changed.wait_for(lambda: self._requests or self._closed)
            if jobs := self._take():
                self._try(jobs)

    def _take(self, below: float = math.inf) -> list[Job]:
        """Take the sentences of the next turn, whose level is below a level."""
        jobs: list[Job] = []
        with self._changed:
            self._requests = deque(each for each in self._requests if not each.abandoned)
            level = next((each.waiting[0].level for each in self._requests if each.waiting[0].level < below), None)
            while sum(job.nbest << job.level for job in jobs) < TURN:
                request = next((each for each in self._requests if each.waiting[0].level == level), None)
                if request is None:
                    break
                self._requests.remove(request)
                jobs.append(request.waiting.popleft())
                if request.waiting:
                    self._requests.append(request)
        return jobs

    def _try(self, jobs: Sequence[Job]) -> None:
        goes_on_until = 0.0

        def pause() -> None:
            nonlocal goes_on_until
            if all(job.request.abandoned for job in jobs):
                raise Abandoned
            if (begun := time.monotonic()) >= goes_on_until and (shorter := self._take(jobs[0].level)):
                self._try(shorter)
                goes_on_until = 2 * time.monotonic() - begun

        try:
            self._work(jobs, pause)
        except Abandoned:
            pass
        except Exception as error:
            if len(jobs) > 1:
                for job in jobs:
                    self._try([job])
                return
            logger.exception("a sentence could not be translated")
            detail = f"sentence {jobs[0].place + 1} cannot be translated: the server failed ({type(error).__name__})"
            jobs[0].request.finish(jobs[0].place, Problem(detail=detail))
