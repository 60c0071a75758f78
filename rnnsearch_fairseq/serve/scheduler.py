"""One queue of requests, and the thread that translates their sentences in batches."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from rnnsearch_fairseq.serve.messages import Answer, Partial, Problem, Translated, TranslationRequest

logger = logging.getLogger(__name__)

MAX_WAITING = 256  # requests
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
        self._loop.call_soon_threadsafe(self._news.put_nowait, (number, news))

    async def progress(self) -> AsyncIterator[Partial | Answer | None]:
        """Yield unfinished translations, None after a second without news, and at last the answer."""
        while None in self._results:
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


class Scheduler:
    """Translates the sentences of waiting requests in batches.

    Half of a batch is for the first sentence of each waiting request, so a short request never waits for all of a long
    one. The rest is for all sentences of the requests that arrived first, so requests of one length are answered in
    order of arrival. ``work`` translates a batch and reports on each sentence; it raises Abandoned if nobody waits for
    any of them.
    """

    def __init__(self, work: Callable[[Sequence[Job]], None]) -> None:
        self._work = work
        self._requests: list[PendingRequest] = []
        self._arrived = asyncio.Event()

    def submit(self, request: PendingRequest) -> bool:
        """Put a request into the queue; False if too many wait."""
        self._requests = [waiting for waiting in self._requests if not waiting.abandoned]
        accepted = len(self._requests) < MAX_WAITING
        if accepted:
            self._requests.append(request)
            self._arrived.set()
        return accepted

    async def run(self) -> None:
        """Translate in a thread, until this task is cancelled."""
        with ThreadPoolExecutor(1, "translation") as thread:
            while await self._arrived.wait():
                if jobs := self._take_batch():
                    await asyncio.get_running_loop().run_in_executor(thread, self._translate, jobs)
                else:
                    self._arrived.clear()

    def _take_batch(self) -> list[Job]:
        waiting = [request for request in self._requests if not request.abandoned]
        turns = [(request, MAX_BATCH_CHARACTERS // 2) for request in waiting]
        turns += [(request, MAX_BATCH_CHARACTERS) for request in waiting for _ in request.jobs]
        jobs: list[Job] = []
        characters = 0
        for request, limit in turns:
            if request.jobs and characters < limit:
                jobs.append(request.jobs.popleft())
                characters += max(len(jobs[-1].sentence), MIN_CHARACTERS)
        self._requests = [request for request in waiting if request.jobs]
        return jobs

    def _translate(self, jobs: Sequence[Job]) -> None:
        try:
            self._work(jobs)
        except Abandoned:
            pass
        except Exception as error:  # the next batch may succeed
            logger.exception("a batch could not be translated")
            problem = Problem(error=f"the text cannot be translated: the server failed ({type(error).__name__})")
            for job in jobs:
                job.request.report(job.number, problem)
