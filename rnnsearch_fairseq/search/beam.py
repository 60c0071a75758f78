"""A faster beam search for RNNsearch and RNNencdec that finds the same hypotheses as fairseq's."""

import math
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from fairseq import search
from torch import Tensor

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.modules.attention import Memory
from rnnsearch_fairseq.modules.fused.search_step import GROUP, Carried
from rnnsearch_fairseq.search.rows import Hypothesis, RowSearch


class Candidate(NamedTuple):
    """A continuation of a hypothesis: its log-probability, the row that it continues, and its last word."""

    total: float
    parent: int
    word: int


class Step(NamedTuple):
    """One step: the ``attention`` of its rows ``(rows, src_len)`` or None, and the ``chosen`` rows of the next step."""

    attention: Tensor | None
    chosen: list[Candidate]


class Ended(NamedTuple):
    """A finished hypothesis: the step in which it ended, and its end."""

    step: int
    end: Candidate


class FastBeamSearch(RowSearch):
    """The beam search of fairseq's ``SequenceGenerator`` with its default strategy, for one model of this package.

    fairseq passes over all scores of a step about ten times. This search needs two passes: the log-softmax, and the
    maximum of each group of words, which limits the search for the best words to a few groups. The few candidates that
    are left go to the host, where Python lists hold the beams. Prefixes, constraints and other strategies are left to
    fairseq.
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
        limit = min(int(self.max_len_a * sample["net_input"]["src_tokens"].size(1) + self.max_len_b), self.max_len - 1)
        if self.min_len > limit:
            raise InputError(f"--min-len is {self.min_len}, but no translation may be longer than {limit} words")
        return self.hypotheses_of(*self.search_steps(sample, start, limit))

    @torch.inference_mode()
    def search_steps(
        self, sample: dict[str, Any], start: int, limit: int
    ) -> tuple[list[Step], list[list[Ended]], Tensor]:
        """All steps, the finished hypotheses of each sentence, and the last totals.

        In PyTorch's inference mode an operation costs less, which saves a fifth of the time with a beam of 1. Tensors
        made in it may not be changed later; therefore :meth:`hypotheses_of` makes the caller's tensors outside of it.
        """
        source = sample["net_input"]["src_tokens"]
        (encoded,) = self.model.forward_encoder(sample["net_input"])
        step, memory, state = self.model.single_model.decoder.prepare_search(encoded)
        carried, words = Carried(state), torch.full_like(source[:, 0], start)
        totals = state.new_zeros(len(source), dtype=torch.promote_types(state.dtype, torch.float32))
        live = list(range(len(source)))  # the sentences that are still searched; each has equally many adjacent rows
        ended: list[list[Ended]] = [[] for _ in live]
        history: list[Step] = []
        for number in range(limit + 1):
            scores, attention, carried = step(words, carried, memory)
            candidates = self.candidates(scores.to(totals.dtype), totals, len(live), number, limit)
            chosen = [self.choose(each, ended[sentence], number, limit) for each, sentence in zip(candidates, live)]
            history.append(Step(attention, [candidate for beam in chosen for candidate in beam]))
            if not history[-1].chosen:
                break
            stays = [place for place, beam in enumerate(chosen) if beam]
            if len(stays) < len(live):
                live = [live[place] for place in stays]
                memory = select_sentences(memory, torch.tensor(stays, device=source.device))
            new_totals, parents, new_words = zip(*history[-1].chosen)
            totals = totals.new_tensor(new_totals)
            words = words.new_tensor(new_words)
            if parents != tuple(range(len(scores))):
                carried = carried.select(words.new_tensor(parents))
            self.report_best(history, live, sample)
        return history, ended, totals

    def candidates(
        self, scores: Tensor, totals: Tensor, sentences: int, number: int, limit: int
    ) -> list[list[Candidate]]:
        """The 2 · ``beam_size`` likeliest continuations of each sentence, best first.

        Args:
            scores: unnormalised log-probabilities of the next words, ``(rows, groups · GROUP)``.
            totals: log-probabilities of the hypotheses, ``(rows,)``.
            sentences: the number of sentences, each of which has equally many adjacent rows.
            number: the step, counted from 0.
            limit: the last step, in which every hypothesis ends.

        Raises:
            InputError: if the best are not numbers.
        """
        log_probs = (scores if self.temperature == 1 else scores / self.temperature).log_softmax(dim=1)
        if number == limit:
            log_probs[:, : self.eos] = log_probs[:, self.eos + 1 :] = -math.inf
        else:
            log_probs[:, self.pad] = -math.inf
            if self.unk_penalty:
                log_probs[:, self.unk] -= self.unk_penalty
            if number < self.min_len:
                log_probs[:, self.eos] = -math.inf
        found = best_continuations(log_probs, totals, sentences, 2 * self.beam_size)
        if any(math.isnan(best[0].total) for best in found):
            raise InputError("the model's scores are not numbers: its training has diverged; give another checkpoint")
        return found

    def choose(self, candidates: list[Candidate], ended: list[Ended], number: int, limit: int) -> list[Candidate]:
        """The next beam of a sentence: ``beam_size`` unfinished ``candidates``, or none when its search is over.

        As in fairseq, a candidate that is finished counts if it is among the best ``beam_size``; it is added to
        ``ended``. The search is over when ``beam_size`` hypotheses have ended.
        """
        unfinished = []
        for place, candidate in enumerate(candidates):
            if candidate.word != self.eos or candidate.total == -math.inf:
                unfinished.append(candidate)
            elif place < self.beam_size and len(ended) < self.beam_size:
                ended.append(Ended(number, candidate))
        return [] if len(ended) == self.beam_size or number == limit else unfinished[: self.beam_size]

    def report_best(self, history: list[Step], live: list[int], sample: dict[str, Any]) -> None:
        """Report the likeliest unfinished hypothesis of each ``live`` sentence to ``on_step``."""
        if self.on_step is None:
            return
        names = sample["id"].tolist() if "id" in sample else range(len(sample["net_input"]["src_tokens"]))
        rows = range(0, len(history[-1].chosen), len(history[-1].chosen) // len(live))
        paths = (trace_back(history, row) for row in rows)
        self.on_step({names[s]: torch.tensor([c.word for c in path]) for s, path in zip(live, paths)})

    def hypotheses_of(self, history: list[Step], ended: list[list[Ended]], totals: Tensor) -> list[list[Hypothesis]]:
        """The finished hypotheses of each sentence in fairseq's form, best first; ``totals`` gives device and type."""
        flat = [hypothesis for of_sentence in ended for hypothesis in of_sentence]
        paths = [[*trace_back(history[:step], end.parent), end] for step, end in flat]
        lengths = [len(path) for path in paths]
        tokens = torch.tensor([c.word for path in paths for c in path], device=totals.device)
        after = totals.new_tensor([c.total for path in paths for c in path])
        before = totals.new_tensor([total for path in paths for total in (0.0, *(c.total for c in path[:-1]))])
        ranked_by = totals.new_tensor([end.total for _, end in flat])
        if self.normalize_scores:
            ranked_by /= totals.new_tensor(lengths) ** self.len_penalty
        attention = [ranked_by.new_empty(0)] * len(flat)
        if history[0].attention is not None:
            first = [0, *accumulate(len(step.attention) for step in history)]
            rows = [first[number] + c.parent for path in paths for number, c in enumerate(path)]
            weights = torch.cat([step.attention for step in history])[rows]
            attention = [part.T for part in weights.split(lengths)]
        words, gains, scores = tokens.split(lengths), (after - before).split(lengths), ranked_by.tolist()
        numbers, found = iter(range(len(flat))), []
        for of_sentence in ended:
            places = sorted((next(numbers) for _ in of_sentence), key=lambda number: -scores[number])
            found.append(
                [
                    {
                        "tokens": words[number],
                        "score": ranked_by[number],
                        "attention": attention[number],
                        "alignment": torch.empty(0),
                        "positional_scores": gains[number],
                    }
                    for number in places
                ]
            )
        return found


