"""Word counts of the targets of the training data."""

import copy
from collections.abc import Iterator
from itertools import islice

import numpy as np
from fairseq import utils
from fairseq.data import BaseWrapperDataset, FairseqDataset, data_utils
from fairseq.tasks import FairseqTask

SENTENCES_AT_A_TIME = 10_000


def training_data(task: FairseqTask) -> Iterator[FairseqDataset]:
    """The training data of the task, shard by shard if there are several (``bin0:bin1``)."""
    subset, shards = task.cfg.train_subset, len(utils.split_paths(task.cfg.data))
    if shards == 1:
        yield task.dataset(subset)
        return
    # The task holds the shard of the present epoch only; the copy leaves it alone.
    other = copy.copy(task)
    other.datasets = {}
    for epoch in range(1, shards + 1):
        other.load_dataset(subset, epoch=epoch, combine=True)
        yield other.dataset(subset)


def count_targets(pairs: FairseqDataset, vocabulary_size: int) -> np.ndarray:
    """The number of occurrences of each id in the targets, end-of-sentence included: int64, ``(K_y,)``.

    Pairs that are left out in training (``--max-words``, ``--require-parse``) do not count.
    """
    with data_utils.numpy_seed(0):  # a data set that shuffles must not change the random numbers of training
        kept = np.sort(pairs.ordered_indices())
    while isinstance(pairs, BaseWrapperDataset):
        pairs = pairs.dataset
    counts = np.zeros(vocabulary_size, dtype=np.int64)
    targets = (pairs.tgt[number].numpy() for number in kept.tolist())
    while chunk := list(islice(targets, SENTENCES_AT_A_TIME)):
        counts += np.bincount(np.concatenate(chunk), minlength=vocabulary_size)
    return counts
