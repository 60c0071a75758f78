"""fairseq's beam search for RNNsearch and RNNencdec: the same hypotheses, with less work a step."""

import math
from typing import Any, NamedTuple

import torch
from fairseq import search
from torch import Tensor

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.modules.attention import Memory
from rnnsearch_fairseq.modules.fused.loss import ROWS
from rnnsearch_fairseq.modules.fused.search_step import GROUP, Carried
from rnnsearch_fairseq.search.rows import Hypothesis, RowSearch


class Extension(NamedTuple):
    """One step of the search: the rows that it read, and those that went on.

    ``attention`` is ``(rows before, src_len)`` or None; of each row that went on, ``parents`` is the one that it
    continues, ``words`` its new word and ``totals`` its log-probability, ``(rows after,)``.
    """

    attention: Tensor | None
    parents: Tensor
    words: Tensor
    totals: Tensor


class Ending(NamedTuple):
    """Hypotheses that a step finished, ``(ended,)`` each: the step, the sentence, the row and the log-probability."""

    steps: Tensor
    sentences: Tensor
    parents: Tensor
    totals: Tensor


class FastBeamSearch(RowSearch):
    """The beam search of fairseq's ``SequenceGenerator`` with its default strategy, for one model of this package.

    Where fairseq goes through all scores of a step about ten times, this does three times: for the product that makes
    them, for their sum, and for the greatest of each group of words, among which the best are then looked for. What
    leads back from a finished hypothesis is traced once a batch. What this does not do is left to fairseq: prefixes,
    constraints and other strategies.
    """

    def _generate(
        self,
        sample: dict[str, Any],
        prefix_tokens: Tensor | None = None,
        constraints: Tensor | None = None,
        bos_token: int | None = None,
    ) -> list[list[Hypothesis]]:
        if prefix_tokens is None and constraints is None and type(self.search) is search.BeamSearch:
            return super()._generate(sample, bos_token=bos_token)
        found = super(RowSearch, self)._generate(sample, prefix_tokens, constraints, bos_token)
        for hypotheses, source in zip(found, sample["net_input"]["src_tokens"]):
            self.align(hypotheses, source)
        return found

    def search_batch(self, sample: dict[str, Any], start: int) -> list[list[Hypothesis]]:
        """The ``beam_size`` hypotheses that end first of each sentence, best first.

        Raises:
            InputError: if the least length is above the greatest, or the model's scores are not numbers.
        """
        source = sample["net_input"]["src_tokens"]
        limit = min(int(self.max_len_a * source.size(1) + self.max_len_b), self.max_len - 1)
        if self.min_len > limit:
            raise InputError(f"--min-len is {self.min_len}, but no translation may be longer than {limit} words")
        (encoded,) = self.model.forward_encoder(sample["net_input"])
        decoder = self.model.single_model.decoder
        self.step, memory, state = decoder.prepare_search(encoded)
        carried, words = Carried(state), torch.full_like(source[:, 0], start)
        totals = state.new_zeros(len(source), dtype=torch.promote_types(state.dtype, torch.float32))
        live, room = torch.arange(len(source), device=source.device), torch.full_like(source[:, 0], self.beam_size)
        history: list[Extension] = []
        endings: list[Ending] = []
        for number in range(limit + 1):
            scores, attention, carried = self.step(words, carried, memory)
            best, parents, words = self.continuations(scores.to(totals.dtype), totals, len(live), number, limit)
            ended = words.eq(self.eos) & best.gt(-math.inf)
            # As in fairseq: only among the first of twice as many candidates does a hypothesis end.
            taken = ended & (torch.arange(words.size(1), device=words.device) < self.beam_size)
            taken &= taken.cumsum(dim=1) <= room[live].unsqueeze(1)
            room[live] -= taken.sum(dim=1)
            owners = live.unsqueeze(1).expand_as(taken)[taken]
            endings.append(Ending(torch.full_like(owners, number), owners, parents[taken], best[taken]))
            stays = room[live] > 0
            if number == limit or not stays.any():
                history.append(Extension(attention, owners[:0], owners[:0], best[taken][:0]))
                break
            parents, words, totals = unfinished(ended, stays, self.beam_size, parents, words, best)
            history.append(Extension(attention, parents, words, totals))
            carried = carried.select(parents)
            if not stays.all():
                live, memory = live[stays], select_sentences(memory, stays)
            if self.on_step is not None:
                named = (sample["id"][live] if "id" in sample else live).tolist()
                self.on_step(dict(zip(named, best_so_far(history, len(live)))))
        return self.finished(history, Ending(*(torch.cat(parts) for parts in zip(*endings))), len(source))

    def continuations(
        self, scores: Tensor, totals: Tensor, sentences: int, number: int, limit: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The likeliest continuations of each sentence, twice as many as the beam has places, best first.

        Args:
            scores: unnormalised log-probabilities of the next words, ``(rows, whole groups of words)``; changed.
            totals: log-probabilities of the hypotheses, ``(rows,)``.
            number: of the step, from 0; ``limit``: of the last, in which every hypothesis ends.

        Returns:
            Log-probabilities, rows and words, ``(sentences, candidates)``.
        """
        if self.temperature != 1:
            scores /= self.temperature
        groups = scores.unflatten(1, (-1, GROUP))
        greatest = groups.amax(dim=2)
        before = totals - log_sum_exp(scores, greatest.amax(dim=1, keepdim=True))
        if number == limit:
            best, rows = (scores[:, self.eos] + before).view(sentences, -1).sort(dim=1, descending=True)
            rows += torch.arange(sentences, device=rows.device).unsqueeze(1) * rows.size(1)
            return best, rows, torch.full_like(rows, self.eos)
        scores[:, self.pad] = -math.inf
        scores[:, self.unk] -= self.unk_penalty
        if number < self.min_len:
            scores[:, self.eos] = -math.inf
        greatest[:, 0] = groups[:, 0].amax(dim=1)  # fairseq's symbols stand in the first
        return best_in_groups(groups, greatest + before.unsqueeze(1), before, sentences, 2 * self.beam_size)

    def finished(self, history: list[Extension], endings: Ending, sentences: int) -> list[list[Hypothesis]]:
        """Finished hypotheses of each sentence, as fairseq has them, best first."""
        totals = endings.totals
        ranked_by = totals / (endings.steps + 1) ** self.len_penalty if self.normalize_scores else totals
        # The longest first: those that a step belongs to are then the first ones.
        order = torch.argsort(endings.steps, descending=True, stable=True)
        tokens, scores, attention = trace_back(history, Ending(*(part[order] for part in endings)), self.eos)
        found: list[list[Hypothesis]] = [[] for _ in range(sentences)]
        lengths = (endings.steps[order] + 1).tolist()
        aligned = [None] * len(lengths) if attention is None else attention.mT.unbind()
        owners = endings.sentences[order].tolist()
        for owner, length, *parts in zip(owners, lengths, ranked_by[order].unbind(), tokens, scores, aligned):
            score, words, of_words, weights = parts
            found[owner].append(
                {
                    "tokens": words[:length],
                    "score": score,
                    "attention": totals.new_empty(0) if weights is None else weights[:, :length],
                    "alignment": torch.empty(0),
                    "positional_scores": of_words[:length],
                }
            )
        return [sorted(hypotheses, key=lambda h: -h["score"].item()) for hypotheses in found]


def log_sum_exp(scores: Tensor, greatest: Tensor) -> Tensor:
    """Of each row, ``(rows,)``, given its greatest, ``(rows, 1)``.

    Some rows at a time, so that what lies between stays in a processor's cache.
    """
    parts = zip(scores.split(ROWS), greatest.split(ROWS))
    return torch.cat([(part - most).exp_().sum(dim=1) for part, most in parts]).log_().add_(greatest.squeeze(1))


def best_in_groups(
    groups: Tensor, greatest: Tensor, before: Tensor, sentences: int, count: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The best ``count`` of ``before + scores`` of each sentence; see `FastBeamSearch.continuations`.

    They are in the ``count`` groups whose greatest are the best: no more than these are searched.

    Args:
        groups: the scores, ``(rows, groups, GROUP)``.
        greatest: of each group, with ``before``, ``(rows, groups)``.

    Raises:
        InputError: if the best are not numbers.
    """
    greatest = greatest.view(sentences, -1)
    chosen = greatest.topk(min(count, greatest.size(1)), dim=1, sorted=False).indices
    of_sentence = torch.arange(0, len(groups), len(groups) // sentences, device=groups.device).unsqueeze(1)
    rows, group = of_sentence + chosen // groups.size(1), chosen % groups.size(1)
    candidates = groups[rows, group] + before[rows].unsqueeze(2)  # (sentences, count, GROUP)
    best, places = candidates.flatten(1).topk(count, dim=1)
    if best.isnan().any():
        raise InputError("the model's scores are not numbers: it has been trained to nothing; give another checkpoint")
    which = places // GROUP
    return best, rows.gather(1, which), group.gather(1, which) * GROUP + places % GROUP


def unfinished(ended: Tensor, stays: Tensor, beam: int, *candidates: Tensor) -> list[Tensor]:
    """Of each sentence that stays, the first ``beam`` candidates that have not ended: of each tensor, ``(rows,)``."""
    places = torch.arange(ended.size(1), device=ended.device) + ended * ended.size(1)
    first = places.topk(beam, dim=1, largest=False).indices
    chosen = [tensor.gather(1, first) for tensor in candidates]
    return [(tensor if stays.all() else tensor[stays]).flatten() for tensor in chosen]


def select_sentences(memory: Memory, stays: Tensor) -> Memory:
    """``stays`` ``(sentences,)`` is a mask."""
    return Memory(*(None if tensor is None else tensor[stays] for tensor in memory))


def best_so_far(history: list[Extension], sentences: int) -> Tensor:
    """The words of the likeliest unfinished hypothesis of each sentence, ``(sentences, steps)``."""
    count = len(history[-1].words)
    rows, words = torch.arange(0, count, count // sentences, device=history[-1].words.device), []
    for step in reversed(history):
        words.append(step.words[rows])
        rows = step.parents[rows]
    return torch.stack(words[::-1], dim=1)


def trace_back(history: list[Extension], endings: Ending, eos: int) -> tuple[Tensor, Tensor, Tensor | None]:
    """From each ending to the first word.

    Args:
        endings: in falling order of their steps.

    Returns:
        Words ``(ended, steps)``, log-probability of each, and attention ``(ended, steps, src_len)`` or None; what lies
        behind an ending has no meaning.
    """
    shape = (len(endings.steps), len(history))
    tokens, totals = endings.steps.new_empty(shape), endings.totals.new_zeros(shape[0], shape[1] + 1)
    attention = None
    if history[0].attention is not None:
        attention = history[0].attention.new_empty(*shape, history[0].attention.size(1))
    rows, steps = endings.parents.clone(), endings.steps.tolist()
    going_on = there = 0
    for number in reversed(range(len(history))):
        step = history[number]
        while there < len(steps) and steps[there] == number:
            there += 1
        before = rows[:going_on]
        tokens[:going_on, number], tokens[going_on:there, number] = step.words[before], eos
        totals[:going_on, number + 1] = step.totals[before]
        totals[going_on:there, number + 1] = endings.totals[going_on:there]
        rows[:going_on] = step.parents[before]
        if attention is not None:
            attention[:there, number] = step.attention[rows[:there]]
        going_on = there
    return tokens, totals.diff(dim=1), attention