def best_continuations(log_probs: Tensor, totals: Tensor, sentences: int, count: int) -> list[list[Candidate]]:
    """The ``count`` likeliest continuations of each sentence, best first.

    They are all in the ``count`` groups of words with the largest maxima, so that only these groups are searched.

    Args:
        log_probs: of the next words, ``(rows, groups · GROUP)``; overwritten.
        totals: of the rows, ``(rows,)``.
    """
    in_row = log_probs.size(1) // GROUP
    groups = log_probs.add_(totals.unsqueeze(1)).view(-1, GROUP)
    greatest = groups.amax(dim=1).view(sentences, -1)
    chosen = greatest.topk(min(count, greatest.size(1)), dim=1, sorted=False).indices
    if sentences > 1:
        chosen += torch.arange(0, len(groups), greatest.size(1), device=chosen.device).unsqueeze(1)
    best, places = groups[chosen].flatten(1).topk(count, dim=1)
    found = []
    for numbers, *of_sentence in zip(chosen.tolist(), best.tolist(), places.tolist()):
        candidates = []
        for total, place in zip(*of_sentence):
            row, group = divmod(numbers[place // GROUP], in_row)
            candidates.append(Candidate(total, row, group * GROUP + place % GROUP))
        found.append(candidates)
    return found


def select_sentences(memory: Memory, places: Tensor) -> Memory:
    """The memory of the sentences at ``places`` ``(sentences,)``."""
    return Memory(*(None if tensor is None else tensor[places] for tensor in memory))


def trace_back(history: list[Step], row: int) -> list[Candidate]:
    """The words, in order, of the hypothesis that is ``row`` after the last step of ``history``."""
    path = []
    for step in reversed(history):
        path.append(step.chosen[row])
        row = path[-1].parent
    return path[::-1]
