"""Sentence pairs with the trees of their source sentences."""

from typing import Any

import numpy as np
from fairseq.data import BaseWrapperDataset, Dictionary, FairseqDataset, LanguagePairDataset
from torch import Tensor

from rnnsearch_fairseq.data.pooled import within_limit
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.text.forest import build_forest
from rnnsearch_fairseq.text.trees import Tree, parse_transitions


def read_transitions(transitions: Tensor, dictionary: Dictionary) -> Tree | None:
    """The tree of a line of binarized transitions, ended by end-of-sentence; None for a sentence without a parse.

    Raises:
        InputError: if the transitions do not form a tree.
    """
    line = " ".join(dictionary[number] for number in transitions.tolist()[:-1])
    # If all training sentences have a parse, the dictionary lacks the symbol for "no parse".
    return None if line == dictionary.unk_word else parse_transitions(line)


class TreePairs(BaseWrapperDataset):
    """``pairs`` with the trees of their sources; ``net_input.trees`` of a batch are the fields of a ``Forest``.

    Args:
        transitions: the transitions of each pair, as ``rnnsearch trees`` writes them.
        dictionary: the dictionary of the transitions.
        max_words: leave out pairs with more words than this on either side, end-of-sentence not counted.
        require_parse: leave out pairs without a parse.
        seed: shuffle the pairs anew in each epoch, by the seed and the epoch, and cut them into batches in that order,
            as the original code does; None batches sentences of similar lengths, as fairseq does.

    Raises:
        InputError: if the trees do not belong to the pairs, or no pair is left.
    """

    def __init__(
        self,
        pairs: LanguagePairDataset,
        transitions: FairseqDataset,
        dictionary: Dictionary,
        max_words: int | None = None,
        require_parse: bool = False,
        seed: int | None = None,
    ) -> None:
        super().__init__(pairs)
        self.seed = seed
        self.epoch = 1
        self.transitions = transitions
        self.tree_dict = dictionary
        if len(transitions) != len(pairs):
            raise InputError(
                f"there are {len(transitions):,} trees for {len(pairs):,} sources; write both from the same text"
            )
        parsed = np.zeros(len(pairs), dtype=bool)
        for number in range(len(transitions)):  # now, so that no training fails on a bad line later
            try:
                parsed[number] = read_transitions(transitions[number], dictionary) is not None
            except InputError as error:
                raise InputError(f"line {number + 1}: {error}") from None
        leaves = np.asarray(transitions.sizes) // 2  # a tree of n leaves is n S, n - 1 R and end-of-sentence
        for number in np.flatnonzero(parsed & (leaves > np.asarray(pairs.src_sizes) - 1)).tolist():
            raise InputError(
                f"line {number + 1}: the tree has {leaves[number]} leaves and the source "
                f"{pairs.src_sizes[number] - 1} words; write the trees from the same text"
            )
        kept = within_limit(pairs, max_words)
        if require_parse:
            kept &= parsed
        if not kept.any():
            raise InputError(f"none of {len(pairs):,} pairs is left; see --max-words and --require-parse")
        self.kept = kept

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {**self.dataset[index], "tree": self.transitions[index]}

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch, from 1, whose order :meth:`ordered_indices` gives."""
        super().set_epoch(epoch)
        self.epoch = epoch

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        """Whether all epochs have the same batches."""
        return self.seed is None

    def ordered_indices(self) -> np.ndarray:
        """The indices of the kept pairs, in the order in which they are cut into batches: int64, ``(kept,)``."""
        if self.seed is not None:
            return np.random.RandomState((self.seed, self.epoch)).permutation(np.flatnonzero(self.kept))
        indices = self.dataset.ordered_indices()
        return indices[self.kept[indices]]

    def collater(self, samples: list[dict[str, Any]], **kwargs: Any) -> dict[str, Any]:
        """fairseq's batch, with the trees added."""
        batch = self.dataset.collater(samples, **kwargs)
        if batch:
            by_id = {sample["id"]: sample for sample in samples}
            ordered = [by_id[number] for number in batch["id"].tolist()]
            trees = [read_transitions(sample["tree"], self.tree_dict) for sample in ordered]
            columns = batch["net_input"]["src_tokens"].size(1)
            # Lengths, not the first column without padding: a text may contain the word <pad>.
            padding = [columns - len(sample["source"]) for sample in ordered]
            first_columns = padding if self.dataset.left_pad_source else [0] * len(padding)
            # A plain tuple: fairseq rebuilds it when it moves the tensors to a device, and would lose the NamedTuple.
            batch["net_input"]["trees"] = tuple(build_forest(trees, first_columns, columns))
        return batch
