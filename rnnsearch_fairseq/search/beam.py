"""A faster beam search for RNNsearch and RNNencdec that finds the same hypotheses as fairseq's."""

import math
from typing import Any, NamedTuple

import torch
from fairseq import search
from torch import Tensor

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.modules.attention import Memory
from rnnsearch_fairseq.modules.fused.kernels import ROWS
from rnnsearch_fairseq.modules.fused.search_step import GROUP, Carried
from rnnsearch_fairseq.search.rows import Hypothesis, RowSearch


class Extension(NamedTuple):
    """One step of the search from ``rows_before`` hypotheses to ``rows_after`` unfinished ones.

    ``attention`` is ``(rows_before, src_len)`` or None. ``parents``, ``words`` and ``totals`` ``(rows_after,)`` are the
    row that each new hypothesis continues, its new word and its log-probability.
    """

    attention: Tensor | None
    parents: Tensor
    words: Tensor
    totals: Tensor


class Ending(NamedTuple):
    """Finished hypotheses, ``(ended,)`` each: last step, sentence, row before end-of-sentence, and log-probability."""

    steps: Tensor
    sentences: Tensor
    parents: Tensor
    totals: Tensor


class FastBeamSearch(RowSearch):
    """The beam search of fairseq's ``SequenceGenerator`` with its default strategy, for one model of this package.

    fairseq passes over all scores of a step about ten times. This search needs three passes: the product that computes
    the scores, their sum, and the maximum of each group of words, which limits the search for the best words to a few
    groups. Hypotheses are traced back once a batch. Prefixes, constraints and other strategies are left to fairseq.
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
        """The first ``beam_size`` hypotheses of each sentence that end, best first.

        Raises:
            InputError: if the minimum length exceeds the maximum, or the model's scores are not numbers.
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
        live = torch.arange(len(source), device=source.device)
        free_places = torch.full_like(source[:, 0], self.beam_size)
        history: list[Extension] = []
        endings: list[Ending] = []
        for number in range(limit + 1):
            scores, attention, carried = self.step(words, carried, memory)
            best, parents, words = self.continuations(scores.to(totals.dtype), totals, len(live), number, limit)
            ended = words.eq(self.eos) & best.gt(-math.inf)
            # As in fairseq, there are 2 beam_size candidates, and only the first beam_size of them may end.
            taken = ended & (torch.arange(words.size(1), device=words.device) < self.beam_size)
            taken &= taken.cumsum(dim=1) <= free_places[live].unsqueeze(1)
            free_places[live] -= taken.sum(dim=1)
            owners = live.unsqueeze(1).expand_as(taken)[taken]
            endings.append(Ending(torch.full_like(owners, number), owners, parents[taken], best[taken]))
            stays = free_places[live] > 0
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
        """The 2 · ``beam_size`` likeliest continuations of each sentence, best first.

        Args:
            scores: unnormalised log-probabilities of the next words, ``(rows, groups · GROUP)``; overwritten.
            totals: log-probabilities of the hypotheses, ``(rows,)``.
            number: the step, counted from 0.
            limit: the last step, in which every hypothesis ends.

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
        greatest[:, 0] = groups[:, 0].amax(dim=1)  # the special symbols, whose scores have changed, are in group 0
        return best_in_groups(groups, greatest + before.unsqueeze(1), before, sentences, 2 * self.beam_size)

    def finished(self, history: list[Extension], endings: Ending, sentences: int) -> list[list[Hypothesis]]:
        """The finished hypotheses of each sentence in fairseq's form, best first."""
        totals = endings.totals
        ranked_by = totals / (endings.steps + 1) ** self.len_penalty if self.normalize_scores else totals
        # Longest first, so that the hypotheses that take part in a step are the first ones.
        order = torch.argsort(endings.steps, descending=True, stable=True)
        tokens, scores, attention = trace_back(history, Ending(*(part[order] for part in endings)), self.eos)
        found: list[list[Hypothesis]] = [[] for _ in range(sentences)]
        lengths = (endings.steps[order] + 1).tolist()
        aligned = [None] * len(lengths) if attention is None else attention.mT.unbind()
        owners = endings.sentences[order].tolist()
        for owner, length, *parts in zip(owners, lengths, ranked_by[order].unbind(), tokens, scores, aligned):
            score, words, word_scores, weights = parts
            found[owner].append(
                {
                    "tokens": words[:length],
                    "score": score,
                    "attention": totals.new_empty(0) if weights is None else weights[:, :length],
                    "alignment": torch.empty(0),
                    "positional_scores": word_scores[:length],
                }
            )
        return [sorted(hypotheses, key=lambda h: -h["score"].item()) for hypotheses in found]


