"""fairseq's translation task with a tree for each source sentence."""

import collections
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from fairseq import utils
from fairseq.data import Dictionary, LanguagePairDataset, ListDataset, data_utils
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationTask
from omegaconf import II
from torch import Tensor

from rnnsearch_fairseq.data.tree_pairs import TreePairs, encode_transitions
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.tasks.base import explain_missing_data
from rnnsearch_fairseq.tasks.generation import SearchTask, SearchTaskConfig
from rnnsearch_fairseq.text.trees import parse_transitions

logger = logging.getLogger(__name__)


@dataclass
class TreeTranslationConfig(SearchTaskConfig):
    """The options of ``translation`` and of the searches, and three for trees and the choice of training pairs."""

    tree_lang: str = field(
        default="tree",
        metadata={"help": "suffix of the files of transitions (fairseq-preprocess --only-source -s SUFFIX)"},
    )
    max_words: Optional[int] = field(  # noqa: UP045 (fairseq reads the type's name)
        default=None,
        metadata={
            "help": "leave out training pairs with more words than this on either side, end-of-sentence not counted "
            "(the paper: 50; default: no limit)"
        },
    )
    require_parse: bool = field(default=False, metadata={"help": "leave out training pairs without a parse"})
    seed: int = II("common.seed")


@register_task("tree_translation", dataclass=TreeTranslationConfig)
class TreeTranslationTask(SearchTask):
    """``translation`` with the transitions of ``rnnsearch trees`` as a third language.

    The training pairs are shuffled anew in each epoch before they are cut into batches, as in the original code.

    A line typed into ``fairseq-interactive`` is a source sentence, a tab and its transitions. Without transitions, the
    sentence has no parse.
    """

    cfg: TreeTranslationConfig
    has_trees = True

    def __init__(
        self, cfg: TreeTranslationConfig, src_dict: Dictionary, tgt_dict: Dictionary, tree_dict: Dictionary
    ) -> None:
        super().__init__(cfg, src_dict, tgt_dict)
        self.tree_dict = tree_dict
        self.typed: collections.deque[tuple[Any, ...]] = collections.deque()

    @classmethod
    def setup_task(cls, cfg: TreeTranslationConfig, **kwargs: Any) -> "TreeTranslationTask":
        """Load the dictionaries.

        Raises:
            InputError: the data folder or a dictionary is missing.
        """
        with explain_missing_data(cfg):
            if cfg.source_lang is None or cfg.target_lang is None:
                cfg.source_lang, cfg.target_lang = infer_languages(utils.split_paths(cfg.data)[0], cfg.tree_lang)
            plain = TranslationTask.setup_task(cfg, **kwargs)
        path = Path(utils.split_paths(cfg.data)[0], f"dict.{cfg.tree_lang}.txt")
        if not path.is_file():
            raise InputError(
                f"{path}: no such file; binarize the trees into the same folder by "
                f"fairseq-preprocess --only-source -s {cfg.tree_lang}"
            )
        return cls(cfg, plain.source_dictionary, plain.target_dictionary, cls.load_dictionary(str(path)))

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any) -> None:
        """Load ``split`` and its trees; log how many training pairs were dropped.

        Raises:
            InputError: if the trees are missing or do not belong to the source.
        """
        super().load_dataset(split, epoch, combine, **kwargs)
        pairs = self.datasets[split]
        paths = utils.split_paths(self.cfg.data)
        path = str(Path(paths[(epoch - 1) % len(paths)], f"{split}.{self.cfg.tree_lang}-None.{self.cfg.tree_lang}"))
        transitions = data_utils.load_indexed_dataset(path, self.tree_dict, self.cfg.dataset_impl)
        if transitions is None:
            raise InputError(
                f"{path}: no trees for {split}; binarize them by "
                f"fairseq-preprocess --only-source -s {self.cfg.tree_lang} --srcdict DICT"
            )
        trains = split == self.cfg.train_subset
        limits = (self.cfg.max_words, self.cfg.require_parse, self.cfg.seed) if trains else ()
        try:
            self.datasets[split] = with_trees = TreePairs(pairs, transitions, self.tree_dict, *limits)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
        if trains:
            kept = int(with_trees.kept.sum())
            logger.info(f"{split}: kept {kept:,} of {len(pairs):,} pairs, dropped {len(pairs) - kept:,}")

    def get_interactive_tokens_and_lengths(
        self, lines: list[str], encode_fn: Any
    ) -> tuple[list[tuple[Tensor, Tensor]], list[int]]:
        """Split typed lines into sentences and trees."""
        split = [line.partition("\t") for line in lines]
        tokens, lengths = super().get_interactive_tokens_and_lengths([source for source, _, _ in split], encode_fn)
        trees = [encode_transitions(tree or "-", self.tree_dict) for _, _, tree in split]
        return list(zip(tokens, trees)), lengths

    def check_typed(self, line: str, words: int) -> str | None:
        """The reason why a typed line, whose sentence has ``words`` words, cannot be translated; None if it can."""
        try:
            tree = parse_transitions(line.partition("\t")[2] or "-", "the tree")
        except InputError as error:
            return str(error)
        if tree is not None and tree.leaves > words:
            return f"the tree has {tree.leaves:,} leaves and the sentence {words:,} words"
        return None

    def build_dataset_for_inference(
        self, src_tokens: list[Any], src_lengths: list[int], constraints: Tensor | None = None
    ) -> "TypedTrees":
        """The data set of sentences to translate; those without a tree have no parse.

        Args:
            src_tokens: pairs from :meth:`get_interactive_tokens_and_lengths`, or token tensors.
        """
        unparsed = encode_transitions("-", self.tree_dict)
        typed = [line if isinstance(line, tuple) else (line, unparsed) for line in src_tokens]
        sources = [source for source, _ in typed]
        pairs = super().build_dataset_for_inference(sources, src_lengths, constraints)
        return TypedTrees(pairs, [tree for _, tree in typed], self)

    def inference_step(
        self, generator: Any, models: Any, sample: dict[str, Any], *args: Any, **kwargs: Any
    ) -> list[list[dict[str, Tensor]]]:
        """As in fairseq. ``fairseq-interactive`` drops a batch's trees, which are therefore queued in ``typed``."""
        typed = self.typed.popleft() if self.typed else None
        if "trees" not in sample["net_input"]:
            device = sample["net_input"]["src_tokens"].device
            trees = utils.apply_to_sample(lambda tensor: tensor.to(device), typed)
            sample = {**sample, "net_input": {**sample["net_input"], "trees": trees}}
        return super().inference_step(generator, models, sample, *args, **kwargs)


def infer_languages(folder: str, tree_lang: str) -> tuple[str | None, str | None]:
    """The languages in the names of the files. fairseq takes the first file that it finds, which may be the trees."""
    for path in sorted(Path(folder).glob("*.*-*.*")):
        source, _, target = path.name.split(".")[1].partition("-")
        if source != tree_lang and target and not path.name.startswith("dict."):
            return source, target
    return None, None


class TypedTrees(TreePairs):
    """Typed sentences with trees; the trees of each batch are also queued in the task's ``typed``."""

    def __init__(self, pairs: LanguagePairDataset, transitions: list[Tensor], task: TreeTranslationTask) -> None:
        super().__init__(pairs, ListDataset(transitions, list(map(len, transitions))), task.tree_dict)
        self.task = task

    def collater(self, samples: list[dict[str, Any]], **kwargs: Any) -> dict[str, Any]:
        batch = super().collater(samples, **kwargs)
        self.task.typed.append(batch["net_input"]["trees"])
        return batch
