"""Training pairs: their choice, their order, and the trees of their source sentences."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from fairseq.data import BaseWrapperDataset, Dictionary, FairseqDataset, LanguagePairDataset, data_utils
from torch import Tensor

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.modules.forest import Tree, build_forest
from rnnsearch_fairseq.text.trees import parse_transitions


def longer_side(pairs: FairseqDataset) -> np.ndarray:
    """The number of words of the longer side of each pair, without end-of-sentence: ``(pairs,)``."""
    return np.asarray(pairs.sizes).reshape(len(pairs), -1).max(axis=1) - 1


class LimitedPairs(BaseWrapperDataset):
    """The pairs for which ``chosen`` (bool, ``(pairs,)``) is true, in fairseq's order of epoch 1.

    fairseq shuffles pairs of equal lengths by the seed and the epoch (tasks/fairseq_task.py:290), but only once in a
    run, so that a run that is resumed in a later epoch would have other batches.
    """

    def __init__(self, pairs: FairseqDataset, chosen: np.ndarray, seed: int) -> None:
        super().__init__(pairs)
        if not chosen.any():
            raise InputError(f"none of {len(pairs):,} training pairs is left; see --max-words and --require-parse")
        self.chosen, self.seed = chosen, seed

    def ordered_indices(self) -> np.ndarray:
        """The chosen pairs, in the order in which they are cut into batches: int64, ``(chosen,)``."""
        with data_utils.numpy_seed(self.seed + 1):
            indices = self.dataset.ordered_indices()
        return indices[self.chosen[indices]]

    def batch_by_size(self, indices: np.ndarray, **limits: Any) -> list[np.ndarray]:
        """fairseq's batches, and the last batch, which fairseq may drop (data/data_utils.py:357)."""
        batches = super().batch_by_size(indices, **limits)
        last = indices[sum(map(len, batches)) :]
        return [*batches, last] if len(last) else batches


class ReshuffledPairs(LimitedPairs):
    """The chosen pairs, shuffled in each epoch and cut into batches of mixed lengths, as in the original program."""

    can_reuse_epoch_itr_across_epochs = False
    epoch = 1

    def set_epoch(self, epoch: int) -> None:
        super().set_epoch(epoch)
        self.epoch = epoch

    def ordered_indices(self) -> np.ndarray:
        return np.random.RandomState((self.seed, self.epoch)).permutation(np.flatnonzero(self.chosen))


class PooledPairs(LimitedPairs):
    """The chosen pairs in the order of the first paper (Section 4.2 and Appendix B.2).

    - The pairs are shuffled once, with ``seed``, and read in the same order in every epoch.
    - Pools of ``pool_batches`` updates (the paper: 20 updates of 80 pairs) are sorted by the length of the longer side
      and cut into batches, shortest first, so that the sentences of a batch have similar lengths. The sort is stable.

    An update has ``batches_per_update`` consecutive batches: one for each process and accumulated step.
    """

    # --update-freq, and so the size of a pool, may depend on the epoch.
    can_reuse_epoch_itr_across_epochs = False

    def __init__(self, pairs: FairseqDataset, chosen: np.ndarray, pool_batches: int, seed: int) -> None:
        super().__init__(pairs, chosen, seed)
        self.pool_batches, self.batches_per_update = pool_batches, 1
        self.longer_side = longer_side(pairs)
        self.order = np.random.RandomState(seed).permutation(np.flatnonzero(chosen)).astype(np.int64)

    def ordered_indices(self) -> np.ndarray:
        return self.order

    def batch_by_size(
        self, indices: np.ndarray, max_tokens: int | None = None, max_sentences: int | None = None, **_: Any
    ) -> list[np.ndarray]:
        """Cut ``indices`` into pools, and each sorted pool into batches of at most ``max_sentences``."""
        if max_sentences is None or max_tokens is not None:
            raise InputError("Pooled batches are counted in pairs: give --batch-size (the paper: 80), not --max-tokens")
        pool_size = self.pool_batches * self.batches_per_update * max_sentences
        batches = []
        for start in range(0, len(indices), pool_size):
            pool = indices[start : start + pool_size]
            pool = pool[np.argsort(self.longer_side[pool], kind="stable")]
            batches += [pool[first : first + max_sentences] for first in range(0, len(pool), max_sentences)]
        return batches


class TreePairs(BaseWrapperDataset):
    """``pairs`` and the trees of their sources; ``net_input.trees`` of a batch are the fields of a ``Forest``.

    ``transitions`` are the ids of each tree's transitions, which are in the file ``path``. ``parsed`` is whether each
    source has a tree: bool, ``(pairs,)``.
    """

    def __init__(
        self, pairs: LanguagePairDataset, transitions: Sequence[Tensor], dictionary: Dictionary, path: str
    ) -> None:
        super().__init__(pairs)
        cure = "write both from the same text"
        if len(transitions) != len(pairs):
            raise InputError(f"{path}: {len(transitions):,} trees for {len(pairs):,} sources; {cure}")
        self.trees: list[Tree | None] = []
        for number, words in enumerate((np.asarray(pairs.src_sizes) - 1).tolist()):
            line = " ".join(dictionary[symbol] for symbol in transitions[number].tolist()[:-1])
            try:
                # If every training sentence has a parse, the dictionary has no symbol for "no parse".
                tree = None if line == dictionary.unk_word else parse_transitions(line)
            except InputError as error:
                raise InputError(f"{path}: line {number + 1}: {error}") from None
            if tree is not None and tree.leaves > words:
                raise InputError(f"{path}: line {number + 1}: {tree.leaves} leaves for {words} words; {cure}")
            self.trees.append(tree)
        self.parsed = np.array([tree is not None for tree in self.trees])

    def collater(self, samples: list[dict[str, Any]], **kwargs: Any) -> dict[str, Any]:
        batch = self.dataset.collater(samples, **kwargs)
        if batch:
            numbers, columns = batch["id"].tolist(), batch["net_input"]["src_tokens"].size(1)
            # From the lengths, since a text may contain the word <pad>.
            first_columns = (columns - self.dataset.src_sizes[numbers]) * self.dataset.left_pad_source
            forest = build_forest([self.trees[number] for number in numbers], first_columns.tolist(), columns)
            # A plain tuple, because fairseq cannot rebuild a NamedTuple when it moves the tensors to a device.
            batch["net_input"]["trees"] = tuple(forest)
        return batch
