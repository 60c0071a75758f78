"""The work of the thread: read, parse, translate and align the sentences of a batch."""

import html
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import repeat

from torch import Tensor

from rnnsearch_fairseq.corpus.link_grammar import LinkParser
from rnnsearch_fairseq.documents.translate import replace_unknown
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference import translator as inference
from rnnsearch_fairseq.inference.translator import Alignment, Source, Translator
from rnnsearch_fairseq.search import OnStep
from rnnsearch_fairseq.serve.messages import Partial, Problem, Translated, Translation, Word
from rnnsearch_fairseq.serve.scheduler import Abandoned, Job
from rnnsearch_fairseq.text.trees import Parse, read_penn

SECONDS_BETWEEN_PARTIALS = 0.05
SECONDS_TO_PARSE = 5.0  # the sentences of a batch; those that are left then are translated without a parse
DIGITS = 4


@dataclass
class Worker:
    """Translates batches of sentences.

    Attributes:
        max_words: a longer sentence is refused.
        parser: parses the sentences that come without a tree.
        dictionary: replaces unknown words, as ``rnnsearch translate --replace-unknown``; None: they stay.
    """

    translator: Translator
    max_words: int = 100
    parser: LinkParser | None = None
    dictionary: dict[str, str] | None = None

    def __call__(self, jobs: Sequence[Job]) -> None:
        """Finish each job by its translations or by an error."""
        sources: dict[Job, Source] = {}
        parse_until = time.monotonic() + SECONDS_TO_PARSE
        for job in jobs:
            check_wanted(jobs)
            try:
                sources[job] = self._read(job, parses=time.monotonic() < parse_until)
            except InputError as error:
                job.request.report(job.number, Problem(error=str(error)))
        if sources:
            nbest = [job.nbest for job in sources]
            results = search_aligned(self.translator, list(sources.values()), nbest, self._watcher(sources))
            for job, translations in zip(sources, results):
                if self.dictionary is not None:
                    translations = [self._replace_unknown(*pair, sources[job]) for pair in translations]
                job.request.report(job.number, _describe(translations))

    def _read(self, job: Job, parses: bool) -> Source:
        where = f"sentence {job.number + 1}"
        source = self.translator.read_source(job.sentence, job.tree, where)
        if (words := len(source.words)) > self.max_words:
            raise InputError(f"{where} has {words} words, and at most {self.max_words} are read; split it")
        if self.parser is None or source.tree is not None or not parses:
            return source
        brackets = self.parser.parse(source.words)
        parse = read_penn(brackets) if isinstance(brackets, str) else None
        fits = isinstance(parse, Parse) and len(parse.words) == words
        return source._replace(tree=parse.tree) if fits else source

    def _replace_unknown(
        self, translation: inference.Translation, alignment: Alignment, source: Source
    ) -> tuple[inference.Translation, Alignment]:
        words = replace_unknown(translation.words, alignment, self.dictionary)
        return replace(translation, words=words, text=self.translator.decode(words, source)), alignment

    def _watcher(self, sources: dict[Job, Source]) -> OnStep:
        """A function that shows unfinished translations, and ends the search if nobody waits for any."""
        jobs, shown = list(sources), time.monotonic()

        def watch(best: dict[int, list[int]]) -> None:
            nonlocal shown
            check_wanted(jobs)
            if time.monotonic() - shown < SECONDS_BETWEEN_PARTIALS:
                return
            shown = time.monotonic()
            for number, ids in best.items():
                job, words = jobs[number], self.translator.target_vocabulary.words(ids)
                text = self.translator.decode(words, sources[job])
                job.request.report(job.number, Partial(sentence=job.number, text=text))

        return watch


def search_aligned(
    translator: Translator, sources: Sequence[Source], nbest: Sequence[int], on_step: OnStep
) -> list[list[tuple[inference.Translation, Alignment]]]:
    """The best translations of each source, as many as ``nbest`` says for it, with their alignments."""
    found = translator.search(sources, nbest=max(nbest), on_step=on_step)
    chosen = [translations[:number] for translations, number in zip(found, nbest)]
    pairs = [(source, best.words) for source, translations in zip(sources, chosen) for best in translations]
    alignments = iter(translator.align_words(pairs))
    return [[(translation, next(alignments)) for translation in translations] for translations in chosen]


def check_wanted(jobs: Iterable[Job]) -> None:
    """Raise Abandoned if nobody waits for any of the jobs."""
    if all(job.request.abandoned for job in jobs):
        raise Abandoned


def _describe(results: Sequence[tuple[inference.Translation, Alignment]]) -> Translated:
    _, first = results[0]
    return Translated(
        source=_words(first.source, first.source_unknown, repeat(None)),
        phrases=first.phrases,
        translations=[
            Translation(
                text=translation.text,
                score=translation.score,
                logprob=alignment.logprobs.sum().item(),
                words=_words([*translation.words, "</s>"], alignment.target_unknown, alignment.logprobs.tolist()),
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
