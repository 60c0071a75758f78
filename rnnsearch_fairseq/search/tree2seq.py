"""The beam search of the original tree-to-sequence code (Eriguchi et al., 2016)."""

from rnnsearch_fairseq.modules.symbols import EOS
from rnnsearch_fairseq.search.length_statistics import LengthStatistics
from rnnsearch_fairseq.search.options import SearchOptions
from rnnsearch_fairseq.search.steps import Beam, Candidate, Finished


class Tree2SeqBeam(Beam):
    """Finished hypotheses keep their places and compete; the search is over when the best is finished.

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
        # Of equal scores, continuations come first.
        competing: list[tuple[float, Candidate | Finished]] = [(entry[0], entry) for entry in candidates[: self.width]]
        competing += [(entry.score, entry) for entry in self.finished]
        best = [entry for _, entry in sorted(competing, key=lambda pair: -pair[0])[: self.width]]
        over = not best or step + 1 >= self.limit or _has_ended(best[0])
        self.finished = [self._finished(entry, step) for entry in best if over or _has_ended(entry)]
        return [] if over else [entry for entry in best if not _has_ended(entry)]

    def _finished(self, entry: Candidate | Finished, step: int) -> Finished:
        if isinstance(entry, Finished):
            return entry
        # The score includes the length's term; the word's log-probability does not.
        total, parent, word = entry
        term = self.end_term(step) if word == EOS else 0.0
        return Finished(total, step, (total - term, parent, word))


def _has_ended(entry: Candidate | Finished) -> bool:
    return isinstance(entry, Finished) or entry[2] == EOS
