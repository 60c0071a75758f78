"""The order in which the original reads its training pairs: length limit, one shuffle, pools sorted by length."""

import numpy as np
from fairseq.data import BaseWrapperDataset, LanguagePairDataset

from rnnsearch_fairseq.data.length_limit import longer_side, within_limit
from rnnsearch_fairseq.errors import InputError


class PooledPairs(BaseWrapperDataset):
    """Training pairs as Section 4.2 and Appendix B.2 describe them.

    - Pairs with more than ``max_words`` words on either side are left out; end-of-sentence does not count.
    - The rest is shuffled once, by ``seed``, and read in that order, in every epoch.
    - ``pool_batches`` updates at a time (the paper: 20 of 80 pairs) are sorted by the longer of their two sides and cut
      into batches, shortest first, so that a batch holds sentences of about one length. The sort is stable.

    Attributes:
        batches_per_update: processes times accumulated steps. fairseq deals the batches of a pool out in turn, so that
            an update consists of consecutive ones, and its processes read sentences of about one length.

    Raises:
        InputError: if no pair is left, or a number is below 1.
    """

    def __init__(self, pairs: LanguagePairDataset, max_words: int | None, pool_batches: int, seed: int) -> None:
        super().__init__(pairs)
        if pool_batches < 1:
            raise InputError(f"--pool-batches is {pool_batches}, but a pool holds at least 1 update")
        self.pool_batches = pool_batches
        self.batches_per_update = 1
        self.longer_side = longer_side(pairs)
        kept = np.flatnonzero(within_limit(pairs, max_words))
        if not len(pairs):
            raise InputError("the training data holds no pair; give fairseq-preprocess a --trainpref that does")
        if not len(kept):
            raise InputError(f"None of {len(pairs):,} training pairs has at most {max_words} words; raise --max-words")
        self.order = np.random.RandomState(seed).permutation(kept).astype(np.int64)

    def ordered_indices(self) -> np.ndarray:
        """The pairs that are kept, in the order in which they are read: int64, ``(pairs,)``."""
        return self.order

    def batch_by_size(
        self,
        indices: np.ndarray,
        max_tokens: int | None = None,
        max_sentences: int | None = None,
        required_batch_size_multiple: int = 1,
    ) -> list[np.ndarray]:
        """Cut ``indices`` into pools, and each sorted pool into batches of ``max_sentences``.

        The last batch of the last pool holds what is left; ``required_batch_size_multiple`` has nothing to round here.

        Raises:
            InputError: without a number of sentences a batch, or with a limit in tokens.
        """
        if max_sentences is None or max_tokens is not None:
            raise InputError("Pooled batches are counted in pairs: give --batch-size (the paper: 80), not --max-tokens")
        pool_size = self.pool_batches * self.batches_per_update * max_sentences
        batches = []
        for start in range(0, len(indices), pool_size):
            pool = indices[start : start + pool_size]
            pool = pool[np.argsort(self.longer_side[pool], kind="stable")]
            batches += [pool[first : first + max_sentences] for first in range(0, len(pool), max_sentences)]
        return batches
