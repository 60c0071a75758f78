"""The base of this package's searches: the live hypotheses of all sentences are the rows of one batch."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from fairseq import utils
from fairseq.sequence_generator import EnsembleModel, SequenceGenerator
from torch import Tensor

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.search.progress import OnStep

Hypothesis = dict[str, Any]


class Step(NamedTuple):
    """One step of the live hypotheses, from which finished ones are traced back.

    ``attention`` is ``(live, src_len)`` or None; ``parent`` ``(live,)`` is each hypothesis' row in the step before.
    """

    attention: Tensor | None
    parent: Tensor


class Continuations(NamedTuple):
    """The likeliest continuations of the live hypotheses, by sentence.

    ``totals`` ``(sentences, places)`` are their log-probabilities, minus infinity in empty places; ``parents`` and
    ``words``, of the same shape, are the row that each continues and its next word.
    """

    totals: Tensor
    parents: Tensor
    words: Tensor

    @classmethod
    def of(cls, totals: Tensor, log_probs: Tensor, sentence: Tensor, sentences: int, width: int) -> "Continuations":
        """Candidates that include the best ``width`` continuations of each sentence.

        Args:
            totals: log-probability of each live hypothesis, ``(live,)``.
            log_probs: log-probabilities of its next word, ``(live, K_y)``.
            sentence: the sentence that it translates, ``(live,)``, in rising order.
            sentences: the number of sentences.
            width: at least the number of live hypotheses of any sentence.
        """
        # The best continuations of a sentence are among the best ones of each of its hypotheses.
        values, words = log_probs.topk(min(width, log_probs.size(1)), dim=1)
        rows = torch.arange(len(sentence), device=sentence.device)
        place = (sentence, rows - torch.searchsorted(sentence, sentence))
        shape = (sentences, width, values.size(1))
        by_sentence = cls(values.new_full(shape, -math.inf), rows.new_zeros(shape), rows.new_zeros(shape))
        by_sentence.totals[place] = totals.unsqueeze(1) + values
        by_sentence.parents[place] = rows.unsqueeze(1)
        by_sentence.words[place] = words
        return cls(*(tensor.flatten(1) for tensor in by_sentence))

    def best(self, width: int) -> tuple[Tensor, Tensor, Tensor]:
        """The best ``width`` of each sentence, best first: totals, parents and words ``(sentences, width)``."""
        totals, places = self.totals.topk(width, dim=1)
        return totals, self.parents.gather(1, places), self.words.gather(1, places)


@dataclass
class Rows:
    """The live hypotheses of all sentences as the rows of one batch, grouped by sentence.

    ``sentence`` ``(live,)`` is the sentence that each translates, in rising order. ``tokens`` ``(live, 1 + tgt_len)``
    begin with the start symbol; ``scores`` ``(live, tgt_len)`` are the log-probabilities of the words. ``parent``
    ``(live,)`` is each hypothesis' row in the step before, and ``history`` are the earlier steps.
    """

    model: EnsembleModel
    encoder_outs: list[Any]
    sentence: Tensor
    tokens: Tensor
    scores: Tensor
    parent: Tensor
    history: list[Step]
    incremental_states: list[dict[str, Any]]

    @classmethod
    def begin(cls, model: EnsembleModel, encoder_outs: list[Any], lengths: Tensor, start: int) -> "Rows":
        """One empty hypothesis for each sentence; ``lengths`` ``(sentences,)`` are the source lengths."""
        sentence = torch.arange(len(lengths), device=lengths.device)
        tokens = torch.full((len(lengths), 1), start, device=lengths.device)
        scores = torch.zeros(len(lengths), 0, device=lengths.device)
        states: list[dict[str, Any]] = [{} for _ in range(model.models_size)]
        return cls(model, encoder_outs, sentence, tokens, scores, sentence, [], states)

    def predict(self, temperature: float) -> Tensor:
        """The log-probabilities of each next word, ``(live, K_y)``."""
        log_probs, attention = self.model.forward_decoder(
            self.tokens, self.encoder_outs, self.incremental_states, temperature
        )
        self.history.append(Step(attention, self.parent))
        return log_probs

    def extend(self, parent: Tensor, words: Tensor, log_probs: Tensor) -> None:
        """Continue the rows ``parent`` by ``words``, ``(chosen,)`` each; ``log_probs`` are from :meth:`predict`."""
        self.sentence, self.parent = self.sentence[parent], parent
        self.tokens = torch.cat([self.tokens[parent], words.unsqueeze(1)], dim=1)
        self.scores = torch.cat([self.scores[parent], log_probs[parent, words].unsqueeze(1)], dim=1)

    def keep(self, live: Tensor) -> None:
        """Keep the rows of the mask ``live`` ``(chosen,)``. Must follow each :meth:`extend`."""
        self.sentence, self.parent = self.sentence[live], self.parent[live]
        self.tokens, self.scores = self.tokens[live], self.scores[live]
        self.model.reorder_incremental_state(self.incremental_states, self.parent)
        self.encoder_outs = self.model.reorder_encoder_out(self.encoder_outs, self.parent)


class RowSearch(SequenceGenerator):
    """A search with one row for each live hypothesis, and no row for empty places in a beam.

    Args:
        print_alignment: "hard" or "soft" to set each hypothesis' ``alignment``, which fairseq prints.
        args, kwargs: as in fairseq's generator.
    """

    def __init__(self, *args: Any, print_alignment: str | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.print_alignment = print_alignment
        self.on_step: OnStep | None = None

    def search_batch(self, sample: dict[str, Any], start: int) -> list[list[Hypothesis]]:
        """The hypotheses of each sentence of the batch, best first; none where the search fails.

        Args:
            start: the symbol before the first word.
        """
        raise NotImplementedError

    def _generate(
        self,
        sample: dict[str, Any],
        prefix_tokens: Tensor | None = None,
        constraints: Tensor | None = None,
        bos_token: int | None = None,
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each sentence, best first, with alignments; an empty one if the search fails.

        Raises:
            InputError: if a prefix or constraints are given.
        """
        if prefix_tokens is not None or constraints is not None:
            raise InputError("this --search takes no prefix and no constraints; leave them out, or --search")
        found = self.search_batch(sample, self.eos if bos_token is None else bos_token)
        for number, source in enumerate(sample["net_input"]["src_tokens"]):
            found[number] = found[number] or [self.failure(source)]
            self.align(found[number], source)
        return found

    def report(self, rows: Rows, names: Tensor) -> None:
        """Report the best unfinished hypotheses to ``on_step``; ``names`` ``(sentences,)`` are the sample's ids."""
        if self.on_step is not None:
            likeliest_last = rows.scores.sum(dim=1).argsort()
            named = names[rows.sentence[likeliest_last]].tolist()
            self.on_step(dict(zip(named, rows.tokens[likeliest_last, 1:])))

    def restrict(self, log_probs: Tensor, unk_penalty: float) -> Tensor:
        """``log_probs`` ``(live, K_y)`` in float32 at least, with the penalty for unknown words.

        Padding, and words whose score is not a number, get minus infinity.
        """
        log_probs = log_probs.to(torch.promote_types(log_probs.dtype, torch.float32))
        log_probs = torch.where(log_probs.isnan(), -math.inf, log_probs)
        log_probs[:, self.pad] = -math.inf
        log_probs[:, self.unk] -= unk_penalty
        return log_probs

    def hypotheses(self, rows: Rows, ended: Tensor, ranked_by: Tensor) -> list[Hypothesis]:
        """Finished hypotheses in fairseq's form, on the host, where all of them come at once.

        Args:
            ended: the mask of the rows that are finished, ``(live,)``.
            ranked_by: the score of each of these, ``(ended,)``.
        """
        tokens, scores, row = rows.tokens[ended], rows.scores[ended], rows.parent[ended]
        weights = []
        for step in reversed(rows.history):
            if step.attention is not None:
                weights.append(step.attention[row])
            row = step.parent[row]
        attention = torch.stack(weights[::-1], dim=2) if weights else scores.new_empty(len(scores), 0)
        tokens, scores, attention, ranked_by = (tensor.cpu() for tensor in (tokens, scores, attention, ranked_by))
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

    def failure(self, source: Tensor) -> Hypothesis:
        """An empty translation with the score minus infinity."""
        return {
            "tokens": torch.tensor([self.eos]),
            "score": torch.tensor(-math.inf),
            "attention": torch.zeros(len(source), 1),
            "alignment": torch.empty(0),
            "positional_scores": torch.tensor([-math.inf]),
        }

    def align(self, hypotheses: list[Hypothesis], source: Tensor) -> None:
        """Set the ``alignment`` of the hypotheses of ``source`` ``(src_len,)`` for ``--print-alignment``."""
        if self.print_alignment is None:
            return
        extract = getattr(utils, f"extract_{self.print_alignment}_alignment")
        for hypothesis in hypotheses:
            weights = hypothesis["attention"].T.cpu()
            hypothesis["alignment"] = extract(weights, source.cpu(), hypothesis["tokens"].cpu(), self.pad, self.eos)
