"""The beam search of fairseq's ``SequenceGenerator`` with its default strategy."""

import math

from rnnsearch_fairseq.modules.symbols import EOS
from rnnsearch_fairseq.search.options import SearchOptions
from rnnsearch_fairseq.search.steps import Beam, Candidate


class FairseqBeam(Beam):
    """A candidate that ends in end-of-sentence is finished if it is among the ``beam`` best candidates. The search is
    over when ``beam`` candidates are finished.

    The limit of the length counts the sentence's own words. fairseq counts the columns of its batch, so that there a
    translation depends on its neighbours.
    """

    candidates_per_row = 2  # half of them may be end-of-sentence

    def __init__(self, options: SearchOptions, length: int) -> None:
        super().__init__(options, length, 1 + int(options.max_len_a * length + options.max_len_b))

    def end_term(self, step: int) -> float:
        """End-of-sentence is impossible below the least length, but for the last word of the longest translation."""
        return -math.inf if step < self.options.min_len and not self.must_end(step) else 0.0

    def must_end(self, step: int) -> bool:
        """The last word of the longest translation is end-of-sentence."""
        return step + 1 == self.limit

    def advance(self, candidates: list[Candidate], step: int) -> list[Candidate]:
        unfinished: list[Candidate] = []
        for place, candidate in enumerate(candidates):
            *_, word = candidate
            if word != EOS:
                unfinished.append(candidate)
            elif place < self.width and len(self.finished) < self.width:
                self.finish(step, candidate)
            if len(unfinished) == self.width:
                break
        over = len(self.finished) == self.width or step + 1 == self.limit
        return [] if over else unfinished
