"""The length limit of both papers' training pairs."""

import numpy as np
from fairseq.data import LanguagePairDataset

from rnnsearch_fairseq.errors import InputError


def longer_side(pairs: LanguagePairDataset) -> np.ndarray:
    """The number of words of the longer side of each pair, end-of-sentence not counted: ``(pairs,)``."""
    sizes = pairs.src_sizes if pairs.tgt_sizes is None else np.maximum(pairs.src_sizes, pairs.tgt_sizes)
    return np.asarray(sizes) - 1


def within_limit(pairs: LanguagePairDataset, max_words: int | None) -> np.ndarray:
    """Whether neither side of a pair has more than ``max_words`` words (None: no limit): bool, ``(pairs,)``.

    Raises:
        InputError: if the limit is below 1.
    """
    if max_words is None:
        return np.ones(len(pairs), dtype=bool)
    if max_words < 1:
        raise InputError(f"--max-words is {max_words}, but the limit must be at least 1 word")
    return longer_side(pairs) <= max_words
