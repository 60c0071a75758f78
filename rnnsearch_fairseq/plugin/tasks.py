"""fairseq's translation task with the training pairs, trees and searches of both papers."""

import logging
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Optional

import numpy as np
import torch
from fairseq import utils
from fairseq.data import Dictionary, FairseqDataset, LanguagePairDataset, data_utils
from fairseq.data.iterators import EpochBatchIterator
from fairseq.dataclass import ChoiceEnum
from fairseq.dataclass.configs import GenerationConfig
from fairseq.models import BaseFairseqModel
from fairseq.optim import FairseqOptimizer, FP16Optimizer
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from fairseq_cli.train import should_stop_early
from omegaconf import II
from torch import Tensor

from rnnsearch_fairseq.command_line import described, option
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.modules.symbols import EOS, PAD
from rnnsearch_fairseq.modules.tree_lstm import Forest
from rnnsearch_fairseq.plugin.data import LimitedPairs, PooledPairs, ReshuffledPairs, TreePairs, longer_side
from rnnsearch_fairseq.search import BeamSearch, Hypothesis, SearchModel, SearchOptions, make_search
from rnnsearch_fairseq.search.options import SEARCHES

logger = logging.getLogger(__name__)

HELP = {known.name: known.metadata["help"] for known in fields(SearchOptions)}
COLUMNS_ON_GPU = 8  # their number is rounded up to a multiple of this, since each shape of a loop is recorded once
# Options of fairseq's generator that the searches of this package do not have.
FAIRSEQ_ONLY = ["sampling", "diverse_beam_groups", "diversity_rate", "match_source_len", "constraints", "prefix_size"]
FAIRSEQ_ONLY += ["no_repeat_ngram_size", "temperature", "lm_path", "score_reference"]


@dataclass
class RNNsearchTaskConfig(TranslationConfig):
    """The options of ``translation``, and options for the choice and the order of the training pairs, for trees and for
    the search."""

    max_words: Optional[int] = described(  # noqa: UP045 (fairseq reads the type's name)
        None,
        "leave out training pairs with more words than this on either side, without end-of-sentence (the papers: 30 "
        "or 50; default: no limit)",
    )
    pool_batches: Optional[int] = described(  # noqa: UP045
        None,
        "shuffle the training pairs once, and sort the pairs of this many updates (of all processes) by length (the "
        "first paper: 20; default: fairseq's batches, in another order in each epoch)",
    )
    tree_lang: Optional[str] = described(  # noqa: UP045
        None,
        "suffix of the files of transitions (fairseq-preprocess --only-source -s SUFFIX); the training pairs are "
        "shuffled anew in each epoch before they are cut into batches (default: no trees)",
    )
    require_parse: bool = described(False, "leave out training pairs without a parse")
    search: ChoiceEnum(list(SEARCHES)) = described("fairseq", HELP["search"])  # type: ignore[valid-type]
    length_statistics: Optional[str] = described(None, HELP["length_statistics"])  # noqa: UP045
    max_source_positions: int = described(1_000_000, "leave out longer source sentences")
    max_target_positions: int = described(1_000_000, "leave out longer target sentences")
    cpu: bool = II("common.cpu")
    seed: int = II("common.seed")
    update_freq: Any = II("optimization.update_freq")
    # A training that goes on from a checkpoint is compared with it in all options of the task.
    best_checkpoint_metric: str = II("checkpoint.best_checkpoint_metric")
    maximize_best_checkpoint_metric: bool = II("checkpoint.maximize_best_checkpoint_metric")


