"""The beam search of fairseq's ``SequenceGenerator`` with its default strategy."""

import math

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.modules.symbols import EOS
from rnnsearch_fairseq.search.interface import Hypothesis
from rnnsearch_fairseq.search.steps import Batch, Beam, BeamSearch, Candidate


class FairseqBeam(Beam):
    """A candidate that ends counts if it is among the best ``beam``; the search is over when as many have ended."""

    candidates_per_row = 2  # half of them may be end-of-sentence

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
    """The first ``beam`` hypotheses that end.

    The limit of the length counts the sentence's own words. fairseq counts the columns of its batch, so that there a
    translation depends on its neighbours.
    """

    def search_sentences(self, batch: Batch) -> list[list[Hypothesis]]:
        limits = [int(self.options.max_len_a * length + self.options.max_len_b) for length in batch.lengths]
        if self.options.min_len > min(limits):
            raise InputError(
                f"--min-len is {self.options.min_len}, but no translation may be longer than {min(limits)} words: give "
                "a lower one, or a higher --max-len-b"
            )
        beams = [FairseqBeam(self.options, length, limit + 1) for length, limit in zip(batch.lengths, limits)]
        return self.run(batch, beams)
