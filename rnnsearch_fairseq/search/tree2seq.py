"""The beam search of the original tree-to-sequence code (Eriguchi et al., 2016), for any fairseq model."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rnnsearch_fairseq.search.length_statistics import LengthStatistics
from rnnsearch_fairseq.search.rows import Continuations, Hypothesis, Rows, RowSearch


class Tree2SeqSearch(RowSearch):
    """Beam search in which finished hypotheses keep their places and compete, until the best is finished.

    The score of a translation y of x is log p(len(y) | len(x)) + sum_j log p(y_j | ...), without normalisation. The sum
    includes end-of-sentence, the lengths do not. The first term exists only with ``length_statistics``, and is added
    when end-of-sentence is chosen. The result is the last beam of each sentence. Only its first hypothesis is certainly
    finished, and even that one may not be if the search stopped after ``max_len_a · len + max_len_b`` steps.

    Args:
        length_statistics: a file written by ``rnnsearch lengths``; None for the plain search.
        length_smoothing: see `LengthStatistics`.
        args, kwargs: as in `RowSearch`; fairseq's ``min_len`` and ``len_penalty`` have no effect.
    """

    def __init__(
        self, *args: Any, length_statistics: str | None = None, length_smoothing: float = 0.0, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.statistics = (
            None if length_statistics is None else LengthStatistics.read(Path(length_statistics), length_smoothing)
        )

    def search_batch(self, sample: dict[str, Any], start: int) -> list[list[Hypothesis]]:
        """The last beam of each sentence, best first."""
        lengths = sample["net_input"]["src_tokens"].ne(self.pad).sum(dim=1)
        limit = ((lengths * self.max_len_a).long() + self.max_len_b).tolist()
        rows = Rows.begin(self.model, self.model.forward_encoder(sample["net_input"]), lengths, start)
        finished: list[list[Hypothesis]] = [[] for _ in lengths]  # best first
        names = sample.get("id", torch.arange(len(lengths))).to(lengths.device)
        while len(rows.tokens) > 0:
            step = rows.tokens.size(1) - 1
            log_probs = self.restrict(rows.predict(self.temperature), self.unk_penalty)
            competing = log_probs
            if self.statistics is not None:
                terms = self._length_terms(self.statistics, lengths, step).to(log_probs)
                competing = log_probs.clone()
                competing[:, self.eos] += terms[rows.sentence]
            possible = Continuations.of(rows.scores.sum(dim=1), competing, rows.sentence, len(lengths), self.beam_size)
            best = (column.tolist() for column in possible.best(self.beam_size))
            beams = [_Beam.choose(*each, self.beam_size) for each in zip(*best, finished)]

            chosen = [row for beam in beams for row in beam.rows]
            if not chosen:
                break
            parent, words = (torch.tensor(column, device=lengths.device) for column in list(zip(*chosen))[:2])
            rows.extend(parent, words, log_probs)
            totals = torch.tensor([total for *_, total in chosen], dtype=log_probs.dtype, device=lengths.device)
            stops = [beam.best_is_finished(self.eos) or step + 1 >= limit[n] for n, beam in enumerate(beams)]
            ended = words.eq(self.eos) | torch.tensor(stops, device=lengths.device)[rows.sentence]
            new = iter(self.hypotheses(rows, ended, totals[ended]))
            for number, beam in enumerate(beams):
                finished[number] = beam.finished(self.eos, stops[number], new)
            rows.keep(~ended)
            self.report(rows, names)
        return finished

    @staticmethod
    def _length_terms(statistics: LengthStatistics, lengths: Tensor, target_length: int) -> Tensor:
        """log p(target length | source length) of each sentence, ``(sentences,)``."""
        terms = [statistics.log_prob(length - 1, target_length) for length in lengths.tolist()]
        return torch.tensor(terms, dtype=torch.float64, device=lengths.device)


@dataclass
class _Beam:
    """The beam of one sentence after a step, best first: finished hypotheses and continuations (row, word, total)."""

    places: list[Hypothesis | tuple[int, int, float]]

    @classmethod
    def choose(
        cls, totals: list[float], parents: list[int], words: list[int], finished: list[Hypothesis], size: int
    ) -> "_Beam":
        """The best ``size`` of all continuations and finished hypotheses; continuations win ties."""
        continuations = [(total, place) for total, *place in zip(totals, parents, words) if total > -math.inf]
        candidates = [(total, (*place, total)) for total, place in continuations]
        candidates += [(hypothesis["score"].item(), hypothesis) for hypothesis in finished]
        candidates.sort(key=lambda candidate: -candidate[0])
        return cls([place for _, place in candidates[:size]])

    @property
    def rows(self) -> list[tuple[int, int, float]]:
        """The continuations."""
        return [place for place in self.places if isinstance(place, tuple)]

    def best_is_finished(self, eos: int) -> bool:
        """Whether the search is over: the best place is finished, or the beam is empty."""
        return not self.places or not isinstance(self.places[0], tuple) or self.places[0][1] == eos

    def finished(self, eos: int, stops: bool, new: Iterator[Hypothesis]) -> list[Hypothesis]:
        """The finished hypotheses, best first; the whole beam if the search of this sentence ``stops``.

        Args:
            new: the hypotheses of all continuations that end in this step, sentence by sentence.
        """
        ended = [place for place in self.places if stops or not isinstance(place, tuple) or place[1] == eos]
        return [next(new) if isinstance(place, tuple) else place for place in ended]
