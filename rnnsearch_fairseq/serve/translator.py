"""The work of the server's thread: translate a batch of sentences, and encode the answers in JSON."""

import html
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference import translator as inference
from rnnsearch_fairseq.inference.translator import PARSE_FACTOR, Alignment, Source, Translation
from rnnsearch_fairseq.serve.batching import Abandoned
from rnnsearch_fairseq.text.link_grammar import LinkParser
from rnnsearch_fairseq.text.trees import Parse, Tree, read_penn

SECONDS_BETWEEN_PARTIALS = 0.05
SECONDS_TO_PARSE = 5.0  # the sentences of a batch; those that are left then are translated without a parse
DIGITS = 4


@dataclass(frozen=True)
class Limits:
    """The server's limits.

    For a sentence: ``characters`` (a parse may have 20 times as many) and ``words``. For a request: ``sentences``,
    ``bytes`` and ``seconds``. For all requests together: sentences ``at_once`` in translation and ``waiting``, and
    ``all_bytes`` of requests that are being read.
    """

    characters: int = 2_000
    words: int = 100
    sentences: int = 32
    bytes: int = 8 << 20
    seconds: float = 30.0
    at_once: int = 32
    waiting: int = 256
    all_bytes: int = 64 << 20


@dataclass
class Job:
    """A sentence of a request.

    ``number`` is its position in the request, from 1, and ``refusal`` is an error message to return instead of a
    translation. Without a ``tree``, the sentence is parsed if ``parse`` is set. The translating thread calls
    ``on_partial``, if it is given, with the unfinished translation. ``abandoned`` may be set at any time.
    """

    number: int
    sentence: str
    tree: str | None = None
    parse: bool = False
    nbest: int = 1
    align: bool = True
    refusal: str | None = None
    on_partial: Callable[[str], None] | None = None
    abandoned: bool = field(default=False, init=False)

    @classmethod
    def of(cls, limits: Limits, number: int, sentence: str, tree: str | None, **options: Any) -> "Job":
        """Make a job; if the text is too long, it is replaced by a refusal."""
        texts = {f"sentence {number}": (sentence, limits.characters)}
        texts[f"the parse of sentence {number}"] = (tree or "", limits.characters * PARSE_FACTOR)
        for what, (text, most) in texts.items():
            if len(text) > most:
                refusal = f"{what} has {len(text):,} characters, and at most {most:,} are read; split it"
                return cls(number, "", refusal=refusal)
        return cls(number, sentence, tree, **options)


class Translator:
    """Translates batches of jobs, in one thread.

    Args:
        hub: the model.
        limits: the limits on a sentence are enforced here.
        parser: parses the sentences of jobs that ask for it; None: there are no such jobs.
    """

    def __init__(self, hub: inference.Translator, limits: Limits, parser: LinkParser | None = None) -> None:
        self.hub, self.limits = hub, limits
        self._parser = parser

    def __call__(self, jobs: Sequence[Job]) -> list[bytes]:
        """Return the answer to each job, a JSON object: translations or an error.

        Raises:
            Abandoned: all jobs were abandoned.
        """
        answers: dict[int, dict[str, Any]] = {}
        sources: dict[int, Source] = {}
        parse_until = time.monotonic() + SECONDS_TO_PARSE
        for place, job in enumerate(jobs):
            try:
                sources[place] = self._read(job)
                if job.parse and sources[place].tree is None and time.monotonic() < parse_until:
                    sources[place] = sources[place]._replace(tree=self._parse(sources[place].words))
            except InputError as error:
                answers[place] = {"error": str(error)}
        if sources:
            answers |= zip(sources, self._translate([jobs[place] for place in sources], list(sources.values())))
        return [json.dumps(answers[place], allow_nan=False).encode() for place in range(len(jobs))]

    def _read(self, job: Job) -> Source:
        where = f"sentence {job.number}"
        if job.refusal is not None:
            raise InputError(job.refusal)
        source = self.hub.read_source(job.sentence, job.tree, where)
        if len(source.words) > self.limits.words:
            raise InputError(
                f"{where} has {len(source.words):,} words, and at most {self.limits.words:,} are read; split it"
            )
        return source

    def _parse(self, words: Sequence[str]) -> Tree | None:
        found = self._parser.parse(words)
        parse = read_penn(found) if isinstance(found, str) else None
        return parse.tree if isinstance(parse, Parse) and len(parse.words) == len(words) else None

    def _translate(self, jobs: Sequence[Job], sources: Sequence[Source]) -> list[dict[str, Any]]:
        nbest = max(job.nbest for job in jobs)
        found = self.hub.search(sources, None, nbest, self._watcher(jobs, sources))
        found = [translations[: job.nbest] for job, translations in zip(jobs, found)]
        pairs = [(source, one.words) for source, translations in zip(sources, found) for one in translations]
        alignments = iter(self.hub.align_words(pairs))
        return [
            _answer(source, [(one, next(alignments)) for one in translations], job.align)
            for job, source, translations in zip(jobs, sources, found)
        ]

    def _watcher(self, jobs: Sequence[Job], sources: Sequence[Source]) -> Callable[[dict[int, list[int]]], None]:
        shown = time.monotonic()

        def watch(best: dict[int, list[int]]) -> None:
            nonlocal shown
            if all(job.abandoned for job in jobs):
                raise Abandoned
            if time.monotonic() - shown < SECONDS_BETWEEN_PARTIALS:
                return
            shown = time.monotonic()
            for place, words in best.items():
                # The search writes words even for a sentence without words, whose translation is empty.
                if jobs[place].on_partial is not None and not jobs[place].abandoned and sources[place].words:
                    jobs[place].on_partial(self.hub.decode(words))

        return watch


def _answer(source: Source, found: Sequence[tuple[Translation, Alignment]], align: bool) -> dict[str, Any]:
    first = found[0][1]
    answer: dict[str, Any] = {"source": _words(first.source, first.source_unknown)}
    if first.phrases is not None:
        answer["phrases"] = first.phrases
    answer["translations"] = [_translation(translation, alignment, align) for translation, alignment in found]
    return answer


def _translation(translation: Translation, alignment: Alignment, align: bool) -> dict[str, Any]:
    words = _words(alignment.target, alignment.target_unknown)
    for word, logprob in zip(words, alignment.logprobs.tolist()):
        word["logprob"] = _rounded(logprob)
    answer = {
        "text": translation.text,
        "score": _rounded(translation.score),
        "logprob": _rounded(alignment.logprobs.sum().item()),
        "words": words,
    }
    if align:
        answer["alignment"] = _matrix(alignment.weights)
        if alignment.phrases is not None:
            answer["phrase_alignment"] = _matrix(alignment.phrase_weights)
    return answer


def _words(words: Sequence[str], unknown: Sequence[bool]) -> list[dict[str, Any]]:
    # Moses tokens may hold HTML entities.
    return [{"text": html.unescape(word), "unknown": is_unknown} for word, is_unknown in zip(words, unknown)]


def _matrix(weights: Tensor | None) -> list[list[float]] | None:
    return None if weights is None else [[round(weight, DIGITS) for weight in row] for row in weights.double().tolist()]


def _rounded(number: float) -> float | None:
    return round(number, DIGITS) if math.isfinite(number) else None
