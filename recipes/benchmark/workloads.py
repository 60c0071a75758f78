"""The work that is timed: updates and translations of fairseq's models, on data or on random words."""

import argparse
import json
import logging
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from fairseq import options as fairseq_options
from fairseq import tasks, utils
from fairseq.data import Dictionary, LanguagePairDataset
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.trainer import Trainer
from omegaconf import DictConfig
from torch.autograd.profiler import profile

import rnnsearch_fairseq
from rnnsearch_fairseq.errors import InputError

WARM_UP = 2  # batches before the timed ones
MADE_UP = "made-up"  # placeholder for the data folder
Batch = dict[str, Any]


@dataclass(frozen=True)
class Size:
    """``updates`` batches of ``batch`` pairs of ``lengths`` words; ``vocabulary`` None: batches of the data."""

    updates: int
    vocabulary: int | None = None
    lengths: int = 30
    batch: int = 80


class Training:
    """Updates of ``fairseq-train`` with these options, on the first batches of the data or on random words."""

    def __init__(self, options: Sequence[str], size: Size) -> None:
        made_up = [] if size.vocabulary is None else [MADE_UP]
        config = read_options([*made_up, *options], fairseq_options.get_training_parser())
        task = make_up_task(config.task, size.vocabulary) if made_up else tasks.setup_task(config.task)
        torch.manual_seed(config.common.seed)
        self.trainer = Trainer(config, task, task.build_model(config.model), task.build_criterion(config.criterion))
        self.batches = random_batches(task, size) if made_up else read_batches(self.trainer, size.updates)
        self.count = sum(batch["ntokens"] for batch in self.batches)

    def step(self, batch: Batch) -> None:
        """Make one update."""
        self.trainer.train_step([batch])

    def peak(self) -> int:
        """Bytes of memory at the peak of an update, above the parameters and the optimizer's state.

        On CPUs they come from torch's record of each allocation. Memory that is allocated but never touched counts;
        memory that libraries allocate themselves, for matrix products, does not.
        """
        self.trainer.zero_grad()
        device = self.trainer.device
        if device.type == "cuda":
            before = torch.cuda.memory_allocated(device)
            torch.cuda.reset_peak_memory_stats(device)
            self.step(self.batches[0])
            return torch.cuda.max_memory_allocated(device) - before
        with profile(profile_memory=True) as record:
            self.step(self.batches[0])
        live = peak = 0
        for event in sorted(record.kineto_results.events(), key=lambda event: event.start_ns()):
            if event.name() == "[memory]":
                live += event.nbytes()
                peak = max(peak, live)
        return peak


class Translation:
    """Search of ``fairseq-generate`` by an untrained model, from random words to ``size.lengths`` words a sentence."""

    def __init__(self, options: Sequence[str], size: Size) -> None:
        parser = fairseq_options.get_training_parser()
        fairseq_options.add_generation_args(parser)
        config = read_options([MADE_UP, *options], parser)
        self.task = make_up_task(config.task, size.vocabulary)
        config.generation.max_len_a, config.generation.max_len_b = 0, size.lengths - 1
        config.generation.min_len = size.lengths - 1  # end-of-sentence is impossible before
        torch.manual_seed(config.common.seed)
        self.batches = random_batches(self.task, size)
        self.model = self.task.build_model(config.model)
        if torch.cuda.is_available() and not config.common.cpu:
            self.model.cuda()
            self.batches = utils.move_to_cuda(self.batches)
        self.model.prepare_for_inference_(config)
        self.search = self.task.build_generator([self.model], config.generation)
        self.count = sum(batch["nsentences"] for batch in self.batches)

    def step(self, batch: Batch) -> list[list[dict[str, Any]]]:
        """Translate a batch; return the hypotheses of each sentence."""
        return self.task.inference_step(self.search, [self.model], batch)


WORKLOADS = {"train": Training, "generate": Translation}


def read_options(options: Sequence[str], parser: argparse.ArgumentParser) -> DictConfig:
    """Parse the options of a fairseq command into its configuration."""
    parser.usage = argparse.SUPPRESS  # it would fill the screen
    return convert_namespace_to_omegaconf(fairseq_options.parse_args_and_arch(parser, list(options)))


def make_up_task(config: Any, vocabulary: int) -> tasks.FairseqTask:
    """Build the task with made-up dictionaries."""
    config.source_lang = config.source_lang or "source"
    config.target_lang = config.target_lang or "target"
    with TemporaryDirectory() as folder:
        config.data = folder
        for language in (config.source_lang, config.target_lang):
            words = range(vocabulary - Dictionary().nspecial)  # without fairseq's four symbols
            Path(folder, f"dict.{language}.txt").write_text("".join(f"w{word} 1\n" for word in words))
        return tasks.setup_task(config)


def read_batches(trainer: Trainer, count: int) -> list[Batch]:
    """Read the first batches of the training data."""
    trainer.task.load_dataset(trainer.cfg.dataset.train_subset)
    trainer.cfg.dataset.num_workers = 0
    epoch = trainer.get_train_iterator(1, load_dataset=False).next_epoch_itr(shuffle=True)
    batches = [batch for _, batch in zip(range(count), epoch)]
    if len(batches) < count:
        raise InputError(f"the data has {len(batches)} batches; give at most that many --updates")
    return batches


def random_batches(task: tasks.FairseqTask, size: Size) -> list[Batch]:
    """Make batches of random sentences of equal lengths, end-of-sentence included."""
    sides, pairs = [], size.updates * size.batch
    for dictionary in (task.source_dictionary, task.target_dictionary):
        words = torch.randint(dictionary.nspecial, len(dictionary), (pairs, size.lengths))
        words[:, -1] = dictionary.eos()
        sides += [list(words), [size.lengths] * pairs, dictionary]
    dataset = LanguagePairDataset(*sides, shuffle=False)
    batches = (range(first, first + size.batch) for first in range(0, pairs, size.batch))
    return [dataset.collater([dataset[number] for number in batch]) for batch in batches]


def clock(work: Training | Translation) -> tuple[float, float]:
    """Do all batches of ``work``; return the seconds by the clock, and the CPU seconds of all threads."""
    wall, cpu = time.perf_counter(), time.process_time()
    for batch in work.batches:
        work.step(batch)
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    """The work of a process: read a case from standard input, report its size, and do a round on each further line."""
    rnnsearch_fairseq.register()
    logging.disable(logging.INFO)
    warnings.simplefilter("ignore")  # hydra and torch warn about fairseq
    reports, sys.stdout = sys.stdout, sys.stderr

    def report(*values: object) -> None:
        print(json.dumps(values), file=reports, flush=True)

    case = json.loads(sys.stdin.readline())
    command, options = case.pop("command"), case.pop("options")
    try:
        work = WORKLOADS[command](options, Size(**case))
        for batch in work.batches[:WARM_UP]:
            work.step(batch)
        on_gpu = torch.cuda.is_available() and "--cpu" not in options
        device = torch.cuda.get_device_name() if on_gpu else f"CPU, threads: {torch.get_num_threads()}"
        peak = work.peak() if isinstance(work, Training) else None
        report(work.count, peak, f"torch {torch.__version__}, {device}", on_gpu)
        for _ in sys.stdin:
            report(*clock(work))
    except InputError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
