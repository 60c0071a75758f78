"""The work of a turn: read, parse, translate and align its sentences."""

import html
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import repeat

from torch import Tensor

from rnnsearch_fairseq.corpus.link_grammar import LinkParser
from rnnsearch_fairseq.documents.translate import replace_unknown
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference.translator import Source, Translator
from rnnsearch_fairseq.serve.messages import Limits, Problem, Translated, Translation, Word
from rnnsearch_fairseq.serve.turns import Job
from rnnsearch_fairseq.text.scores import AlignedPair
from rnnsearch_fairseq.text.trees import Parse, Tree, read_penn

SECONDS_BETWEEN_PARTIALS = 0.05
SECONDS_TO_PARSE = 5.0  # the sentences of a turn; those that are left then are translated without a parse
DIGITS = 4


@dataclass
class Worker:
    """Translates sentences in one thread.

    Attributes:
        parser: parses the sentences that come without a tree.
        dictionary: replaces unknown words, as ``rnnsearch translate --replace-unknown``; None: they stay.
    """

    translator: Translator
    limits: Limits = field(default_factory=Limits)
    parser: LinkParser | None = None
    dictionary: dict[str, str] | None = None

    def __call__(self, jobs: Sequence[Job], pause: Callable[[], None]) -> None:
        """Finish each job by its translations or by an error; call ``pause`` between steps."""
        sources: dict[Job, Source] = {}
        parse_until = time.monotonic() + SECONDS_TO_PARSE
        for job in jobs:
            pause()
            try:
                source = self._read(job)
            except InputError as error:
                job.request.finish(job.place, Problem(detail=str(error)))
                continue
            if self.parser is not None and source.tree is None and time.monotonic() < parse_until:
                source = source._replace(tree=self._parse(source.words))
            sources[job] = source
        if sources:
            self._translate(sources, pause)

    def _read(self, job: Job) -> Source:
        source = self.translator.read_source(job.sentence, job.tree, f"sentence {job.place + 1}")
        if (words := len(source.words)) > (most := self.limits.words):
            raise InputError(f"sentence {job.place + 1} has {words} words, and at most {most} are read; split it")
        return source

    def _parse(self, words: Sequence[str]) -> Tree | None:
        tree = self.parser.parse(words)
        parse = read_penn(tree) if isinstance(tree, str) else None
        return parse.tree if isinstance(parse, Parse) and len(parse.words) == len(words) else None

    def _translate(self, sources: dict[Job, Source], pause: Callable[[], None]) -> None:
        nbest, watch = max(job.nbest for job in sources), self._watcher(sources, pause)
        pause()
        found = self.translator.search(list(sources.values()), nbest=nbest, on_step=watch)
        for (job, source), pairs in zip(sources.items(), found):
            for pair in pairs[: job.nbest] if self.dictionary is not None else ():
                replace_unknown(self.translator, source, pair, self.dictionary)
            if not job.request.abandoned:  # a client may have left by now
                job.request.finish(job.place, _translated(pairs[: job.nbest]))

    def _watcher(self, sources: dict[Job, Source], pause: Callable[[], None]) -> Callable[[dict[int, list[int]]], None]:
        """A function that shows unfinished translations."""
        jobs, shown = list(sources), time.monotonic()

        def watch(best: dict[int, list[int]]) -> None:
            nonlocal shown
            pause()
            if time.monotonic() - shown < SECONDS_BETWEEN_PARTIALS:
                return
            shown = time.monotonic()
            for number, ids in best.items():
                job, words = jobs[number], self.translator.target_vocabulary.words(ids)
                job.request.show(job.place, self.translator.decode(words, sources[job]))

        return watch


def _translated(pairs: Sequence[AlignedPair]) -> Translated:
    return Translated(
        source=_words(pairs[0].source, pairs[0].source_unknown, repeat(None)),
        phrases=pairs[0].phrases,
        translations=[
            Translation(
                text=pair.text,
                score=pair.score,
                logprob=pair.logprobs.sum().item(),
                words=_words(pair.target, pair.target_unknown, pair.logprobs.tolist()),
                alignment=_rows(pair.weights),
                phrase_alignment=_rows(pair.phrase_weights),
            )
            for pair in pairs
        ],
    )


def _words(texts: Sequence[str], unknown: Sequence[bool], logprobs: Iterable[float | None]) -> list[Word]:
    # Moses tokens may hold HTML entities.
    words = zip(map(html.unescape, texts), unknown, logprobs)
    return [Word(text=text, unknown=is_unknown, logprob=logprob) for text, is_unknown, logprob in words]


def _rows(weights: Tensor | None) -> list[list[float]] | None:
    return None if weights is None else weights.double().round(decimals=DIGITS).tolist()
