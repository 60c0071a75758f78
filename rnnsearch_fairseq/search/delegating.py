"""What stands around any of fairseq's searches and leaves the search itself to it."""

from typing import Any

from fairseq.search import Search
from torch import Tensor


class AroundSearch(Search):
    """Passes everything on to ``inner``; ``step`` is for a subclass to add to."""

    def __init__(self, tgt_dict: Any, inner: Search) -> None:
        super().__init__(tgt_dict)
        self.inner = inner
        self.needs_src_lengths = getattr(inner, "needs_src_lengths", False)
        self.supports_constraints = inner.supports_constraints
        self.stop_on_max_len = inner.stop_on_max_len

    def set_src_lengths(self, src_lengths: Tensor) -> None:
        self.src_lengths = src_lengths
        self.inner.set_src_lengths(src_lengths)

    def init_constraints(self, batch_constraints: Tensor | None, beam_size: int) -> None:
        self.inner.init_constraints(batch_constraints, beam_size)

    def prune_sentences(self, batch_idxs: Tensor) -> None:
        self.inner.prune_sentences(batch_idxs)

    def update_constraints(self, active_hypos: Tensor) -> None:
        self.inner.update_constraints(active_hypos)
