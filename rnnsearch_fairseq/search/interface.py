"""A search's view of a model, its input and its results."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from rnnsearch_fairseq.modules.tree_lstm import Forest

# Receives the best unfinished target words of each sentence that is still searched, by its position in the batch.
OnStep = Callable[[dict[int, list[int]]], None]


@dataclass(frozen=True, eq=False)
class Source:
    """A batch of sentences: ``words`` int64 ``(batch, src_len)`` with end-of-sentence, padded right or left."""

    words: Tensor
    forest: Forest | None = None


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """A translation of T word ids, end-of-sentence included if it is finished; tensors are on the CPU.

    ``logprobs`` ``(T,)`` are ln p of the words (unknown words: less their penalty). ``weights`` ``(T, columns)`` is the
    attention to the source's words, padding included, then to its phrases; None without attention, for a source
    without words, and if the search failed.
    """

    words: list[int]
    score: float
    logprobs: Tensor
    weights: Tensor | None


class SearchModel(Protocol):
    """A model, or an ensemble, as a search sees it. A state holds rows: the unfinished hypotheses of all sentences.

    The rows of a sentence are adjacent, and the sentences keep the order of the batch.
    """

    def begin(self, source: Source) -> Any:
        """The state before the first word, one row a sentence."""

    def step(self, words: Tensor, state: Any) -> tuple[Tensor, Tensor | None, Any]:
        """Score the next words, given the last word of each row ``(rows,)``, end-of-sentence at the beginning.

        Returns:
            Log-probabilities in float32 at least, which the caller may overwrite, ``(rows, K_y)``, where K_y is rounded
            up to whole groups (:data:`~rnnsearch_fairseq.modules.fused.search_step.GROUP`) of impossible words; the
            attention ``(rows, columns)`` or None; and the state with these words.
        """

    def select(self, state: Any, rows: Sequence[int]) -> Any:
        """The state of ``rows``, some of them perhaps several times or not at all."""
