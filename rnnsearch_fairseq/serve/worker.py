"""The work of a turn: read, parse, translate and align its sentences."""

import html
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat

from torch import Tensor

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference import translator as inference
from rnnsearch_fairseq.inference.translator import Alignment, Source, Translator
from rnnsearch_fairseq.serve.messages import Limits, Problem, Translated, Translation, Word
from rnnsearch_fairseq.serve.turns import Abandoned, Job
from rnnsearch_fairseq.text.link_grammar import LinkParser
from rnnsearch_fairseq.text.trees import Parse, Tree, read_penn

SECONDS_BETWEEN_PARTIALS = 0.05
SECONDS_TO_PARSE = 5.0  # the sentences of a turn; those that are left then are translated without a parse
DIGITS = 4


class Worker:
    """Translates sentences in one thread; ``parser`` parses those that come without a tree."""

    def __init__(self, translator: Translator, limits: Limits, parser: LinkParser | None = None) -> None:
        self._translator, self._limits, self._parser = translator, limits, parser

    def __call__(self, jobs: Sequence[Job]) -> None:
        """Finish each job by its translations or by an error.

        Raises:
            Abandoned: all requests of these jobs were abandoned.
        """
        sources: dict[Job, Source] = {}
        parse_until = time.monotonic() + SECONDS_TO_PARSE
        for job in jobs:
            try:
                source = self._read(job)
            except InputError as error:
                job.request.finish(job.place, Problem(detail=str(error)))
                continue
            if self._parser is not None and source.tree is None and time.monotonic() < parse_until:
                source = source._replace(tree=self._parse(source.words))
            sources[job] = source
        if sources:
            self._translate(sources)

    def _read(self, job: Job) -> Source:
        source = self._translator.read_source(job.sentence, job.tree, f"sentence {job.place + 1}")
        if (words := len(source.words)) > (most := self._limits.words):
            raise InputError(f"sentence {job.place + 1} has {words} words, and at most {most} are read; split it")
        return source

    def _parse(self, words: Sequence[str]) -> Tree | None:
        tree = self._parser.parse(words)
        parse = read_penn(tree) if isinstance(tree, str) else None
        return parse.tree if isinstance(parse, Parse) and len(parse.words) == len(words) else None

    def _translate(self, sources: dict[Job, Source]) -> None:
        nbest = max(job.nbest for job in sources)
        best = self._translator.search(list(sources.values()), nbest=nbest, on_step=self._watcher(sources))
        # A client may have left by now.
        wanted = {job: each[: job.nbest] for job, each in zip(sources, best) if not job.request.abandoned}
        pairs = [(sources[job], each.words) for job, translations in wanted.items() for each in translations]
        alignments = iter(self._translator.align_words(pairs))
        for job, translations in wanted.items():
            result = _translated([(translation, next(alignments)) for translation in translations])
            job.request.finish(job.place, result)

    def _watcher(self, sources: dict[Job, Source]) -> Callable[[dict[int, list[int]]], None]:
        """A function that shows unfinished translations, and ends a search that nobody waits for."""
        jobs, shown = list(sources), time.monotonic()

        def watch(best: dict[int, list[int]]) -> None:
            nonlocal shown
            if all(job.request.abandoned for job in jobs):
                raise Abandoned
            if time.monotonic() - shown < SECONDS_BETWEEN_PARTIALS:
                return
            shown = time.monotonic()
            for number, ids in best.items():
                job, words = jobs[number], self._translator.target_vocabulary.words(ids)
                job.request.show(job.place, self._translator.decode(words, sources[job]))

        return watch


def _translated(results: Sequence[tuple[inference.Translation, Alignment]]) -> Translated:
    _, first = results[0]
    return Translated(
        source=_words(first.source, first.source_unknown, repeat(None)),
        phrases=first.phrases,
        translations=[
            Translation(
                text=translation.text,
                score=translation.score,
                logprob=alignment.logprobs.sum().item(),
                words=_words(alignment.target, alignment.target_unknown, alignment.logprobs.tolist()),
                alignment=_rows(alignment.weights),
                phrase_alignment=_rows(alignment.phrase_weights),
            )
            for translation, alignment in results
        ],
    )


def _words(texts: Sequence[str], unknown: Sequence[bool], logprobs: Iterable[float | None]) -> list[Word]:
    # Moses tokens may hold HTML entities.
    words = zip(map(html.unescape, texts), unknown, logprobs)
    return [Word(text=text, unknown=is_unknown, logprob=logprob) for text, is_unknown, logprob in words]


def _rows(weights: Tensor | None) -> list[list[float]] | None:
    return None if weights is None else weights.double().round(decimals=DIGITS).tolist()
