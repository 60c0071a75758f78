"""fairseq's translation task with a tree for each source sentence."""

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairseq import utils
from fairseq.data import Dictionary, LanguagePairDataset, data_utils
from fairseq.tasks import register_task

from rnnsearch_fairseq.data.tree_pairs import TreePairs
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.tasks.generation import SearchTask, SearchTaskConfig

logger = logging.getLogger(__name__)


@dataclass
class TreeTranslationConfig(SearchTaskConfig):
    """The options of ``translation`` and of the searches, and two for trees and the choice of training pairs."""

    tree_lang: str = field(
        default="tree",
        metadata={"help": "suffix of the files of transitions (fairseq-preprocess --only-source -s SUFFIX)"},
    )
    require_parse: bool = field(default=False, metadata={"help": "leave out training pairs without a parse"})


@register_task("tree_translation", dataclass=TreeTranslationConfig)
class TreeTranslationTask(SearchTask):
    """``translation`` with the transitions of ``rnnsearch trees`` as a third language.

    The training pairs are shuffled anew in each epoch before they are cut into batches, as in the original code.
    """

    cfg: TreeTranslationConfig
    has_trees = True

    def __init__(self, cfg: TreeTranslationConfig, src_dict: Dictionary, tgt_dict: Dictionary) -> None:
        """Load the dictionary of transitions.

        Raises:
            InputError: it is missing.
        """
        super().__init__(cfg, src_dict, tgt_dict)
        path = Path(utils.split_paths(cfg.data)[0], f"dict.{cfg.tree_lang}.txt")
        if not path.is_file():
            raise InputError(
                f"{path}: no such file; binarize the trees into the same folder by "
                f"fairseq-preprocess --only-source -s {cfg.tree_lang}"
            )
        self.tree_dict = self.load_dictionary(str(path))

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

    def build_dataset_for_inference(self, *args: Any, **kwargs: Any) -> LanguagePairDataset:
        """fairseq-interactive has no place for trees.

        Raises:
            InputError: always.
        """
        raise InputError("fairseq-interactive reads no trees; translate by rnnsearch translate --trees")
