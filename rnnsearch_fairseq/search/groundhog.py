"""The beam search of the original code (GroundHog), batched over sentences."""

import logging
import math
from dataclasses import replace

from rnnsearch_fairseq.modules.symbols import EOS
from rnnsearch_fairseq.search.options import SearchOptions
from rnnsearch_fairseq.search.steps import Batch, Beam, BeamSearch, Candidate, Hypothesis

logger = logging.getLogger(__name__)

MAX_LENGTH_RATIO = 3
MAX_BEAM_TO_DOUBLE = 500


class GroundhogBeam(Beam):
    """Each finished hypothesis shrinks the beam by one. The search ends when the beam is empty."""

    def __init__(self, options: SearchOptions, length: int) -> None:
        super().__init__(options, length, MAX_LENGTH_RATIO * length)

    def end_term(self, step: int) -> float:
        """End-of-sentence is impossible in the first floor(length / 2) steps."""
        return -math.inf if step < self.length // 2 else 0.0

    def advance(self, candidates: list[Candidate], step: int) -> list[Candidate]:
        unfinished = []
        for candidate in candidates[: self.width]:
            *_, word = candidate
            if word == EOS:
                self.finish(step, candidate)
                self.width -= 1
            else:
                unfinished.append(candidate)
        return [] if step + 1 >= self.limit else unfinished


class GroundhogSearch(BeamSearch):
    """Beam search as in the code behind the first paper's Table 1.

    A sentence without a finished hypothesis after 3 · length steps is searched again. If an ``unkpen`` of infinity
    banned unknown words (the probabilities are not renormalised), the second search allows them. Every further search
    doubles the beam, until it has 500 hypotheses or more. If the last search finishes none, the translation is empty.

    Hypotheses are ranked by the mean log-probability of their words or, if ``unnormalized``, by the total.
    """

    def search_sentences(self, batch: Batch) -> list[list[Hypothesis]]:
        options = self.options
        results: list[list[Hypothesis]] = [[] for _ in batch.lengths]
        pending = list(range(len(results)))
        while pending:
            # With a doubled beam, half as many sentences at once need as much memory.
            at_once = max(1, len(results) * self.options.beam // options.beam)
            for begin in range(0, len(pending), at_once):
                places = pending[begin : begin + at_once]
                for place, hypotheses in zip(places, self.run(batch.select(places), options)):
                    results[place] = hypotheses
            pending = [place for place in pending if not results[place]]
            failed = len(pending)
            if options.unkpen == math.inf:
                options, change = replace(options, unkpen=0.0), "unknown words are now allowed"
            elif options.beam < MAX_BEAM_TO_DOUBLE:
                options = replace(options, beam=2 * options.beam)
                change = f"the beam is doubled to {options.beam}"
            else:
                pending, change = [], "the translation is empty"
            if failed:
                logger.warning(f"{failed} of {len(results)} sentences have no finished hypothesis: {change}")
        return results
