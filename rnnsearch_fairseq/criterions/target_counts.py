"""Word counts of the targets of a data set."""

from itertools import islice

import numpy as np
from fairseq.data import BaseWrapperDataset, FairseqDataset

SENTENCES_AT_A_TIME = 10_000


def count_targets(pairs: FairseqDataset, vocabulary_size: int) -> np.ndarray:
    """The number of occurrences of each id in the targets, end-of-sentence included: int64, ``(K_y,)``."""
    while isinstance(pairs, BaseWrapperDataset):
        pairs = pairs.dataset
    counts = np.zeros(vocabulary_size, dtype=np.int64)
    targets = (pairs.tgt[number].numpy() for number in range(len(pairs)))
    while chunk := list(islice(targets, SENTENCES_AT_A_TIME)):
        counts += np.bincount(np.concatenate(chunk), minlength=vocabulary_size)
    return counts