def log_sum_exp(scores: Tensor, greatest: Tensor) -> Tensor:
    """log sum exp of each row, ``(rows,)``, given the maximum of each row ``(rows, 1)``.

    Computed for :data:`ROWS` rows at a time, so that the temporary tensors stay in the CPU's cache.
    """
    parts = zip(scores.split(ROWS), greatest.split(ROWS))
    return torch.cat([(part - most).exp_().sum(dim=1) for part, most in parts]).log_().add_(greatest.squeeze(1))


def best_in_groups(
    groups: Tensor, greatest: Tensor, before: Tensor, sentences: int, count: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The best ``count`` of ``before + scores`` of each sentence; see `FastBeamSearch.continuations`.

    They are all in the ``count`` groups with the largest maxima, so that only these groups are searched.

    Args:
        groups: the scores, ``(rows, groups, GROUP)``.
        greatest: the maximum of ``before + scores`` in each group, ``(rows, groups)``.
        before: the term to add to the scores of each row, ``(rows,)``.

    Raises:
        InputError: if the best are not numbers.
    """
    greatest = greatest.view(sentences, -1)
    chosen = greatest.topk(min(count, greatest.size(1)), dim=1, sorted=False).indices
    first_rows = torch.arange(0, len(groups), len(groups) // sentences, device=groups.device).unsqueeze(1)
    rows, group = first_rows + chosen // groups.size(1), chosen % groups.size(1)
    candidates = groups[rows, group] + before[rows].unsqueeze(2)  # (sentences, count, GROUP)
    best, places = candidates.flatten(1).topk(count, dim=1)
    if best.isnan().any():
        raise InputError("the model's scores are not numbers: its training has diverged; give another checkpoint")
    which = places // GROUP
    return best, rows.gather(1, which), group.gather(1, which) * GROUP + places % GROUP


def unfinished(ended: Tensor, stays: Tensor, beam: int, *candidates: Tensor) -> list[Tensor]:
    """The first ``beam`` candidates that have not ended of each sentence that stays.

    Args:
        ended: ``(sentences, candidates)``, like each tensor of ``candidates``.
        stays: the mask of the sentences that are searched further, ``(sentences,)``.

    Returns:
        Each tensor's values, ``(rows,)``.
    """
    places = torch.arange(ended.size(1), device=ended.device) + ended * ended.size(1)
    first = places.topk(beam, dim=1, largest=False).indices
    chosen = [tensor.gather(1, first) for tensor in candidates]
    return [(tensor if stays.all() else tensor[stays]).flatten() for tensor in chosen]


def select_sentences(memory: Memory, stays: Tensor) -> Memory:
    """The memory of the sentences in the mask ``stays`` ``(sentences,)``."""
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
    """Trace each finished hypothesis back to its first word.

    Args:
        endings: sorted by falling step.

    Returns:
        Words ``(ended, steps)``, the log-probability of each word, and attention ``(ended, steps, src_len)`` or None.
        Entries after the end of a hypothesis have no meaning.
    """
    shape = (len(endings.steps), len(history))
    tokens, totals = endings.steps.new_empty(shape), endings.totals.new_zeros(shape[0], shape[1] + 1)
    attention = None
    if history[0].attention is not None:
        attention = history[0].attention.new_empty(*shape, history[0].attention.size(1))
    rows, steps = endings.parents.clone(), endings.steps.tolist()
    later = active = 0  # hypotheses that end after this step; hypotheses that end in it or later
    for number in reversed(range(len(history))):
        step = history[number]
        while active < len(steps) and steps[active] == number:
            active += 1
        before = rows[:later]
        tokens[:later, number], tokens[later:active, number] = step.words[before], eos
        totals[:later, number + 1] = step.totals[before]
        totals[later:active, number + 1] = endings.totals[later:active]
        rows[:later] = step.parents[before]
        if attention is not None:
            attention[:active, number] = step.attention[rows[:active]]
        later = active
    return tokens, totals.diff(dim=1), attention
