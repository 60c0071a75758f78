"""A search's view of a model, and its results."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from rnnsearch_fairseq.modules.tree_lstm import Forest

# Receives the best unfinished target words of each sentence that is still searched, by its position in the batch.
OnStep = Callable[[dict[int, list[int]]], None]


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


class SearchModel(Protocol):
    """A model, or an ensemble, as a search sees it. A state holds rows: the unfinished hypotheses of all sentences.

    The rows of a sentence are adjacent, and the sentences keep the order of the batch.
    """

    def begin(self, words: Tensor, forest: Forest | None) -> Any:
        """The state before the first target word, one row a sentence.

        Args:
            words: int64 ``(batch, src_len)``, each sentence ended by end-of-sentence, padded right or left.
            forest: the sentences' trees, for a model that reads trees.
        """

    def step(self, words: Tensor, state: Any) -> tuple[Tensor, Tensor | None, Any]:
        """Score the next words, given the last word of each row ``(rows,)``, end-of-sentence at the beginning.

        Returns:
            Log-probabilities in float32 at least, which the caller may overwrite, ``(rows, K_y)``; the attention
            ``(rows, source columns)`` or None; and the state with these words.
        """

    def select(self, state: Any, rows: Sequence[int]) -> Any:
        """The state of the chosen ``rows``, in this order; a row may be chosen several times."""
