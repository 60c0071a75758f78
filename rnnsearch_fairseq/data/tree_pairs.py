"""Sentence pairs whose sources have trees."""

from typing import Any, NamedTuple

import numpy as np
import torch
from fairseq.data import BaseWrapperDataset, Dictionary, FairseqDataset, LanguagePairDataset
from torch import Tensor

from rnnsearch_fairseq.data.forest import plant
from rnnsearch_fairseq.errors import InputError


class TransitionIds(NamedTuple):
    """The ids of the transitions in the dictionary of the binarized trees; -1 of one that the corpus never has."""

    shift: int
    reduce: int
    no_parse: int
    unknown: int

    @classmethod
    def of(cls, dictionary: Dictionary) -> "TransitionIds":
        """Look ``S``, ``R`` and ``-`` up."""
        return cls(*(dictionary.indices.get(symbol, -1) for symbol in ("S", "R", "-")), dictionary.unk())

    def joins(self, transitions: Tensor) -> list[bool] | None:
        """Whether each of a line of transitions, ended by end-of-sentence, joins; None of no parse.

        Raises:
            InputError: if they make no tree.
        """
        ids = transitions.tolist()[:-1]
        if ids in ([self.no_parse], [self.unknown]):  # the second where no training sentence is without a parse
            return None
        height = 0
        for number in ids:
            height += {self.shift: 1, self.reduce: -1}.get(number, -len(ids))
            if height < 1:
                break
        if height != 1:
            raise InputError("a line of transitions makes no tree; write them by python -m rnnsearch_fairseq.trees")
        return [number == self.reduce for number in ids]


class TreePairs(BaseWrapperDataset):
    """``pairs`` with the trees of their sources; a batch has them as ``net_input.trees``, the fields of a forest.

    Args:
        transitions: of each pair, as ``python -m rnnsearch_fairseq.trees`` writes them.
        max_words: leave out pairs with more words than this on either side, end-of-sentence not counted.
        require_parse: leave out pairs without a parse.

    Raises:
        InputError: if the trees are not those of the pairs, or no pair is left.
    """

    def __init__(
        self,
        pairs: LanguagePairDataset,
        transitions: FairseqDataset,
        symbols: TransitionIds,
        max_words: int | None = None,
        require_parse: bool = False,
    ) -> None:
        super().__init__(pairs)
        self.transitions = transitions
        self.symbols = symbols
        if len(transitions) != len(pairs):
            raise InputError(
                f"there are {len(transitions):,} trees for {len(pairs):,} sources; write both from the same text"
            )
        sizes = np.asarray(transitions.sizes)
        leaves = sizes // 2  # n leaves are n S, n - 1 R and end-of-sentence
        if len(wrong := np.flatnonzero(sizes % 2 == 1)):
            raise InputError(f"line {wrong[0] + 1} makes no tree; write it by python -m rnnsearch_fairseq.trees")
        if len(wrong := np.flatnonzero(leaves > np.asarray(pairs.src_sizes) - 1)):
            number = int(wrong[0])
            raise InputError(
                f"line {number + 1}: the tree has {leaves[number]} leaves and the source "
                f"{pairs.src_sizes[number] - 1} words; write the trees from the same text"
            )
        kept = np.ones(len(pairs), dtype=bool)
        if max_words is not None:
            longer_side = pairs.src_sizes if pairs.tgt_sizes is None else np.maximum(pairs.src_sizes, pairs.tgt_sizes)
            kept &= longer_side - 1 <= max_words
        if require_parse:
            # One transition and end-of-sentence: a tree of one word, or none.
            shortest = np.flatnonzero(sizes == 2)
            kept[[number for number in shortest if symbols.joins(transitions[int(number)]) is None]] = False
        if not kept.any():
            raise InputError(f"none of {len(pairs):,} pairs is left; see --max-words and --require-parse")
        self.kept = kept

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {**self.dataset[index], "tree": self.transitions[index]}

    def ordered_indices(self) -> np.ndarray:
        """The pairs that are kept, in the order in which fairseq batches them."""
        indices = self.dataset.ordered_indices()
        return indices[self.kept[indices]]

    def collater(self, samples: list[dict[str, Any]], **kwargs: Any) -> dict[str, Any]:
        """A batch as fairseq makes it, with its trees."""
        batch = self.dataset.collater(samples, **kwargs)
        if batch:
            tree = {sample["id"]: sample["tree"] for sample in samples}
            trees = [tree[number] for number in batch["id"].tolist()]
            add_trees(batch, trees, self.symbols, self.dataset.src_dict.pad())
        return batch


def add_trees(batch: dict[str, Any], transitions: list[Tensor], symbols: TransitionIds, pad: int) -> None:
    """Put the trees of a batch, in the order of its sentences, among its inputs."""
    is_word = batch["net_input"]["src_tokens"].ne(pad)
    first_columns = is_word.long().argmax(dim=1).tolist()
    joins = [symbols.joins(line) for line in transitions]
    # A tuple: fairseq moves its tensors to the device, and forgets what kind of tuple it was.
    batch["net_input"]["trees"] = tuple(plant(joins, first_columns, is_word.size(1)))


def encode_transitions(line: str, dictionary: Dictionary) -> Tensor:
    """The ids of a line of transitions, typed beside a sentence to translate."""
    return dictionary.encode_line(line, add_if_not_exist=False).to(torch.long)
