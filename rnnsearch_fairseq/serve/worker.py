"""The queue of requests, and the thread that reads, parses and translates their sentences in batches."""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import NamedTuple

from fastapi import HTTPException, Request

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference.aligned_pairs import AlignedPair
from rnnsearch_fairseq.inference.translator import Text, Translator
from rnnsearch_fairseq.serve.messages import MAX_WEIGHTS, Answer, Problem, Translated, TranslationRequest
from rnnsearch_fairseq.text.codec import END
from rnnsearch_fairseq.text.markup import unmask

logger = logging.getLogger(__name__)

MAX_WAITING = 256  # requests
MAX_BATCH_CHARACTERS = 4_096
MIN_CHARACTERS = 64  # a shorter sentence counts as one of these
MAX_CHARACTERS = 10_000  # of a text; others wait for it
MAX_SUBWORDS = 4_000  # of a text; prose of 10,000 characters has 2,500
SECONDS_BETWEEN_LOOKS = 1.0  # at whether a client still waits


class Abandoned(Exception):
    """Nobody waits for any sentence of a batch."""


class PendingRequest:
    """A request, between the event loop and the thread. If it is ``abandoned``, its sentences are left out."""

    def __init__(self, message: TranslationRequest) -> None:
        trees = message.trees or [None] * len(message.sentences)
        sentences = enumerate(zip(message.sentences, trees))
        self.jobs = deque(Job(self, number, sentence, tree) for number, (sentence, tree) in sentences)
        self.nbest, self.abandoned = message.nbest, False
        self.results: list[Translated | Problem | None] = [None] * len(message.sentences)
        self._loop, self.finished = asyncio.get_running_loop(), asyncio.Event()

    def report(self, number: int, result: Translated | Problem) -> None:
        """Take the result of a sentence; called by the thread."""
        self.results[number] = result
        if None not in self.results:
            self._loop.call_soon_threadsafe(self.finished.set)


class Job(NamedTuple):
    """A sentence of a request, its number there from 0, and its tree."""

    request: PendingRequest
    number: int
    sentence: str
    tree: str | None


class Worker:
    """Translates the sentences of waiting requests in batches, in a thread of its own.

    Half of a batch is for the first sentence of each waiting request, the shortest ones first, so a short request never
    waits until a long request, or all long requests, are translated. The rest is for all sentences of the requests that
    arrived first, so requests of one length are answered in order of arrival.
    """

    def __init__(self, translator: Translator) -> None:
        self.translator = translator
        self._requests: list[PendingRequest] = []
        self._arrived = asyncio.Event()

    def submit(self, request: PendingRequest) -> bool:
        """Put a request into the queue; False if too many wait."""
        self._requests = [waiting for waiting in self._requests if not waiting.abandoned]
        if len(self._requests) >= MAX_WAITING:
            return False
        self._requests.append(request)
        self._arrived.set()
        return True

    async def run(self) -> None:
        """Translate until this task is cancelled."""
        with ThreadPoolExecutor(1, "translation") as thread:
            while await self._arrived.wait():
                if jobs := self._take_batch():
                    await asyncio.get_running_loop().run_in_executor(thread, self._work, jobs)
                else:
                    self._arrived.clear()

    def _take_batch(self) -> list[Job]:
        waiting = [request for request in self._requests if not request.abandoned]
        shortest = sorted(waiting, key=lambda request: len(request.jobs[0].sentence))
        turns = [(request, MAX_BATCH_CHARACTERS // 2) for request in shortest]
        turns += [(request, MAX_BATCH_CHARACTERS) for request in waiting for _ in request.jobs]
        jobs: list[Job] = []
        characters = 0
        for request, limit in turns:
            if request.jobs and characters < limit:
                jobs.append(request.jobs.popleft())
                characters += max(len(jobs[-1].sentence), MIN_CHARACTERS)
        self._requests = [request for request in waiting if request.jobs]
        return jobs

    def _work(self, jobs: Sequence[Job]) -> None:
        try:
            self.translate(jobs)
        except Abandoned:
            pass
        except Exception as error:  # the next batch may succeed
            logger.exception("a batch could not be translated")
            problem = Problem(error=f"the text cannot be translated: the server failed ({type(error).__name__})")
            for job in jobs:
                job.request.report(job.number, problem)

    def translate(self, jobs: Sequence[Job]) -> None:
        """Report the translations of each job, or an error; raises Abandoned if nobody waits for any of them."""
        texts: dict[Job, Text] = {}
        for job in jobs:
            if not job.request.abandoned:
                try:
                    texts[job] = self._read(job)
                except InputError as error:
                    job.request.report(job.number, Problem(error=str(error)))

        def check() -> None:
            if all(job.request.abandoned for job in texts):
                raise Abandoned

        nbest = max((job.request.nbest for job in texts), default=1)
        translations = self.translator.search([*texts.values()], nbest=nbest, on_step=check)
        for (job, text), pairs in zip(texts.items(), translations):
            result = Translated(
                source=_show(pairs[0].source, text),
                source_unknown=pairs[0].source_unknown,
                phrases=pairs[0].phrases,
                translations=[_for_reader(pair, text) for pair in pairs[: job.request.nbest]],
            )
            job.request.report(job.number, result)

    def _read(self, job: Job) -> Text:
        if (size := len(job.sentence)) > MAX_CHARACTERS:
            raise InputError(f"the text has {size:,} characters; at most {MAX_CHARACTERS:,} are translated; split it")
        text = self.translator.read_text(job.sentence, job.tree, "the text")
        if (subwords := sum(len(source.words) for source in text.sources)) > MAX_SUBWORDS:
            raise InputError(f"the text has {subwords:,} subwords; at most {MAX_SUBWORDS:,} are translated; split it")
        return text


async def answer(message: TranslationRequest, request: Request) -> Answer:
    """Put a request into the queue, and wait for its results as long as its client waits."""
    pending = PendingRequest(message)
    if not request.app.state.worker.submit(pending):
        raise HTTPException(503, "the server is busy; please try again in a moment", {"Retry-After": "1"})
    try:
        while not pending.finished.is_set():
            if await request.is_disconnected():
                raise HTTPException(503, "the connection was closed")
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(pending.finished.wait(), SECONDS_BETWEEN_LOOKS)
        return Answer(sentences=pending.results)
    finally:
        pending.abandoned = True


def _for_reader(pair: AlignedPair, text: Text) -> AlignedPair:
    """A pair with the signs of the text in its words, and without too many weights, which take memory as lists."""
    few = len(pair.source) * len(pair.target) <= MAX_WEIGHTS
    return replace(pair, target=_show(pair.target, text), blocks=pair.blocks if few else ())


def _show(words: Sequence[str], text: Text) -> list[str]:
    """Put markup and signs back in the place of the symbols that stand for them among the model's words."""
    described, number = [], 0
    for word in words:
        piece = text.sources[number].piece if number < len(text.sources) else None
        described.append(word if piece is None else text.passage.describe(unmask(word, piece.spans)))
        number += word == END
    return described
