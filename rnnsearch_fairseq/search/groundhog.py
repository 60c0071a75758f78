"""The beam search of the original code (GroundHog), for any fairseq model, batched over sentences."""

import logging
import math
from typing import Any, NamedTuple

import torch
from fairseq import utils
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor

from rnnsearch_fairseq.errors import InputError

logger = logging.getLogger(__name__)

MAX_LENGTH_RATIO = 3
WIDEST_BEAM_TO_DOUBLE = 500
HALF_THE_SOURCE = 0.5

Hypothesis = dict[str, Any]


class Step(NamedTuple):
    """One step of the live hypotheses, for tracing a finished one back.

    ``attention`` is ``(live, src_len)`` or None; ``parent`` ``(live,)`` is the row of each one step earlier.
    """

    attention: Tensor | None
    parent: Tensor


class GroundhogSearch(SequenceGenerator):
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
        print_alignment: "hard" or "soft" to leave what fairseq prints in ``alignment``.
        args, kwargs: as in fairseq's generator; its ``min_len``, ``max_len_a`` and ``max_len_b`` have no effect.
    """

    def __init__(
        self,
        *args: Any,
        min_len_a: float = HALF_THE_SOURCE,
        print_alignment: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.min_len_a = min_len_a
        self.print_alignment = print_alignment

    def _generate(
        self,
        sample: dict[str, Any],
        prefix_tokens: Tensor | None = None,
        constraints: Tensor | None = None,
        bos_token: int | None = None,
    ) -> list[list[Hypothesis]]:
        """All finished hypotheses of each sentence of the batch, best first; at least one a sentence."""
        if prefix_tokens is not None or constraints is not None:
            raise InputError("--search groundhog takes no prefix and no constraints; leave them out, or --search")
        src_tokens = sample["net_input"]["src_tokens"]
        start = self.eos if bos_token is None else bos_token
        encoded = self.model.forward_encoder(sample["net_input"])
        names = sample["id"].tolist() if "id" in sample else range(len(src_tokens))
        found: list[list[Hypothesis]] = [[] for _ in src_tokens]
        beam, unk_penalty = self.beam_size, self.unk_penalty
        while True:
            pending = [sentence for sentence, hypotheses in enumerate(found) if not hypotheses]
            # A doubled beam must not need more memory than the batch was given for.
            at_once = max(1, len(found) * self.beam_size // beam)
            for chosen in torch.tensor(pending, device=src_tokens.device).split(at_once):
                encoder_outs = self.model.reorder_encoder_out(encoded, chosen)
                lengths = src_tokens[chosen].ne(self.pad).sum(dim=1)
                searched = self._search(encoder_outs, lengths, beam, unk_penalty, start)
                for sentence, hypotheses in zip(chosen.tolist(), searched):
                    found[sentence] = hypotheses
            unfinished = [names[sentence] for sentence in pending if not found[sentence]]
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
        return [self._rank(hypotheses, source) for hypotheses, source in zip(found, src_tokens)]

    def _search(
        self, encoder_outs: list[Any], lengths: Tensor, beam: int, unk_penalty: float, start: int
    ) -> list[list[Hypothesis]]:
        """One search of all sentences: finished hypotheses of each, in the order in which they ended.

        The live hypotheses of all sentences are the rows of one batch, those of a sentence together. Hypotheses end and
        the beam shrinks, so rows disappear; nothing is computed for an empty place in a beam.
        """
        minimum, limit = (lengths * self.min_len_a).floor(), lengths * MAX_LENGTH_RATIO
        room = torch.full_like(lengths, beam)  # the beam of each sentence
        sentence = torch.arange(len(lengths), device=lengths.device)  # of each row
        tokens = torch.full((len(lengths), 1), start, device=lengths.device)
        scores = torch.zeros(len(lengths), 0, device=lengths.device)
        history: list[Step] = []
        parent = sentence
        incremental_states: list[dict[str, Any]] = [{} for _ in range(self.model.models_size)]
        found: list[list[Hypothesis]] = [[] for _ in lengths]
        while len(tokens) > 0:
            step = tokens.size(1) - 1
            log_probs, attention = self.model.forward_decoder(
                tokens, encoder_outs, incremental_states, self.temperature
            )
            history.append(Step(attention, parent))
            log_probs = self._restrict(log_probs.float(), unk_penalty, forbid_end=step < minimum[sentence])
            parent, words = best_continuations(scores.sum(dim=1), log_probs, sentence, room)
            sentence = sentence[parent]
            tokens = torch.cat([tokens[parent], words.unsqueeze(1)], dim=1)
            scores = torch.cat([scores[parent], log_probs[parent, words].unsqueeze(1)], dim=1)

            ended = words.eq(self.eos)
            if ended.any():
                for owner, hypothesis in zip(
                    sentence[ended].tolist(), self._finish(tokens[ended], scores[ended], history, parent[ended])
                ):
                    found[owner].append(hypothesis)
                room.index_add_(0, sentence[ended], torch.full_like(sentence[ended], -1))
            live = ~ended & (step + 1 < limit[sentence])
            sentence, tokens, scores, parent = sentence[live], tokens[live], scores[live], parent[live]
            self.model.reorder_incremental_state(incremental_states, parent)
            encoder_outs = self.model.reorder_encoder_out(encoder_outs, parent)
        return found

    def _restrict(self, log_probs: Tensor, unk_penalty: float, forbid_end: Tensor) -> Tensor:
        """Log-probabilities ``(live, K_y)`` without what may not be chosen; ``forbid_end`` is ``(live,)``."""
        log_probs = torch.where(log_probs.isnan(), -math.inf, log_probs)
        log_probs[:, self.pad] = -math.inf
        log_probs[:, self.unk] -= unk_penalty
        log_probs[forbid_end, self.eos] = -math.inf
        return log_probs

    def _finish(self, tokens: Tensor, scores: Tensor, history: list[Step], row: Tensor) -> list[Hypothesis]:
        """Finished hypotheses as fairseq has them.

        Args:
            tokens: with the start symbol, ``(ended, 1 + tgt_len)``.
            scores: of each word, ``(ended, tgt_len)``.
            row: of each in the last step of ``history``, ``(ended,)``.
        """
        weights = []
        for step in reversed(history):
            if step.attention is not None:
                weights.append(step.attention[row])
            row = step.parent[row]
        length = scores.size(1)
        total = scores.sum(dim=1)
        ranked_by = total / length**self.len_penalty if self.normalize_scores else total
        attention = torch.stack(weights[::-1], dim=2) if weights else scores.new_empty(len(scores), 0)
        return [
            {
                "tokens": tokens[i, 1:],
                "score": ranked_by[i],
                "attention": attention[i],  # (src_len, tgt_len)
                "alignment": torch.empty(0),
                "positional_scores": scores[i],
            }
            for i in range(len(scores))
        ]

    def _rank(self, hypotheses: list[Hypothesis], source: Tensor) -> list[Hypothesis]:
        """The hypotheses of one sentence, best first, with their alignments."""
        if not hypotheses:
            failure = torch.tensor([-math.inf])
            hypotheses = [
                {
                    "tokens": torch.tensor([self.eos]),
                    "score": failure[0],
                    "attention": torch.zeros(len(source), 1),
                    "alignment": torch.empty(0),
                    "positional_scores": failure,
                }
            ]
        if self.print_alignment is not None:
            extract = getattr(utils, f"extract_{self.print_alignment}_alignment")
            for hypothesis in hypotheses:
                weights = hypothesis["attention"].T.cpu()
                hypothesis["alignment"] = extract(weights, source.cpu(), hypothesis["tokens"].cpu(), self.pad, self.eos)
        return sorted(hypotheses, key=lambda hypothesis: -hypothesis["score"].item())


def best_continuations(totals: Tensor, log_probs: Tensor, sentence: Tensor, room: Tensor) -> tuple[Tensor, Tensor]:
    """The ``room[s]`` likeliest of all continuations of each sentence s, those of a sentence together.

    Args:
        totals: log-probability of each live hypothesis, ``(live,)``.
        log_probs: of its next word, ``(live, K_y)``.
        sentence: that it translates, ``(live,)``, in rising order.
        room: how many each sentence may have, ``(sentences,)``.

    Returns:
        The row that each continues, and its next word, ``(chosen,)``. What is impossible is not chosen.
    """
    width = int(room.max())
    # The best of a sentence are among the best of each of its hypotheses.
    values, words = log_probs.topk(min(width, log_probs.size(1)), dim=1)
    rows = torch.arange(len(sentence), device=sentence.device)
    first_row = torch.searchsorted(sentence, sentence)
    grid = totals.new_full((len(room), width, values.size(1)), -math.inf)
    grid[sentence, rows - first_row] = totals.unsqueeze(1) + values
    best, flat = grid.flatten(1).topk(width, dim=1)
    chosen = (torch.arange(width, device=room.device) < room.unsqueeze(1)) & best.gt(-math.inf)
    places = flat[chosen]
    begin = torch.searchsorted(sentence, torch.arange(len(room), device=room.device))
    parent = (begin.unsqueeze(1) + flat // values.size(1))[chosen]
    return parent, words[parent, places % values.size(1)]
