"""Wrappers around fairseq's searches: they add to each step and leave the search itself to the wrapped one."""

import math
from typing import Any

from fairseq.search import Search
from torch import Tensor


class DelegatingSearch(Search):
    """Delegates everything but ``step``, which a subclass defines, to the search ``inner``."""

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


class MinimumLength(DelegatingSearch):
    """Forbids end-of-sentence for the first floor(share · len) words; len is the source length with end-of-sentence.

    fairseq's ``--min-len`` is one number for all sentences, and its LengthConstrainedBeamSearch cannot sample.

    Args:
        search: the wrapped search.
        share: the minimum length as a share of len.
        max_len_a, max_len_b: the generator's limit, max_len_a · len + max_len_b, which the minimum never exceeds.
    """

    def __init__(self, tgt_dict: Any, search: Search, share: float, max_len_a: float, max_len_b: int) -> None:
        super().__init__(tgt_dict, search)
        self.share, self.max_len_a, self.max_len_b = share, max_len_a, max_len_b
        self.needs_src_lengths = True

    def step(self, step: int, lprobs: Tensor, *args: Any, **kwargs: Any) -> Any:
        """As in fairseq; ``lprobs`` is ``(batch, beam, K_y)``."""
        longest = (self.src_lengths * self.max_len_a).floor() + self.max_len_b
        forbidden = step < (self.src_lengths * self.share).floor().minimum(longest)
        lprobs[forbidden, :, self.eos] = -math.inf
        return self.inner.step(step, lprobs, *args, **kwargs)
