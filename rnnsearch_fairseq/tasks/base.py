"""What the two tasks share."""

from pathlib import Path
from typing import Any

from fairseq import utils
from fairseq.data import FairseqDataset
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from rnnsearch_fairseq.data.position import CheckedIterator
from rnnsearch_fairseq.data.workers import CollateInWorker
from rnnsearch_fairseq.errors import InputError


class PaperTask(TranslationTask):
    """fairseq's translation task.

    Bad data is reported in one sentence, and no training goes on within an epoch whose pairs or batches have changed.
    """

    @classmethod
    def setup_task(cls, cfg: TranslationConfig, **kwargs: Any) -> "PaperTask":
        """Choose the languages, where none are named, and load their dictionaries.

        Raises:
            InputError: the data folder or a dictionary is missing.
        """
        if getattr(cfg, "data", None) is None:
            raise InputError(
                "no data is named; give the --destdir of a finished fairseq-preprocess, under Hydra as task.data=FOLDER"
            )
        folder = Path(utils.split_paths(cfg.data)[0])
        if cfg.source_lang is None or cfg.target_lang is None:
            cfg.source_lang, cfg.target_lang = _infer_languages(folder, getattr(cfg, "tree_lang", None))
        for language in (cfg.source_lang, cfg.target_lang):
            if language is None or not (folder / f"dict.{language}.txt").is_file():
                missing = "pair of languages" if language is None else f"dict.{language}.txt"
                near = any((folder / "bin").glob("dict.*.txt"))
                cure = f"give {folder / 'bin'}" if near else "give the --destdir of a finished fairseq-preprocess"
                raise InputError(f"{folder}: no such folder of data, or no {missing} in it; {cure}")
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

    def get_batch_iterator(self, dataset: FairseqDataset, **options: Any) -> CheckedIterator:
        """As in fairseq, with workers that hear SIGTERM from their parent only, and a place that is checked.

        Raises:
            InputError: a limit is below 1, or a sentence has more tokens than a batch may have.
        """
        for name, option in (("max_tokens", "--max-tokens"), ("max_sentences", "--batch-size")):
            if (limit := options.get(name)) is not None and limit < 1:
                raise InputError(f"{option} is {limit}; give at least 1")
        try:
            iterator = super().get_batch_iterator(dataset, **options)
        except AssertionError as error:
            raise InputError(f"{error}: give a higher --max-tokens, or --batch-size in its place") from error
        if not isinstance(iterator, CheckedIterator):
            iterator.__class__ = CheckedIterator  # fairseq gives no way to choose the class
            iterator.collate_fn = CollateInWorker(iterator.collate_fn)
            iterator.has_shards = len(utils.split_paths(self.cfg.data)) > 1
        return iterator


def _infer_languages(folder: Path, tree_lang: str | None) -> tuple[str | None, str | None]:
    """The languages in the names of the files. fairseq takes the first file that it finds, which may be the trees."""
    for path in sorted(folder.glob("*.*-*.*")):
        source, _, target = path.name.split(".")[1].partition("-")
        if source != tree_lang and target and not path.name.startswith("dict."):
            return source, target
    return None, None
