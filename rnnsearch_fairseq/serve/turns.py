"""The requests that wait, and the thread that translates their sentences in turns."""

import asyncio
import contextlib
import logging
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from rnnsearch_fairseq.serve.messages import Answer, Partial, Problem, Translated, TranslationRequest

logger = logging.getLogger(__name__)

LATE = "the server did not finish in time; please send fewer sentences, or try again in a moment"
# A turn ends when it has this many characters: about three seconds' work on two cores with a beam of 12.
CHARACTERS_A_TURN = 2_048
CHARACTERS_OF_SHORTEST = 64  # by which a shorter sentence counts
SECONDS_BETWEEN_REPORTS = 1.0


class Abandoned(Exception):
    """Nobody waits for any sentence of this turn."""


class Pending:
    """A request, between the event loop and the thread. If ``abandoned`` is set, its sentences are left out."""

    def __init__(self, request: TranslationRequest, seconds: float) -> None:
        trees = request.trees or [None] * len(request.sentences)
        pairs = enumerate(zip(request.sentences, trees))
        self.waiting = deque(Job(self, place, *pair, request.nbest) for place, pair in pairs)
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
    """A sentence of a request."""

    request: Pending
    place: int
    sentence: str
    tree: str | None
    nbest: int


class Turns:
    """A thread that translates.

    In each turn it takes a sentence of each request, then a second one and so on, until the turn is long enough. So a
    short request waits for a turn, and not for all sentences of a long one. No exception ends the thread: if ``work``
    fails, each sentence is tried alone.

    Args:
        work: translates sentences and finishes each; it may raise Abandoned.
        most_waiting: the most sentences that wait.
    """

    def __init__(self, work: Callable[[Sequence[Job]], None], most_waiting: int) -> None:
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
            self._try(self._take())

    def _take(self) -> list[Job]:
        """Wait for sentences, and take those of the next turn."""
        jobs: list[Job] = []
        size = 0
        with self._changed:
            self._changed.wait_for(lambda: self._requests or self._closed)
            while self._requests and size < CHARACTERS_A_TURN:
                request = self._requests.popleft()
                if not request.abandoned:
                    jobs.append(request.waiting.popleft())
                    size += max(len(jobs[-1].sentence), CHARACTERS_OF_SHORTEST)
                    if request.waiting:
                        self._requests.append(request)
        return jobs

    def _try(self, jobs: Sequence[Job]) -> None:
        try:
            self._work(jobs)
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
