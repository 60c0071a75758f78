"""The work of the thread: read, parse and translate the sentences of a batch."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference.translator import Source, Text, Translator
from rnnsearch_fairseq.search import OnStep
from rnnsearch_fairseq.serve.link_grammar import LinkParser
from rnnsearch_fairseq.serve.messages import Partial, Problem, Translated
from rnnsearch_fairseq.serve.scheduler import Abandoned, Job
from rnnsearch_fairseq.text.markup import unmask
from rnnsearch_fairseq.text.trees import Parse, read_penn
from rnnsearch_fairseq.text.words import END

SECONDS_BETWEEN_PARTIALS = 0.05
MAX_CHARACTERS = 10_000  # of a text; others wait for it
MAX_WORDS = 100  # of a sentence that is parsed


@dataclass
class Worker:
    """Translates batches of sentences; ``parser`` parses the sentences that come without a tree."""

    translator: Translator
    parser: LinkParser | None = None

    def __call__(self, jobs: Sequence[Job]) -> None:
        """Report the translations of each job, or an error."""
        sources: dict[Job, Text] = {}
        for job in jobs:
            if job.request.abandoned:
                continue
            try:
                sources[job] = self._read(job)
            except InputError as error:
                job.request.report(job.number, Problem(error=str(error)))
        if sources:
            texts, nbest, watch = [*sources.values()], max(job.nbest for job in sources), self._watcher(sources)
            translations = self.translator.search(texts, nbest=nbest, on_step=watch)
            for (job, text), pairs in zip(sources.items(), translations):
                shown = [replace(pair, target=_show(pair.target, text)) for pair in pairs[: job.nbest]]
                about = {name: getattr(pairs[0], name) for name in ("source_unknown", "phrases")}
                about |= {"source": _show(pairs[0].source, text), "translations": shown}
                job.request.report(job.number, Translated(**about))

    def _read(self, job: Job) -> Text:
        if len(job.sentence) > MAX_CHARACTERS:
            most = f"and at most {MAX_CHARACTERS:,} are translated at a time"
            raise InputError(f"the text has {len(job.sentence):,} characters, {most}; split it")
        text = self.translator.read_text(job.sentence, job.tree, "the text")
        if job.tree or len(text.sources) > 1:  # the pieces of a text have no tree in common
            return text
        return text._replace(sources=[*map(self._parse, text.sources)])

    def _parse(self, source: Source) -> Source:
        """Add the parse of a source, if there is a parser and it finds a parse."""
        if self.parser is not None and len(source.words) <= MAX_WORDS:
            brackets = self.parser.parse(source.words)
            parse = read_penn(brackets) if isinstance(brackets, str) else None
            if isinstance(parse, Parse) and len(parse.words) == len(source.words):
                return source._replace(tree=parse.tree)
        return source

    def _watcher(self, sources: dict[Job, Text]) -> OnStep:
        """A function that shows unfinished translations, and ends the search if nobody waits for any."""
        jobs, shown = list(sources), time.monotonic()

        def watch(best: dict[int, list[int]]) -> None:
            nonlocal shown
            if all(job.request.abandoned for job in jobs):
                raise Abandoned
            if time.monotonic() - shown < SECONDS_BETWEEN_PARTIALS:
                return
            shown = time.monotonic()
            for number, ids in best.items():
                job, words = jobs[number], self.translator.target_vocabulary.words(ids)
                text = self.translator.decode(words, sources[job].sources[0])
                job.request.report(job.number, Partial(sentence=job.number, text=text))

        return watch


def _show(words: Sequence[str], text: Text) -> list[str]:
    """Put markup and signs back in the place of the symbols that stand for them among the model's words."""
    shown, number = [], 0
    for word in words:
        piece = text.sources[number].piece if number < len(text.sources) else None
        shown.append(word if piece is None else text.passage.describe(unmask(word, piece.spans)))
        number += word == END
    return shown
