"""Sentence pairs with the trees of their source sentences."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from fairseq.data import BaseWrapperDataset, Dictionary, LanguagePairDataset
from torch import Tensor

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.text.forest import build_forest
from rnnsearch_fairseq.text.trees import Tree, parse_transitions


class TreePairs(BaseWrapperDataset):
    """``pairs`` with the trees of their sources; ``net_input.trees`` of a batch are the fields of a ``Forest``.

    Args:
        transitions: the transitions of each pair, as ``rnnsearch trees`` writes them, binarized.

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
