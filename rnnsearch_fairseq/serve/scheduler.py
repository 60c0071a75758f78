"""One queue of requests, and the thread that translates their sentences in batches."""

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
MAX_WAITING = 256  # requests
MAX_SECONDS = 30.0  # from a request to its answer
MAX_BATCH_CHARACTERS = 4_096
MIN_CHARACTERS = 64  # a shorter sentence counts as one of these
SECONDS_BETWEEN_REPORTS = 1.0


class Abandoned(Exception):
    """Nobody waits for any sentence of a batch."""


class PendingRequest:
    """A request, between the event loop and the thread. If it is ``abandoned``, its sentences are left out."""

    def __init__(self, request: TranslationRequest) -> None:
        trees = request.trees or [None] * len(request.sentences)
        pairs = enumerate(zip(request.sentences, trees))
        self.jobs = deque(Job(self, number, request.nbest, sentence, tree) for number, (sentence, tree) in pairs)
        self.abandoned = False
        self._results: list[Translated | Problem | None] = [None] * len(request.sentences)
        self._loop, self._news = asyncio.get_running_loop(), asyncio.Queue()

    def report(self, number: int, news: Partial | Translated | Problem) -> None:
        """Pass on what is known of a sentence; called by the thread."""
        with contextlib.suppress(RuntimeError):  # the event loop has ended
            self._loop.call_soon_threadsafe(self._news.put_nowait, (number, news))

    async def progress(self) -> AsyncIterator[Partial | Answer | Problem | None]:
        """Yield unfinished translations, None after a second without news, and at last the answer or a problem."""
        deadline = self._loop.time() + MAX_SECONDS
        while None in self._results:
            if self._loop.time() >= deadline:
                yield Problem(error=LATE)
                return
            try:
                number, news = await asyncio.wait_for(self._news.get(), SECONDS_BETWEEN_REPORTS)
            except asyncio.TimeoutError:
                yield None
                continue
            if isinstance(news, Partial):
                yield news
            else:
                self._results[number] = news
        yield Answer(sentences=self._results)


@dataclass(eq=False)
class Job:
    """A sentence of a request: its number there from 0, how many translations are asked for, and its tree."""

    request: PendingRequest
    number: int
    nbest: int
    sentence: str
    tree: str | None

    @property
    def characters(self) -> int:
        """The sentence's length, for the size of a batch."""
        return max(len(self.sentence), MIN_CHARACTERS)


class Scheduler:
    """A thread that translates the sentences of waiting requests in batches.

    A batch begins with the next sentence of the request that has waited longest, and takes sentences of about its
    length: one of each request, in order of arrival, then a second one of each, and so on. A request with sentences
    left goes to the end of the queue, so that a request of one sentence never waits for all of a long request. No
    exception ends the thread: if ``work`` fails, each sentence of the batch is tried alone.

    Args:
        work: translates the sentences of a batch and finishes each; raises Abandoned if nobody waits for them.
    """

    def __init__(self, work: Callable[[Sequence[Job]], None]) -> None:
        self._work = work
        self._requests: deque[PendingRequest] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="translation", daemon=True)
        self._thread.start()

    def submit(self, request: PendingRequest) -> bool:
        """Put a request into the queue; False if too many wait."""
        with self._changed:
            accepted = sum(not waiting.abandoned for waiting in self._requests) < MAX_WAITING
            if accepted:
                self._requests.append(request)
                self._changed.notify()
        return accepted

    def close(self) -> None:
        """Accept no more requests, and end the thread after its batch."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while not self._closed:
            with self._changed:
                self._changed.wait_for(lambda: self._requests or self._closed)
                jobs = self._take_batch()
            if jobs:
                self._translate(jobs)

    def _take_batch(self) -> list[Job]:
        jobs: list[Job] = []
        self._requests = deque(request for request in self._requests if not request.abandoned)
        while self._requests and sum(job.characters for job in jobs) < MAX_BATCH_CHARACTERS:
            first = jobs[0] if jobs else self._requests[0].jobs[0]
            similar = (request for request in self._requests if _similar_length(request.jobs[0], first))
            if (request := next(similar, None)) is None:
                break
            self._requests.remove(request)
            jobs.append(request.jobs.popleft())
            if request.jobs:
                self._requests.append(request)
        return jobs

    def _translate(self, jobs: Sequence[Job]) -> None:
        try:
            self._work(jobs)
        except Abandoned:
            pass
        except Exception as error:
            if len(jobs) > 1:
                for job in jobs:
                    self._translate([job])
                return
            logger.exception("a sentence could not be translated")
            reason = f"sentence {jobs[0].number + 1} cannot be translated: the server failed ({type(error).__name__})"
            jobs[0].request.report(jobs[0].number, Problem(error=reason))


def _similar_length(job: Job, other: Job) -> bool:
    return job.characters.bit_length() == other.characters.bit_length()
