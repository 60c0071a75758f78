"""A least length of translations that grows with the source, for fairseq's own searches."""

import math
from typing import Any

from fairseq.search import Search
from torch import Tensor

from rnnsearch_fairseq.search.delegating import AroundSearch


class MinimumLength(AroundSearch):
    """Any of fairseq's searches, with end-of-sentence forbidden for the first floor(share · len) words.

    len is the source's length, end-of-sentence included. fairseq has ``--min-len`` only, the same for every sentence,
    and its own LengthConstrainedBeamSearch is a beam search, not a sampler.

    Args:
        search: what chooses the words.
        longest: what bounds the translation of a source of a given length: the minimum never exceeds it.
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
