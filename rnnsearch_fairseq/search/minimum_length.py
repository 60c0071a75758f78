"""A least length of translations that grows with the source, for fairseq's own searches."""

import math
from typing import Any

from fairseq.search import Search
from torch import Tensor


class MinimumLength(Search):
    """Any of fairseq's searches, with end-of-sentence forbidden for the first floor(share · len) words.

    len is the source's length, end-of-sentence included. fairseq has ``--min-len`` only, the same for every sentence,
    and its own LengthConstrainedBeamSearch is a beam search, not a sampler.

    Args:
        search: what chooses the words.
        longest: what bounds the translation of a source of a given length: the minimum never exceeds it.
    """

    def __init__(self, tgt_dict: Any, search: Search, share: float, max_len_a: float, max_len_b: int) -> None:
        super().__init__(tgt_dict)
        self.inner = search
        self.share, self.max_len_a, self.max_len_b = share, max_len_a, max_len_b
        self.needs_src_lengths = True
        self.supports_constraints = search.supports_constraints
        self.stop_on_max_len = search.stop_on_max_len

    def step(self, step: int, lprobs: Tensor, *args: Any, **kwargs: Any) -> Any:
        """As in fairseq; ``lprobs`` is ``(batch, beam, K_y)``."""
        longest = (self.src_lengths * self.max_len_a).floor() + self.max_len_b
        forbidden = step < (self.src_lengths * self.share).floor().minimum(longest)
        lprobs[forbidden, :, self.eos] = -math.inf
        return self.inner.step(step, lprobs, *args, **kwargs)

    def set_src_lengths(self, src_lengths: Tensor) -> None:
        self.src_lengths = src_lengths
        self.inner.set_src_lengths(src_lengths)

    def init_constraints(self, batch_constraints: Tensor | None, beam_size: int) -> None:
        self.inner.init_constraints(batch_constraints, beam_size)

    def prune_sentences(self, batch_idxs: Tensor) -> None:
        self.inner.prune_sentences(batch_idxs)

    def update_constraints(self, active_hypos: Tensor) -> None:
        self.inner.update_constraints(active_hypos)
