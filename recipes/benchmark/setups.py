"""What a setup's options make: a task, a model, a trainer, and batches for it."""

import argparse
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import torch
from fairseq import tasks
from fairseq.data import Dictionary, LanguagePairDataset
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.options import get_training_parser, parse_args_and_arch
from fairseq.trainer import Trainer
from omegaconf import DictConfig

from recipes.benchmark.sizes import Size
from rnnsearch_fairseq.errors import InputError

MADE_UP = "made-up"  # stands for the data folder until there is one


def read_options(
    name: str, options: list[str], parser: argparse.ArgumentParser, cure: str = "see its --help"
) -> DictConfig:
    """The configuration that a fairseq command makes of its options.

    Raises:
        InputError: where the command would refuse them.
    """

    def refuse(message: str) -> NoReturn:
        raise InputError(f"{name}: {message}; {cure}")

    parser.error = refuse  # type: ignore[method-assign]
    args = parse_args_and_arch(parser, options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of hydra, which finds fairseq old
        return convert_namespace_to_omegaconf(args)


def configure(name: str, options: list[str], vocabulary: int | None = None) -> DictConfig:
    """The configuration of ``fairseq-train`` with these options.

    Args:
        vocabulary: entries of made-up dictionaries, where the options have no data folder.

    Raises:
        InputError: options are unknown, or there is no data folder, or one too many.
    """
    if vocabulary is None:
        cure = "see fairseq-train --help; without --vocabulary N, a data folder is among the options"
        return read_options(name, options, get_training_parser(), cure)
    cure = "see fairseq-train --help; with --vocabulary N, no data folder is among the options"
    return read_options(name, [MADE_UP, *options], get_training_parser(), cure)


class Setup:
    """A model and its trainer, as ``fairseq-train`` makes them.

    Args:
        config: see `configure`.
        vocabulary: the same as there.

    Raises:
        InputError: if dictionaries are to be made up for a task that reads trees.
    """

    def __init__(self, name: str, config: DictConfig, vocabulary: int | None = None) -> None:
        self.name, self.config = name, config
        self.has_trees = getattr(tasks.TASK_REGISTRY[config.task._name], "has_trees", False)
        if vocabulary is not None:
            self._refuse_trees()
        self.task = tasks.setup_task(config.task) if vocabulary is None else make_up_task(config.task, vocabulary)
        torch.manual_seed(config.common.seed)
        model, criterion = self.task.build_model(config.model), self.task.build_criterion(config.criterion)
        self.trainer = Trainer(config, self.task, model, criterion)

    @property
    def dictionaries(self) -> tuple[Dictionary, Dictionary]:
        """Of source and target."""
        return self.task.source_dictionary, self.task.target_dictionary

    @property
    def dtype(self) -> str:
        """Of the parameters, as ``float32``."""
        return str(next(self.trainer.model.parameters()).dtype).removeprefix("torch.")

    def data_batches(self, count: int) -> list[dict[str, Any]]:
        """The first batches of the training data.

        Raises:
            InputError: if it has fewer.
        """
        self.task.load_dataset(self.config.dataset.train_subset)
        epoch = self.trainer.get_train_iterator(1, load_dataset=False).next_epoch_itr(shuffle=True)
        batches = [batch for _, batch in zip(range(count), epoch)]
        if len(batches) < count:
            raise InputError(f"{self.name}: the data has {len(batches)} batches; give --updates of that at most")
        return batches

    def random_batches(self, count: int, lengths: tuple[int, int], pairs: int) -> list[dict[str, Any]]:
        """Batches of random words.

        Args:
            lengths: of source and target, in words, end-of-sentence included.
            pairs: sentence pairs of each.

        Raises:
            InputError: if the task reads trees, which random words do not have.
        """
        self._refuse_trees()
        # BlackOut counts the words of the training data.
        self.task.datasets[self.config.dataset.train_subset] = every_word(self.dictionaries)
        return [random_batch(self.dictionaries, lengths, pairs) for _ in range(count)]

    def _refuse_trees(self) -> None:
        if self.has_trees:
            raise InputError(
                f"{self.name}: random words have no trees; time --task {self.config.task._name} on data, by train "
                "without --lengths"
            )


def batch_size(name: str, config: DictConfig) -> int:
    """The setup's own.

    Raises:
        InputError: if it has none.
    """
    if config.dataset.batch_size is None:
        raise InputError(f"{name}: random batches are of --batch-size pairs; give it")
    return config.dataset.batch_size


def base_size(setups: dict[str, list[str]], lengths: tuple[int, int], vocabulary: int | None) -> Size:
    """The size from which one axis grows, of all setups.

    Raises:
        InputError: if a setup's options are bad, or not all setups have the same ``--batch-size``.
    """
    sizes = {name: batch_size(name, configure(name, options, vocabulary)) for name, options in setups.items()}
    if len(set(sizes.values())) > 1:
        told = ", ".join(f"{size} ({name})" for name, size in sizes.items())
        raise InputError(f"--batch-size is {told}; give one, among the common options")
    return Size(lengths, next(iter(sizes.values())), vocabulary)


def make_up_task(config: Any, vocabulary: int) -> tasks.FairseqTask:
    """The task, with made-up dictionaries of ``vocabulary`` entries, fairseq's four among them."""
    dictionary = Dictionary()
    for number in range(vocabulary - dictionary.nspecial):
        dictionary.add_symbol(f"w{number}")
    config.source_lang = config.source_lang or "source"
    config.target_lang = config.target_lang or "target"
    with TemporaryDirectory() as folder:
        config.data = folder
        for language in (config.source_lang, config.target_lang):
            dictionary.save(str(Path(folder, f"dict.{language}.txt")))
        return tasks.setup_task(config)


def random_batch(dictionaries: tuple[Dictionary, Dictionary], lengths: tuple[int, int], pairs: int) -> dict[str, Any]:
    """A batch of pairs of random words that all have these lengths, end-of-sentence included."""
    sides = []
    for dictionary, length in zip(dictionaries, lengths):
        words = torch.randint(dictionary.nspecial, len(dictionary), (pairs, length))
        words[:, -1] = dictionary.eos()
        sides += [list(words), [length] * pairs, dictionary]
    dataset = LanguagePairDataset(*sides, shuffle=False)
    return dataset.collater([dataset[number] for number in range(pairs)])


def every_word(dictionaries: tuple[Dictionary, Dictionary]) -> LanguagePairDataset:
    """One pair, of all words of the dictionaries."""
    sides = []
    for dictionary in dictionaries:
        words = torch.tensor([*range(dictionary.nspecial, len(dictionary)), dictionary.eos()])
        sides += [[words], [len(words)], dictionary]
    return LanguagePairDataset(*sides, shuffle=False)
