"""fairseq's translation task with the paper's training batches."""

import logging
from dataclasses import dataclass, field
from typing import Any

from fairseq.data import FairseqDataset
from fairseq.data.iterators import EpochBatchIterator
from fairseq.tasks import register_task
from omegaconf import II

from rnnsearch_fairseq.data.pooled import PooledPairs
from rnnsearch_fairseq.tasks.generation import SearchTask, SearchTaskConfig

logger = logging.getLogger(__name__)


@dataclass
class PooledTranslationConfig(SearchTaskConfig):
    """The options of ``translation`` and of the searches, and one for the paper's order of the training pairs."""

    pool_batches: int = field(
        default=20,
        metadata={"help": "updates (of all processes) whose sentences are sorted by length together (the paper: 20)"},
    )
    update_freq: Any = II("optimization.update_freq")


@register_task("pooled_translation", dataclass=PooledTranslationConfig)
class PooledTranslationTask(SearchTask):
    """``translation`` with :class:`~rnnsearch_fairseq.data.pooled.PooledPairs` for training."""

    cfg: PooledTranslationConfig

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any) -> None:
        """Load ``split``; keep only the training pairs within the length limit, and log how many were dropped."""
        super().load_dataset(split, epoch, combine, **kwargs)
        if split != self.cfg.train_subset:
            return
        pairs = self.datasets[split]
        pooled = PooledPairs(pairs, self.cfg.max_words, self.cfg.pool_batches, self.cfg.seed)
        self.datasets[split] = pooled
        kept = len(pooled.order)
        limit = "no length limit" if self.cfg.max_words is None else f"at most {self.cfg.max_words} words a side"
        logger.info(f"{split}: {limit}: kept {kept:,} of {len(pairs):,} pairs, dropped {len(pairs) - kept:,}")

    def can_reuse_epoch_itr(self, dataset: FairseqDataset) -> bool:
        """As in fairseq, but false for pooled pairs if ``--update-freq``, and so the pool size, varies by epoch."""
        depends = isinstance(dataset, PooledPairs) and len(set(self.cfg.update_freq)) > 1
        return not depends and super().can_reuse_epoch_itr(dataset)

    def get_batch_iterator(self, dataset: FairseqDataset, **options: Any) -> EpochBatchIterator:
        """As in fairseq, but without its shuffling in every epoch, so that pooled batches keep their order."""
        if not isinstance(dataset, PooledPairs):
            return super().get_batch_iterator(dataset, **options)
        processes, epoch = options.get("num_shards", 1), options.get("epoch", 1)
        steps = self.cfg.update_freq[min(epoch, len(self.cfg.update_freq)) - 1]
        dataset.batches_per_update = processes * steps
        is_new = dataset not in self.dataset_to_epoch_iter
        iterator = super().get_batch_iterator(dataset, **options)
        iterator.disable_shuffling, iterator.shuffle = True, False
        if is_new:
            size = options["max_sentences"]
            logger.info(
                f"sentences in an update: {size * dataset.batches_per_update:,} "
                f"(--batch-size {size} x {processes} processes x --update-freq {steps})"
            )
        return iterator
