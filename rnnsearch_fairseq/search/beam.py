"""The beam search of fairseq's ``SequenceGenerator`` with its default strategy."""

import math

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.modules.symbols import EOS
from rnnsearch_fairseq.search.interface import Hypothesis
from rnnsearch_fairseq.search.steps import Batch, Beam, BeamSearch, Candidate


class FairseqBeam(Beam):
    """A candidate that ends counts if it is among the best ``beam``; the search is over when as many have ended."""

    @property
    def candidates(self) -> int:
        """Twice the beam: half of them may be end-of-sentence."""
        return 2 * self.width

    def end_term(self, step: int) -> float:
        """End-of-sentence is impossible below the least length."""
        return -math.inf if step < self.options.min_len else 0.0

    def must_end(self, step: int) -> bool:
        """The last word of the longest translation is end-of-sentence."""
        return step + 1 == self.limit

    def advance(self, candidates: list[Candidate], step: int) -> list[Candidate]:
        unfinished = []
        for place, candidate in enumerate(candidates):
            if candidate.word != EOS:
                unfinished.append(candidate)
            elif place < self.width and len(self.finished) < self.width:
                self.finish(step, candidate)
        over = len(self.finished) == self.width or step + 1 == self.limit
        return [] if over else unfinished[: self.width]


class FairseqSearch(BeamSearch):
    """The first ``beam`` hypotheses that end. The limit of the length counts the batch's columns, as in fairseq."""

    def search_sentences(self, batch: Batch) -> list[list[Hypothesis]]:
        limit = int(self.options.max_len_a * batch.columns + self.options.max_len_b)
        if self.options.min_len > limit:
            raise InputError(
                f"--min-len is {self.options.min_len}, but no translation may be longer than {limit} words: give a "
                "lower one, or a higher --max-len-b"
            )
        return self.run(batch, [FairseqBeam(self.options, length, limit + 1) for length in batch.lengths])
