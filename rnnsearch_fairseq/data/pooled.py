"""The order of the training pairs in the first paper: length limit, one shuffle, pools sorted by length."""

import numpy as np
from fairseq.data import BaseWrapperDataset, LanguagePairDataset

from rnnsearch_fairseq.errors import InputError


def longer_side(pairs: LanguagePairDataset) -> np.ndarray:
    """The number of words of the longer side of each pair, end-of-sentence not counted: ``(pairs,)``."""
    sizes = pairs.src_sizes if pairs.tgt_sizes is None else np.maximum(pairs.src_sizes, pairs.tgt_sizes)
    return np.asarray(sizes) - 1


def within_limit(pairs: LanguagePairDataset, max_words: int | None) -> np.ndarray:
    """Whether each side of a pair has at most ``max_words`` words (None: no limit): bool, ``(pairs,)``."""
    return longer_side(pairs) <= (np.inf if max_words is None else max_words)


class PooledPairs(BaseWrapperDataset):
    """Training pairs as Section 4.2 and Appendix B.2 describe them.

    - Pairs with more than ``max_words`` words on either side are left out; end-of-sentence does not count.
    - The others are shuffled once, by ``seed``, and read in the same order in every epoch.
    - Pools of ``pool_batches`` updates (the paper: 20 updates of 80 pairs) are sorted by the length of the longer side
      and cut into batches, shortest first, so that the sentences of a batch have similar lengths. The sort is stable.

    Attributes:
        batches_per_update: processes times accumulated steps. fairseq deals the batches of a pool to the processes in
            turn: an update consists of consecutive batches, and its processes read sentences of similar lengths.

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
        short_enough = np.flatnonzero(within_limit(pairs, max_words))
        if not len(short_enough):
            raise InputError(f"none of {len(pairs):,} training pairs is left; see --max-words and --trainpref")
        self.order = np.random.RandomState(seed).permutation(short_enough).astype(np.int64)

    def ordered_indices(self) -> np.ndarray:
        """The indices of the pairs within the limit, in reading order: int64, ``(pairs,)``."""
        return self.order

    def batch_by_size(
        self,
        indices: np.ndarray,
        max_tokens: int | None = None,
        max_sentences: int | None = None,
        required_batch_size_multiple: int = 1,
    ) -> list[np.ndarray]:
        """Cut ``indices`` into pools, and each sorted pool into batches of ``max_sentences``.

        The last batch of the last pool may be smaller. ``required_batch_size_multiple`` has no effect.

        Raises:
            InputError: if ``max_sentences`` is missing or ``max_tokens`` is given.
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
