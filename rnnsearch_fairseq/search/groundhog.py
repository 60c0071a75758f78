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
      unfinished then are dropped;
    - nothing finished: if unknown words were banned (an ``unk_penalty`` of infinity, which renormalises nothing), they
      are allowed; then the beam is doubled, again and again while it is below 500. If even that finishes nothing, the
      translation is empty, with the score minus infinity, and a warning names the sentence.

    Hypotheses are ranked by their total log-probability or, with ``normalize_scores``, by the mean over their words.

    Args:
        min_len_a: the share of the source's length for which end-of-sentence is forbidden.
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
            # A doubled beam must not need more memory than the batch was given for.
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
                logger.warning("nothing finished without unknown words, now allowed: sentences %s", unfinished)
                unk_penalty = 0.0
            elif beam < WIDEST_BEAM_TO_DOUBLE:
                beam *= 2
                logger.warning("nothing finished: the beam is doubled to %d: sentences %s", beam, unfinished)
            else:
                logger.warning("nothing finished, the translation is empty: sentences %s", unfinished)
                break
        return [sorted(hypotheses, key=lambda h: -h["score"].item()) for hypotheses in found]

    def _search(
        self, encoder_outs: list[Any], lengths: Tensor, beam: int, unk_penalty: float, start: int, names: Tensor
    ) -> list[list[Hypothesis]]:
        """One search of all sentences: finished hypotheses of each, in the order in which they ended.

        The live hypotheses of all sentences are the rows of one batch, those of a sentence together. Hypotheses end and
        the beam shrinks, so rows disappear; nothing is computed for an empty place in a beam.
        """
        minimum, limit = (lengths * self.min_len_a).floor(), lengths * MAX_LENGTH_RATIO
        room = torch.full_like(lengths, beam)  # the beam of each sentence
        rows = Rows.begin(self.model, encoder_outs, lengths, start)
        found: list[list[Hypothesis]] = [[] for _ in lengths]
        while len(rows.tokens) > 0:
            step = rows.tokens.size(1) - 1
            log_probs = self.restrict(rows.predict(self.temperature), unk_penalty)
            log_probs[step < minimum[rows.sentence], self.eos] = -math.inf
            parent, words = best_continuations(rows.scores.sum(dim=1), log_probs, rows.sentence, room)
            rows.extend(parent, words, log_probs)

            ended = words.eq(self.eos)
            if ended.any():
                owners = rows.sentence[ended]
                for owner, hypothesis in zip(owners.tolist(), self._finish(rows, ended)):
                    found[owner].append(hypothesis)
                room.index_add_(0, owners, torch.full_like(owners, -1))
            rows.keep(~ended & (step + 1 < limit[rows.sentence]))
            self.report(rows, names)
        return found

    def _finish(self, rows: Rows, ended: Tensor) -> list[Hypothesis]:
        """Finished hypotheses, as in `RowSearch.hypotheses`, with the score by which they are ranked."""
        scores = rows.scores[ended]
        total = scores.sum(dim=1)
        ranked_by = total / scores.size(1) ** self.len_penalty if self.normalize_scores else total
        return self.hypotheses(rows, ended, ranked_by)


def best_continuations(totals: Tensor, log_probs: Tensor, sentence: Tensor, room: Tensor) -> tuple[Tensor, Tensor]:
    """The ``room[s]`` likeliest of all continuations of each sentence s, those of a sentence together.

    Args:
        totals, log_probs, sentence: see `Continuations.of`.
        room: how many each sentence may have, ``(sentences,)``.

    Returns:
        The row that each continues, and its next word, ``(chosen,)``. What is impossible is not chosen.
    """
    width = int(room.max())
    best, parents, words = Continuations.of(totals, log_probs, sentence, len(room), width).best(width)
    chosen = (torch.arange(width, device=room.device) < room.unsqueeze(1)) & best.gt(-math.inf)
    return parents[chosen], words[chosen]
