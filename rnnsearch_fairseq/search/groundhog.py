"""The beam search of the original code (GroundHog), for any fairseq model, batched over sentences."""

import logging
import math
from typing import Any

import torch
from torch import Tensor

from rnnsearch_fairseq.search.rows import Continuations, Hypothesis, Rows, RowSearch

logger = logging.getLogger(__name__)

MAX_LENGTH_RATIO = 3
WIDEST_BEAM_TO_DOUBLE = 500
HALF_THE_SOURCE = 0.5


class GroundhogSearch(RowSearch):
    """Beam search as in the code behind the paper's Table 1. With len the source's length, end-of-sentence included:

    - end-of-sentence has probability zero in the first floor(len / 2) steps, and there are at most 3 len steps;
    - each finished hypothesis shrinks the beam by one, and the search ends when the beam is empty. Hypotheses that are
      still unfinished are dropped;
    - a sentence without a finished hypothesis is searched again. If unknown words were banned (an ``unk_penalty`` of
      infinity, which does not renormalise the probabilities), they are allowed first. Then the beam is doubled
      repeatedly while it is below 500. If nothing helps, the translation is empty, with the score minus infinity, and a
      warning names the sentence.

    Hypotheses are ranked by their total log-probability or, with ``normalize_scores``, by the mean over their words.

    Args:
        min_len_a: end-of-sentence is forbidden for this share of the source's length.
        args, kwargs: as in `RowSearch`; fairseq's ``min_len``, ``max_len_a`` and ``max_len_b`` have no effect.
    """

    def __init__(self, *args: Any, min_len_a: float = HALF_THE_SOURCE, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.min_len_a = min_len_a

    def search_batch(self, sample: dict[str, Any], start: int) -> list[list[Hypothesis]]:
        """All finished hypotheses of each sentence of the batch, best first."""
        src_tokens = sample["net_input"]["src_tokens"]
        encoded = self.model.forward_encoder(sample["net_input"])
        names = sample.get("id", torch.arange(len(src_tokens))).to(src_tokens.device)
        found: list[list[Hypothesis]] = [[] for _ in src_tokens]
        beam, unk_penalty = self.beam_size, self.unk_penalty
        while True:
            pending = [sentence for sentence, hypotheses in enumerate(found) if not hypotheses]
            # With a doubled beam, fewer sentences at once keep the memory use of the batch.
            at_once = max(1, len(found) * self.beam_size // beam)
            for chosen in torch.tensor(pending, device=src_tokens.device).split(at_once):
                encoder_outs = self.model.reorder_encoder_out(encoded, chosen)
                lengths = src_tokens[chosen].ne(self.pad).sum(dim=1)
                searched = self._search(encoder_outs, lengths, beam, unk_penalty, start, names[chosen])
                for sentence, hypotheses in zip(chosen.tolist(), searched):
                    found[sentence] = hypotheses
            unfinished = [int(names[sentence]) for sentence in pending if not found[sentence]]
            if not unfinished:
                break
            if unk_penalty == math.inf:
                logger.warning("no finished hypothesis, unknown words are now allowed: sentences %s", unfinished)
                unk_penalty = 0.0
            elif beam < WIDEST_BEAM_TO_DOUBLE:
                beam *= 2
                logger.warning("no finished hypothesis, the beam is doubled to %d: sentences %s", beam, unfinished)
            else:
                logger.warning("no finished hypothesis, the translation is empty: sentences %s", unfinished)
                break
        return [sorted(hypotheses, key=lambda h: -h["score"].item()) for hypotheses in found]

    def _search(
        self, encoder_outs: list[Any], lengths: Tensor, beam: int, unk_penalty: float, start: int, names: Tensor
    ) -> list[list[Hypothesis]]:
        """Search all sentences once: the finished hypotheses of each, in the order in which they ended.

        The live hypotheses of all sentences are the rows of one batch, grouped by sentence. Rows disappear when
        hypotheses end and beams shrink, so that nothing is computed for an empty place in a beam.
        """
        minimum, limit = (lengths * self.min_len_a).floor(), lengths * MAX_LENGTH_RATIO
        widths = torch.full_like(lengths, beam)  # the width of each sentence's beam
        rows = Rows.begin(self.model, encoder_outs, lengths, start)
        found: list[list[Hypothesis]] = [[] for _ in lengths]
        while len(rows.tokens) > 0:
            step = rows.tokens.size(1) - 1
            log_probs = self.restrict(rows.predict(self.temperature), unk_penalty)
            log_probs[step < minimum[rows.sentence], self.eos] = -math.inf
            parent, words = best_continuations(rows.scores.sum(dim=1), log_probs, rows.sentence, widths)
            rows.extend(parent, words, log_probs)

            ended = words.eq(self.eos)
            if ended.any():
                owners = rows.sentence[ended]
                for owner, hypothesis in zip(owners.tolist(), self._finish(rows, ended)):
                    found[owner].append(hypothesis)
                widths.index_add_(0, owners, torch.full_like(owners, -1))
            rows.keep(~ended & (step + 1 < limit[rows.sentence]))
            self.report(rows, names)
        return found

    def _finish(self, rows: Rows, ended: Tensor) -> list[Hypothesis]:
        """The hypotheses of the mask ``ended``, as in `RowSearch.hypotheses`, with the score that ranks them."""
        scores = rows.scores[ended]
        total = scores.sum(dim=1)
        ranked_by = total / scores.size(1) ** self.len_penalty if self.normalize_scores else total
        return self.hypotheses(rows, ended, ranked_by)


def best_continuations(totals: Tensor, log_probs: Tensor, sentence: Tensor, widths: Tensor) -> tuple[Tensor, Tensor]:
    """The ``widths[s]`` likeliest continuations of each sentence s, without impossible ones, grouped by sentence.

    Args:
        totals, log_probs, sentence: see `Continuations.of`.
        widths: the beam width of each sentence, ``(sentences,)``.

    Returns:
        The row that each continues, and its next word, ``(chosen,)``.
    """
    width = int(widths.max())
    best, parents, words = Continuations.of(totals, log_probs, sentence, len(widths), width).best(width)
    chosen = (torch.arange(width, device=widths.device) < widths.unsqueeze(1)) & best.gt(-math.inf)
    return parents[chosen], words[chosen]
