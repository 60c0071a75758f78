"""Training pairs: which are read, in which order, and with which trees of their source sentences."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from fairseq.data import BaseWrapperDataset, Dictionary, FairseqDataset, LanguagePairDataset, data_utils
from torch import Tensor

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.modules.forest import Tree, build_forest
from rnnsearch_fairseq.text.trees import parse_transitions


def longer_side(pairs: FairseqDataset) -> np.ndarray:
    """The number of words of the longer side of each pair, end-of-sentence not counted: ``(pairs,)``."""
    return np.asarray(pairs.sizes).reshape(len(pairs), -1).max(axis=1) - 1


class LimitedPairs(BaseWrapperDataset):
    """The pairs for which ``kept`` (bool, ``(pairs,)``) is true, in the order that fairseq gives them in epoch 1.

    fairseq cuts the same batches in all epochs, but other ones when a training goes on in a later epoch: it shuffles
    pairs of equal lengths by the seed and that epoch (tasks/fairseq_task.py:290).

    Raises:
        InputError: no pair is left.
    """

    def __init__(self, pairs: FairseqDataset, kept: np.ndarray, seed: int) -> None:
        super().__init__(pairs)
        if not kept.any():
            raise InputError(f"none of {len(pairs):,} training pairs is left; see --max-words and --require-parse")
        self.kept, self.seed = kept, seed

    def ordered_indices(self) -> np.ndarray:
        """The indices of the kept pairs, in the order in which they are cut into batches: int64, ``(kept,)``."""
        with data_utils.numpy_seed(self.seed + 1):
            indices = self.dataset.ordered_indices()
        return indices[self.kept[indices]]

    def batch_by_size(self, indices: np.ndarray, **limits: Any) -> list[np.ndarray]:
        """fairseq's batches, with the last one, which it may drop (data/data_utils.py:357)."""
        batches = super().batch_by_size(indices, **limits)
        last = indices[sum(map(len, batches)) :]
        return [*batches, last] if len(last) else batches


class ReshuffledPairs(LimitedPairs):
    """The kept pairs, shuffled anew in each epoch by the seed and the epoch, then cut into batches.

    So does the original code of tree-to-sequence. A batch mixes lengths.
    """

    can_reuse_epoch_itr_across_epochs = False
    epoch = 1

    def set_epoch(self, epoch: int) -> None:
        super().set_epoch(epoch)
        self.epoch = epoch

    def ordered_indices(self) -> np.ndarray:
        return np.random.RandomState((self.seed, self.epoch)).permutation(np.flatnonzero(self.kept))


class PooledPairs(LimitedPairs):
    """The kept pairs as Section 4.2 and Appendix B.2 of the first paper order them.

    - They are shuffled once, by ``seed``, and read in the same order in every epoch.
    - Pools of ``pool_batches`` updates (the paper: 20 updates of 80 pairs) are sorted by the length of the longer side
      and cut into batches, shortest first, so that the sentences of a batch have similar lengths. The sort is stable.

    Attributes:
        batches_per_update: processes times accumulated steps. fairseq deals the batches of a pool to the processes in
            turn: an update consists of consecutive batches, and its processes read sentences of similar lengths.
    """

    # --update-freq, and so the size of a pool, may depend on the epoch.
    can_reuse_epoch_itr_across_epochs = False

    def __init__(self, pairs: FairseqDataset, kept: np.ndarray, pool_batches: int, seed: int) -> None:
        super().__init__(pairs, kept, seed)
        self.pool_batches = pool_batches
        self.batches_per_update = 1
        self.longer_side = longer_side(pairs)
        self.order = np.random.RandomState(seed).permutation(np.flatnonzero(kept)).astype(np.int64)

    def ordered_indices(self) -> np.ndarray:
        return self.order

    def batch_by_size(
        self, indices: np.ndarray, max_tokens: int | None = None, max_sentences: int | None = None, **_: Any
    ) -> list[np.ndarray]:
        """Cut ``indices`` into pools, and each sorted pool into batches of ``max_sentences``; the last may be less."""
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
    """``pairs`` with the trees of their sources; ``net_input.trees`` of a batch are the fields of a ``Forest``.

    Args:
        transitions: the transitions of each pair, as recipes/trees/transitions.py writes them, binarized.

    Attributes:
        parsed: whether each source has a tree: bool, ``(pairs,)``.

    Raises:
        InputError: the trees do not belong to the pairs.
    """

    def __init__(self, pairs: LanguagePairDataset, transitions: Sequence[Tensor], dictionary: Dictionary) -> None:
        super().__init__(pairs)
        if len(transitions) != len(pairs):
            raise InputError(f"{len(transitions):,} trees for {len(pairs):,} sources; write both from the same text")
        self.trees: list[Tree | None] = []
        for number, words in enumerate((np.asarray(pairs.src_sizes) - 1).tolist()):
            line = " ".join(dictionary[symbol] for symbol in transitions[number].tolist()[:-1])
            try:
                # If all training sentences have a parse, the dictionary lacks the symbol for "no parse".
                tree = None if line == dictionary.unk_word else parse_transitions(line)
            except InputError as error:
                raise InputError(f"line {number + 1}: {error}") from None
            if tree is not None and tree.leaves > words:
                raise InputError(
                    f"line {number + 1}: the tree has {tree.leaves} leaves and the source {words} words; write the "
                    "trees from the same text"
                )
            self.trees.append(tree)
        self.parsed = np.array([tree is not None for tree in self.trees])

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {**self.dataset[index], "tree": self.trees[index]}

    def collater(self, samples: list[dict[str, Any]], **kwargs: Any) -> dict[str, Any]:
        """fairseq's batch, with the trees added."""
        batch = self.dataset.collater(samples, **kwargs)
        if batch:
            by_id = {sample["id"]: sample for sample in samples}
            ordered = [by_id[number] for number in batch["id"].tolist()]
            columns = batch["net_input"]["src_tokens"].size(1)
            # Lengths, not the first column without padding: a text may contain the word <pad>.
            padding = [columns - len(sample["source"]) for sample in ordered]
            first_columns = padding if self.dataset.left_pad_source else [0] * len(padding)
            forest = build_forest([sample["tree"] for sample in ordered], first_columns, columns)
            # A plain tuple: fairseq rebuilds it when it moves the tensors to a device, and would lose the NamedTuple.
            batch["net_input"]["trees"] = tuple(forest)
        return batch
