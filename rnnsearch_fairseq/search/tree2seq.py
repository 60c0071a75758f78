"""The beam search of the original tree-to-sequence code (Eriguchi et al., 2016)."""

from rnnsearch_fairseq.modules.symbols import EOS
from rnnsearch_fairseq.search.length_statistics import LengthStatistics
from rnnsearch_fairseq.search.options import SearchOptions
from rnnsearch_fairseq.search.steps import Beam, Candidate, Finished


class Tree2SeqBeam(Beam):
    """Finished hypotheses keep their places in the beam, and compete with the others. The search is over when the best
    hypothesis is finished.

    The score of a translation y of x is log p(len(y) | len(x)) + sum_j log p(y_j | ...), without normalisation. The sum
    includes end-of-sentence, the lengths do not. The first term exists only with ``length_statistics``, and is added
    when end-of-sentence is chosen. In the end, ``finished`` holds the last beam. Only its first hypothesis is certainly
    finished, and even that one may not be if the search stopped after ``max_len_a · length + max_len_b`` steps.
    """

    def __init__(self, options: SearchOptions, length: int, statistics: LengthStatistics | None = None) -> None:
        super().__init__(options, length, int(length * options.max_len_a) + options.max_len_b)
        self.statistics = statistics

    def end_term(self, step: int) -> float:
        """log p(target length | source length) of a translation that ends now."""
        return 0.0 if self.statistics is None else self.statistics.log_prob(self.length - 1, step)

    def advance(self, candidates: list[Candidate], step: int) -> list[Candidate]:
        competing = [self._finished(candidate, step) for candidate in candidates[: self.width]] + self.finished
        best = sorted(competing, key=lambda one: -one.score)[: self.width]  # of equal scores, continuations come first
        over = not best or step + 1 >= self.limit or best[0].last[2] == EOS
        self.finished = [one for one in best if over or one.last[2] == EOS]
        return [] if over else [one.last for one in best if one.last[2] != EOS]

    def _finished(self, candidate: Candidate, step: int) -> Finished:
        # The score includes the length's term; the word's log-probability does not.
        total, parent, word = candidate
        term = self.end_term(step) if word == EOS else 0.0
        return Finished(total, step, (total - term, parent, word))
