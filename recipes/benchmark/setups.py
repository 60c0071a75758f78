"""Build a setup from its options: a task, a model, a trainer, and batches."""

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

MADE_UP = "made-up"  # placeholder for the data folder


def read_options(
    name: str, options: list[str], parser: argparse.ArgumentParser, cure: str = "see its --help"
) -> DictConfig:
    """Parse the options of a fairseq command into its configuration.

    Raises:
        InputError: the command would refuse the options.
    """

    def refuse(message: str) -> NoReturn:
        raise InputError(f"{name}: {message}; {cure}")

    parser.error = refuse  # type: ignore[method-assign]
    args = parse_args_and_arch(parser, options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # hydra warns about fairseq's old configuration
        return convert_namespace_to_omegaconf(args)


def configure(name: str, options: list[str], vocabulary: int | None = None) -> DictConfig:
    """Build the configuration of ``fairseq-train`` with these options.

    Args:
        vocabulary: number of entries in made-up dictionaries, if the options have no data folder.

    Raises:
        InputError: an option is unknown, or a data folder is missing or superfluous.
    """
    if vocabulary is None:
        cure = "see fairseq-train --help; without --vocabulary N, a data folder is among the options"
        return read_options(name, options, get_training_parser(), cure)
    cure = "see fairseq-train --help; with --vocabulary N, no data folder is among the options"
    return read_options(name, [MADE_UP, *options], get_training_parser(), cure)


class Setup:
    """A model and its trainer, as ``fairseq-train`` builds them.

    Args:
        config, vocabulary: see `configure`.

    Raises:
        InputError: ``vocabulary`` is given for a task that reads trees.
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
        """The source and target dictionary."""
        return self.task.source_dictionary, self.task.target_dictionary

    @property
    def dtype(self) -> str:
        """The type of the parameters, such as ``float32``."""
        return str(next(self.trainer.model.parameters()).dtype).removeprefix("torch.")

    def data_batches(self, count: int) -> list[dict[str, Any]]:
        """Return the first batches of the training data.

        Raises:
            InputError: the data has fewer batches.
        """
        self.task.load_dataset(self.config.dataset.train_subset)
        epoch = self.trainer.get_train_iterator(1, load_dataset=False).next_epoch_itr(shuffle=True)
        batches = [batch for _, batch in zip(range(count), epoch)]
        if len(batches) < count:
            raise InputError(f"{self.name}: the data has {len(batches)} batches; give at most that many --updates")
        return batches

    def random_batches(self, count: int, lengths: tuple[int, int], pairs: int) -> list[dict[str, Any]]:
        """Make batches of random words.

        Args:
            lengths: source and target length, in words with end-of-sentence.
            pairs: number of sentence pairs in a batch.

        Raises:
            InputError: the task reads trees, which random words do not have.
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
    """The setup's --batch-size.

    Raises:
        InputError: it is not given.
    """
    if config.dataset.batch_size is None:
        raise InputError(f"{name}: random batches have --batch-size pairs; give this option")
    return config.dataset.batch_size


def base_size(setups: dict[str, list[str]], lengths: tuple[int, int], vocabulary: int | None) -> Size:
    """The common size of all setups, of which one axis is varied.

    Raises:
        InputError: a setup's options are refused, or the setups differ in ``--batch-size``.
    """
    sizes = {name: batch_size(name, configure(name, options, vocabulary)) for name, options in setups.items()}
    if len(set(sizes.values())) > 1:
        told = ", ".join(f"{size} ({name})" for name, size in sizes.items())
        raise InputError(f"--batch-size is {told}; give one, among the common options")
    return Size(lengths, next(iter(sizes.values())), vocabulary)


def make_up_task(config: Any, vocabulary: int) -> tasks.FairseqTask:
    """Build the task with made-up dictionaries of ``vocabulary`` entries, including fairseq's four symbols."""
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
    """Make a batch of random sentences, all of these lengths, end-of-sentence included."""
    sides = []
    for dictionary, length in zip(dictionaries, lengths):
        words = torch.randint(dictionary.nspecial, len(dictionary), (pairs, length))
        words[:, -1] = dictionary.eos()
        sides += [list(words), [length] * pairs, dictionary]
    dataset = LanguagePairDataset(*sides, shuffle=False)
    return dataset.collater([dataset[number] for number in range(pairs)])


def every_word(dictionaries: tuple[Dictionary, Dictionary]) -> LanguagePairDataset:
    """A data set of one pair, which holds all words of the dictionaries."""
    sides = []
    for dictionary in dictionaries:
        words = torch.tensor([*range(dictionary.nspecial, len(dictionary)), dictionary.eos()])
        sides += [[words], [len(words)], dictionary]
    return LanguagePairDataset(*sides, shuffle=False)
