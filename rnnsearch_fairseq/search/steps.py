"""The steps that all beam searches share. A search differs from others in the beam of a single sentence."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.modules.fused.search_step import pad_sentences
from rnnsearch_fairseq.modules.symbols import EOS, PAD, UNK
from rnnsearch_fairseq.modules.tree_lstm import Forest
from rnnsearch_fairseq.search.models import SearchModel, send
from rnnsearch_fairseq.search.options import SearchOptions

GROUP = 64  # words in a group: the search looks for the best groups first
OnStep = Callable[[], None]
# A continuation of a hypothesis: its log-probability, the row that it continues, and its last word. There are so many
# of them that named tuples would take a twentieth of the time of a search with a beam of 12.
Candidate = tuple[float, int, int]


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """A translation of T word ids, end-of-sentence included if it is finished; tensors are on the CPU.

    ``score`` ranks the hypotheses. ``logprobs`` ``(T,)``, in float64, are ln p of the words, without penalties.
    ``weights`` ``(T, columns)`` are the attention to the source's words, padding included, then to its phrases; None
    without attention, for a source without words, and if the search failed.
    """

    words: list[int]
    score: float
    logprobs: Tensor
    weights: Tensor | None


class Finished(NamedTuple):
    """A finished hypothesis: the score that ranks it, and the step and candidate of its last word."""

    score: float
    step: int
    last: Candidate


class Step(NamedTuple):
    """One step: the attention of its rows ``(rows, columns)`` or None, and the candidates that go on."""

    weights: Tensor | None
    chosen: list[Candidate]


@dataclass
class Batch:
    """Sentences to search: the model and its state before the first word, one row a sentence.

    ``lengths`` are the numbers of their words, with end-of-sentence.
    """

    model: SearchModel
    state: Any
    lengths: list[int]
    device: torch.device
    on_step: OnStep | None

    def select(self, places: list[int]) -> "Batch":
        """The sentences at these places of this batch."""
        lengths = [self.lengths[place] for place in places]
        return replace(self, state=self.model.select(self.state, places), lengths=lengths)


class Beam(ABC):
    """The beam of one sentence, which decides what is continued and what is finished.

    The source has ``length`` words, end-of-sentence included; the search ends after ``limit`` steps. A step needs
    :attr:`candidates_per_row` times ``width`` candidates.
    """

    candidates_per_row = 1

    def __init__(self, options: SearchOptions, length: int, limit: int) -> None:
        self.options, self.length, self.limit = options, length, limit
        self.width = options.beam
        self.finished: list[Finished] = []

    @abstractmethod
    def advance(self, candidates: list[Candidate], step: int) -> list[Candidate]:
        """Choose the candidates to continue in ``step`` (from 0), best first; an empty list ends the search.

        The ``candidates`` are the likeliest, best first: at least as many as a step needs, or all possible ones.
        """

    def end_term(self, step: int) -> float:
        """What is added to the log-probability of end-of-sentence."""
        return 0.0

    def must_end(self, step: int) -> bool:
        """Whether only end-of-sentence is possible."""
        return False

    def finish(self, step: int, last: Candidate) -> None:
        """Keep a finished hypothesis, ranked by its log-probability, normalised or not."""
        normalizer = 1.0 if self.options.unnormalized else (step + 1) ** self.options.lenpen
        self.finished.append(Finished(last[0] / normalizer, step, last))


class BeamSearch:
    """A beam search over a batch of sentences. The unfinished hypotheses of all sentences are the rows of one batch.

    ``new_beam`` makes a sentence's beam, given the options and the sentence's length.
    """

    def __init__(self, options: SearchOptions, new_beam: Callable[[SearchOptions, int], Beam]) -> None:
        self.options, self.new_beam = options, new_beam

    def search_sentences(self, batch: Batch) -> list[list[Hypothesis]]:
        """The hypotheses of each sentence, best first; none if the search fails."""
        return self.run(batch, self.options)

    @torch.inference_mode()  # saves a fifth of the time with a beam of 1
    def search(
        self, model: SearchModel, words: Tensor, forest: Forest | None = None, on_step: OnStep | None = None
    ) -> list[list[Hypothesis]]:
        """The translations of each sentence, best first.

        If the search of a sentence fails, its list holds one empty hypothesis with the score minus infinity. A sentence
        without words is not searched: its only translation is empty, with the score zero.

        Args:
            words, forest: the sentences and their trees, as :meth:`SearchModel.begin` reads them.
            on_step: called after each step; an exception that it raises ends the search.
        """
        lengths = words.ne(PAD).sum(dim=1).tolist()
        places = [number for number, length in enumerate(lengths) if length > 1]
        found = iter(())
        if places:
            batch = Batch(model, model.begin(words, forest), lengths, words.device, on_step)
            found = iter(self.search_sentences(batch.select(places)))
        return [(next(found) or [_no_words(-math.inf)]) if length > 1 else [_no_words(0.0)] for length in lengths]

    def run(self, batch: Batch, options: SearchOptions) -> list[list[Hypothesis]]:
        """Search with a beam for each sentence of the batch: its finished hypotheses, best first."""
        beams = [self.new_beam(options, length) for length in batch.lengths]
        history: list[Step] = []
        live, state = beams, batch.state
        rows, sizes = [(0.0, 0, EOS)] * len(beams), [1] * len(beams)
        while live:
            step = len(history)
            totals, _, words = zip(*rows)
            log_probs, weights, state = batch.model.step(send(words, batch.device), state)
            log_probs[:, PAD].fill_(-math.inf)
            if options.unkpen:
                log_probs[:, UNK].sub_(options.unkpen)
            must_end = [beam.must_end(step) for beam in live]
            if any(must_end):
                ending = send(np.repeat(must_end, sizes), batch.device)
                log_probs[ending, :EOS] = log_probs[ending, EOS + 1 :] = -math.inf
            end_terms = [beam.end_term(step) for beam in live]
            if any(end_terms):
                log_probs[:, EOS].add_(send(np.repeat(end_terms, sizes), batch.device).to(log_probs.dtype))
            count = max(beam.candidates_per_row * beam.width for beam in live)
            best = best_continuations(log_probs, send(totals, batch.device).to(log_probs.dtype), sizes, count)
            continued = [beam.advance(candidates, step) for beam, candidates in zip(live, best)]
            rows = [candidate for chosen in continued for candidate in chosen]
            history.append(Step(weights, rows))
            live = [beam for beam, chosen in zip(live, continued) if chosen]
            sizes = [len(chosen) for chosen in continued if chosen]
            if live:
                state = batch.model.select(state, [parent for _, parent, _ in rows])
            if batch.on_step is not None:
                batch.on_step()
        return read_hypotheses(beams, history, options.unkpen)


def receive(tensor: Tensor) -> list[Any]:
    """``tensor`` as nested lists."""
    return tensor.cpu().numpy().tolist()


def best_continuations(log_probs: Tensor, totals: Tensor, sizes: Sequence[int], count: int) -> list[list[Candidate]]:
    """The ``count`` likeliest possible continuations of each sentence, best first.

    The words are divided into groups. The ``count`` groups with the largest maxima contain all these continuations, so
    only these groups are searched.

    Args:
        log_probs: of the next words, ``(rows, K_y)``.
        totals, sizes: of the rows, ``(rows,)``; and the number of rows of each sentence.
    """
    size = log_probs.size(1)
    groups = 1 + (size - 1) // GROUP  # in a row; the last group may have fewer words
    full, last = log_probs.split([(groups - 1) * GROUP, size - (groups - 1) * GROUP], dim=1)
    maxima = torch.cat([full.unflatten(1, (groups - 1, GROUP)).amax(dim=2), last.amax(dim=1, keepdim=True)], dim=1)
    greatest = pad_sentences(maxima + totals.unsqueeze(1), sizes, -math.inf).flatten(1)
    greatest, chosen = greatest.topk(min(count, greatest.size(1)), dim=1, sorted=False)  # (sentences, count)
    first_rows = send([*accumulate(sizes[:-1], initial=0)], chosen.device).unsqueeze(1)
    # A sentence with fewer rows than others has padding, whose maxima are minus infinity; its row numbers mean nothing.
    rows = (chosen // groups + first_rows).clamp_(max=len(log_probs) - 1)
    words = (chosen % groups * GROUP).unsqueeze(2) + torch.arange(GROUP, device=chosen.device)
    places = (rows.unsqueeze(2) * size + words).clamp_(max=log_probs.numel() - 1)
    values = log_probs.take(places).add_(totals[rows].unsqueeze(2))
    values.masked_fill_(greatest.eq(-math.inf).unsqueeze(2) | (words >= size), -math.inf)
    best, columns = values.flatten(1).topk(min(count, values[0].numel()), dim=1)
    numbers = places.flatten(1).gather(1, columns)
    parents, words = receive(torch.stack([numbers // size, numbers % size]))
    sums = receive(best)
    if any(math.isnan(greatest) for greatest, *_ in sums):
        raise InputError("the model's scores are not numbers: its training has diverged; give another checkpoint")
    continuations = (zip(*values) for values in zip(sums, parents, words))
    return [[candidate for candidate in found if candidate[0] > -math.inf] for found in continuations]


@torch.inference_mode(False)  # the callers may change the tensors
def read_hypotheses(beams: Sequence[Beam], history: list[Step], unkpen: float) -> list[list[Hypothesis]]:
    """The finished hypotheses of each beam, best first; their log-probabilities are without the penalty ``unkpen``."""
    attention, first_rows = None, [0] * len(history)
    if history[0].weights is not None:
        attention = torch.cat([step.weights for step in history]).cpu()
        first_rows = [0, *accumulate(len(step.weights) for step in history)]

    def read(finished: Finished) -> Hypothesis:
        entries = [finished.last]  # from the last word to the first
        for step in reversed(history[: finished.step]):
            entries.append(step.chosen[entries[-1][1]])
        totals, parents, words = zip(*reversed(entries))
        gains = torch.tensor([0.0, *totals], dtype=torch.float64).diff()
        if unkpen:
            gains[torch.tensor(words) == UNK] += unkpen
        rows = [first + parent for first, parent in zip(first_rows, parents)]
        return Hypothesis([*words], finished.score, gains, None if attention is None else attention[rows])

    return [[read(one) for one in sorted(beam.finished, key=lambda one: -one.score)] for beam in beams]


def _no_words(score: float) -> Hypothesis:
    with torch.inference_mode(False):
        return Hypothesis([EOS], score, torch.tensor([score], dtype=torch.float64), None)