@register_task("rnnsearch", dataclass=RNNsearchTaskConfig)
class RNNsearchTask(TranslationTask):
    """``translation`` that leaves out no sentence, reads trees, and resumes exactly from its checkpoints."""

    cfg: RNNsearchTaskConfig

    def __init__(self, cfg: RNNsearchTaskConfig, src_dict: Dictionary, tgt_dict: Dictionary) -> None:
        super().__init__(cfg, src_dict, tgt_dict)
        self.optimizer: FairseqOptimizer | None = None
        self.float32: list[Tensor] | None = None
        self.pairs = 0  # a checksum of the lengths of the training pairs
        self.has_trees = cfg.tree_lang is not None
        if self.has_trees:
            if cfg.truncate_source:
                raise InputError("--truncate-source would leave trees without their words; leave it or the trees out")
            path = Path(utils.split_paths(cfg.data)[0], f"dict.{cfg.tree_lang}.txt")
            if not path.is_file():
                raise _no_trees(path, cfg.tree_lang)
            self.tree_dict = self.load_dictionary(str(path))

    @classmethod
    def setup_task(cls, cfg: RNNsearchTaskConfig, **kwargs: Any) -> "RNNsearchTask":
        folder = Path(utils.split_paths(cfg.data)[0])
        if not any(folder.glob("dict.*.txt")):
            raise InputError(f"{folder}: no dictionaries are there; give the --destdir of fairseq-preprocess")
        if None in (cfg.source_lang, cfg.target_lang):  # fairseq might take the suffix of the trees
            pairs = {path.name.split(".")[1] for path in folder.glob("*.*-*.*")}
            texts = sorted(pair for pair in pairs if pair.count("-") == 1 and not pair.endswith("-None"))
            if texts:
                cfg.source_lang, cfg.target_lang = texts[0].split("-")
        return super().setup_task(cfg, **kwargs)

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any) -> None:
        """Load a split and its trees; choose the training pairs within the limits, and log their number."""
        try:
            super().load_dataset(split, epoch, combine, **kwargs)
        except AssertionError as error:  # the sides differ in size
            raise InputError(f"{self.cfg.data}: {split}: {error}") from error
        if torch.cuda.is_available() and not self.cfg.cpu:
            pairs = self.datasets[split]
            pairs.pad_to_multiple = max(pairs.pad_to_multiple, COLUMNS_ON_GPU)
        if self.has_trees:
            self.datasets[split] = self._add_trees(self.datasets[split], split, epoch)
        if split == self.cfg.train_subset:
            self.datasets[split] = self._choose_pairs(self.datasets[split], split)

    def _add_trees(self, pairs: LanguagePairDataset, split: str, epoch: int) -> TreePairs:
        paths, suffix = utils.split_paths(self.cfg.data), self.cfg.tree_lang
        path = f"{paths[(epoch - 1) % len(paths)]}/{split}.{suffix}-None.{suffix}"
        transitions = data_utils.load_indexed_dataset(path, self.tree_dict, self.cfg.dataset_impl)
        if transitions is None:
            raise _no_trees(path, suffix)
        return TreePairs(pairs, transitions, self.tree_dict, path)

    def _choose_pairs(self, pairs: FairseqDataset, split: str) -> LimitedPairs:
        chosen = longer_side(pairs) <= (np.inf if self.cfg.max_words is None else self.cfg.max_words)
        if self.cfg.require_parse:
            if not self.has_trees:
                raise InputError("--require-parse needs trees; give --tree-lang SUFFIX")
            chosen &= pairs.parsed
        if len(utils.split_paths(self.cfg.data)) == 1:  # else each epoch has other pairs
            self.pairs = zlib.crc32(np.ascontiguousarray(np.asarray(pairs.sizes)[chosen]))
        logger.info(f"{split}: kept {chosen.sum():,} of {len(pairs):,} pairs, dropped {(~chosen).sum():,}")
        if self.cfg.pool_batches:
            return PooledPairs(pairs, chosen, self.cfg.pool_batches, self.cfg.seed)
        return (ReshuffledPairs if self.has_trees else LimitedPairs)(pairs, chosen, self.cfg.seed)

    def get_batch_iterator(self, dataset: FairseqDataset, **options: Any) -> EpochBatchIterator:
        """As in fairseq, but with the last batch of every split, and with pooled batches in their own order."""
        if not isinstance(dataset, LimitedPairs):
            options["required_batch_size_multiple"] = 1  # fairseq's 8 may drop sentences (data/data_utils.py:357)
        if isinstance(dataset, PooledPairs):
            steps = self.cfg.update_freq[min(options.get("epoch", 1), len(self.cfg.update_freq)) - 1]
            dataset.batches_per_update = options.get("num_shards", 1) * steps
        iterator = super().get_batch_iterator(dataset, **options)
        iterator.persistent_workers = False  # each with a copy of the data, they would survive the epoch
        if isinstance(dataset, PooledPairs):
            iterator.disable_shuffling, iterator.shuffle = True, False
        return iterator

    def optimizer_step(self, optimizer: FairseqOptimizer, model: BaseFairseqModel, update_num: int) -> None:
        """As in fairseq, but the first update after loading a checkpoint starts from its float32 parameters."""
        if self.float32 is not None and isinstance(optimizer, FP16Optimizer):
            for parameter, saved in zip(optimizer.fp32_optimizer.params, self.float32, strict=True):
                parameter.data.copy_(saved)
        self.optimizer, self.float32 = optimizer, None
        super().optimizer_step(optimizer, model, update_num)

    def get_checkpoint_dict(self) -> dict[str, Any]:
        """What fairseq does not save: its count for --patience (attributes of a function), and float32 parameters."""
        state: dict[str, Any] = {"patience": dict(vars(should_stop_early)), "pairs": self.pairs}
        if isinstance(self.optimizer, FP16Optimizer):
            parameters = self.optimizer.fp32_optimizer.params
            state["float32"] = [parameter.detach().cpu() for parameter in parameters]
        return {type(self).__name__: state}

    def set_checkpoint_dict(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`get_checkpoint_dict` saved, if it was saved with the same training pairs."""
        if state["pairs"] != self.pairs:
            reason = "the checkpoint's training had other pairs, or other limits (--max-words, --require-parse)"
            raise InputError(f"{reason}; give those, --reset-dataloader or another --save-dir")
        vars(should_stop_early).update(state["patience"])
        self.float32 = state.get("float32")

    def build_generator(self, models: Sequence[BaseFairseqModel], args: Any, **extra: Any) -> Any:
        """Build a generator. Models of this package get a search of this package, unless an option is set that only
        fairseq's search has."""
        search, defaults = str(self.cfg.search), GenerationConfig()
        options = {name: getattr(args, name) for name in HELP if hasattr(args, name)}
        options |= {"search": search, "length_statistics": self.cfg.length_statistics}
        beam_search = make_search(SearchOptions(**options))
        fairseqs = [name for name in FAIRSEQ_ONLY if getattr(args, name, None) not in (None, getattr(defaults, name))]
        if search == "fairseq" and (fairseqs or any(None in halves(model) for model in models)):
            return super().build_generator(models, args, **extra)
        if fairseqs:
            raise InputError(f"{option(fairseqs[0])} has no effect with --search {search}; leave one of them out")
        return Generator(models, beam_search, getattr(args, "print_alignment", None))

    def begin_valid_epoch(self, epoch: int, model: BaseFairseqModel) -> None:
        """As in fairseq, but the generator of --eval-bleu takes the current parameters."""
        super().begin_valid_epoch(epoch, model)
        if self.cfg.eval_bleu and isinstance(self.sequence_generator, Generator):
            self.sequence_generator.search_model = None


class Generator:
    """A search of this package in fairseq-generate, fairseq-interactive and --eval-bleu.

    ``print_alignment`` is "hard" or "soft" to set the hypotheses' ``alignment``, which fairseq prints.
    """

    def __init__(self, models: Sequence[BaseFairseqModel], search: BeamSearch, print_alignment: str | None) -> None:
        self.models, self.search, self.print_alignment, self.eos = models, search, print_alignment, EOS
        for model in models:
            model.eval()
        self.search_model: SearchModel | None = None  # built from the parameters at the first batch

    def generate(self, models: Any, sample: dict[str, Any], **unused: None) -> list[list[dict[str, Any]]]:
        """Translate a batch: fairseq's hypotheses of each sentence, best first. ``models`` are the constructor's."""
        words, trees = sample["net_input"]["src_tokens"], sample["net_input"].get("trees")
        if self.search_model is None:
            self.search_model = SearchModel(list(map(halves, self.models)))
        batch = self.search.search(self.search_model, words, None if trees is None else Forest(*trees))
        return [[self._convert(hypothesis, row) for hypothesis in best] for best, row in zip(batch, words.cpu())]

    def _convert(self, hypothesis: Hypothesis, source: Tensor) -> dict[str, Any]:
        tokens, attention, alignment = torch.tensor(hypothesis.words), torch.empty(0), []
        if hypothesis.weights is not None:
            attention = hypothesis.weights[:, : len(source)].T  # (src_len, tgt_len)
            if self.print_alignment is not None:
                extract = getattr(utils, f"extract_{self.print_alignment}_alignment")
                alignment = extract(attention.T, source, tokens, PAD, EOS)
        return {
            "tokens": tokens,
            "score": torch.tensor(hypothesis.score, dtype=torch.float64),
            "attention": attention,
            "alignment": alignment,
            "positional_scores": hypothesis.logprobs,
        }


def _no_trees(path: str | Path, suffix: str) -> InputError:
    cure = f"binarise the trees with fairseq-preprocess --only-source -s {suffix}, as recipes/README.md shows"
    return InputError(f"{path}: no such trees; {cure}")


def halves(model: BaseFairseqModel) -> tuple[Any, Any]:
    """The encoder and decoder of a model of this package; None for each in another model."""
    return getattr(model.encoder, "network", None), getattr(model.decoder, "network", None)
