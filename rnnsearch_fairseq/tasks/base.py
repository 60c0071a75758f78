"""What the two tasks share."""

import contextlib
from collections.abc import Iterator
from typing import Any

from fairseq.data import FairseqDataset
from fairseq.data.iterators import EpochBatchIterator
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from rnnsearch_fairseq.data.workers import CollateInWorker
from rnnsearch_fairseq.errors import InputError


class PaperTask(TranslationTask):
    """fairseq's translation task, with errors in one sentence, and workers that a SIGTERM to all processes spares."""

    @classmethod
    def setup_task(cls, cfg: TranslationConfig, **kwargs: Any) -> "PaperTask":
        """Load the dictionaries.

        Raises:
            InputError: the data folder or a dictionary is missing.
        """
        with explain_missing_data(cfg):
            return super().setup_task(cfg, **kwargs)

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any) -> None:
        """Load a split.

        Raises:
            InputError: it is missing, or its sides have different numbers of sentences.
        """
        data, pair = self.cfg.data, f"{self.cfg.source_lang}-{self.cfg.target_lang}"
        try:
            super().load_dataset(split, epoch, combine, **kwargs)
        except FileNotFoundError as error:
            raise InputError(
                f"{data}: no {split} data for {pair}; write it with fairseq-preprocess, or name another split by "
                "--train-subset, --valid-subset or --gen-subset"
            ) from error
        except AssertionError as error:
            raise InputError(
                f"{data}: the sides of the {split} data for {pair} do not fit each other ({error}); write both again "
                "in one run of fairseq-preprocess"
            ) from error

    def get_batch_iterator(self, dataset: FairseqDataset, *args: Any, **kwargs: Any) -> EpochBatchIterator:
        """As in fairseq, with workers that hear SIGTERM from their parent only."""
        iterator = super().get_batch_iterator(dataset, *args, **kwargs)
        if not isinstance(iterator.collate_fn, CollateInWorker):
            iterator.collate_fn = CollateInWorker(iterator.collate_fn)
        return iterator


@contextlib.contextmanager
def explain_missing_data(cfg: TranslationConfig) -> Iterator[None]:
    """Raise `InputError` where the data folder or a dictionary is missing."""
    if getattr(cfg, "data", None) is None:
        raise InputError(
            "no data is named; give the --destdir of a finished fairseq-preprocess, under Hydra as task.data=FOLDER"
        )
    try:
        yield
    except FileNotFoundError as error:
        raise InputError(
            f"{error.filename}: no such file or directory; give the --destdir of a finished fairseq-preprocess"
        ) from error
