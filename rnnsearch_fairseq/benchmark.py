"""Compare speeds in one program, in turns: timings of separate runs can't be compared.

``python -m rnnsearch_fairseq.benchmark train 'NAME: OPTIONS' ['NAME: OPTIONS' ...] -- COMMON OPTIONS``
``python -m rnnsearch_fairseq.benchmark generate 'NAME: --path MODEL.pt' ... -- COMMON OPTIONS``

train     whole updates: forward, backward, clipping, optimizer. OPTIONS and COMMON OPTIONS are those of fairseq-train,
          the data among them. With --lengths the batches are of random words, all sentences of these lengths. The
          operations a second are those of the models' matrix products; their share is of the rate at which this machine
          multiplies large matrices, measured in the same rounds
generate  search, from a batch of sources to its translations. OPTIONS are those of fairseq-generate

Every setup makes the same number of updates, or translates the same number of batches, the first ones, then the next
one, round after round; each round starts with another of them. OMP_NUM_THREADS sets the number of threads.
"""

import argparse
import json
import logging
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils, tasks, utils
from fairseq.data import Dictionary, LanguagePairDataset
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.options import get_generation_parser, get_training_parser, parse_args_and_arch
from fairseq.trainer import Trainer
from torch.utils.flop_counter import FlopCounterMode

from rnnsearch_fairseq.data.output import open_output
from rnnsearch_fairseq.errors import InputError

WARM_UP = 2  # batches before the first is timed
SIDE = 2048  # of the machine's matrices
NONE = "–"


@dataclass
class Timing:
    """What one setup took: ``count`` words or sentences a round, and the seconds of each round.

    ``operations`` are those of a round's matrix products, 0 where they are not counted; ``dtype`` is their precision.
    """

    name: str
    count: int
    operations: int = 0
    dtype: str = "float32"
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def per_second(self, seconds: list[float]) -> float:
        """By the median round."""
        return self.count / statistics.median(seconds)


class Workload:
    """What is timed: ``timing``, and what a round does."""

    timing: Timing

    def work(self) -> None:
        """All of a round."""
        raise NotImplementedError

    def run(self) -> None:
        """Time one round."""
        wall, cpu = time.perf_counter(), time.process_time()
        self.work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.timing.wall.append(time.perf_counter() - wall)
        self.timing.cpu.append(time.process_time() - cpu)


class Training(Workload):
    """One setup's model, and the batches on which it makes its updates.

    Args:
        lengths: of source and target, in words with end-of-sentence, of batches of random words; None for the data's.

    Raises:
        InputError: if the data has fewer batches than ``updates``, or random batches have no size.
    """

    def __init__(self, name: str, options: list[str], updates: int, lengths: tuple[int, int] | None = None) -> None:
        config = convert_namespace_to_omegaconf(parse_args_and_arch(get_training_parser(), options))
        task = tasks.setup_task(config.task)
        task.load_dataset(config.dataset.train_subset)
        torch.manual_seed(config.common.seed)
        self.trainer = Trainer(config, task, task.build_model(config.model), task.build_criterion(config.criterion))
        if lengths is None:
            epoch = self.trainer.get_train_iterator(1, load_dataset=False).next_epoch_itr(shuffle=True)
            self.batches: list[dict[str, Any]] = [batch for _, batch in zip(range(updates), epoch)]
        elif config.dataset.batch_size is None:
            raise InputError(f"{name}: random batches are of --batch-size pairs; give it")
        else:
            dictionaries = (task.source_dictionary, task.target_dictionary)
            self.batches = [random_batch(dictionaries, lengths, config.dataset.batch_size) for _ in range(updates)]
        if len(self.batches) < updates:
            raise InputError(f"{name}: the data has {len(self.batches)} batches; give --updates of that at most")
        self.timing = Timing(name, sum(batch["ntokens"] for batch in self.batches))
        for batch in self.batches[:WARM_UP]:
            self.trainer.train_step([batch])
        self.timing.operations = count_operations(self.work)
        self.timing.dtype = str(next(self.trainer.model.parameters()).dtype).removeprefix("torch.")

    def work(self) -> None:
        """Update by update."""
        for batch in self.batches:
            self.trainer.train_step([batch])


def count_operations(work: Callable[[], Any]) -> int:
    """Multiplications and additions of the matrix products that ``work`` makes."""

    def in_place(summand: Sequence[int], first: Sequence[int], second: Sequence[int], **_: Any) -> int:
        return 2 * first[0] * first[1] * second[1]

    # torch counts addmm, but not addmm_.
    counter = FlopCounterMode(display=False, custom_mapping={torch.ops.aten.addmm_: in_place})
    with counter:
        work()
    return counter.get_total_flops()


def random_batch(dictionaries: tuple[Dictionary, Dictionary], lengths: tuple[int, int], pairs: int) -> dict[str, Any]:
    """A batch of pairs of random words that all have these lengths, end-of-sentence included."""
    sides = []
    for dictionary, length in zip(dictionaries, lengths):
        words = torch.randint(dictionary.nspecial, len(dictionary), (pairs, length))
        words[:, -1] = dictionary.eos()
        sides += [list(words), [length] * pairs, dictionary]
    dataset = LanguagePairDataset(*sides, shuffle=False)
    return dataset.collater([dataset[number] for number in range(pairs)])


class Translation(Workload):
    """One setup's models and search, and the batches that it translates."""

    def __init__(self, name: str, options: list[str], batches: int) -> None:
        config = convert_namespace_to_omegaconf(parse_args_and_arch(get_generation_parser(), options))
        self.task = tasks.setup_task(config.task)
        self.task.load_dataset(config.dataset.gen_subset)
        self.models, _ = checkpoint_utils.load_model_ensemble(
            utils.split_paths(config.common_eval.path), task=self.task
        )
        self.cuda = torch.cuda.is_available() and not config.common.cpu
        for model in self.models:
            if self.cuda:
                model.cuda()
            model.prepare_for_inference_(config)
        self.search = self.task.build_generator(self.models, config.generation)
        dataset = self.task.dataset(config.dataset.gen_subset)
        epoch = self.task.get_batch_iterator(
            dataset, max_tokens=config.dataset.max_tokens, max_sentences=config.dataset.batch_size
        ).next_epoch_itr(shuffle=False)
        self.batches = [batch for _, batch in zip(range(batches), epoch)]
        self.timing = Timing(name, sum(batch["nsentences"] for batch in self.batches))
        self.translate(self.batches[:WARM_UP])

    def translate(self, batches: Sequence[dict[str, Any]]) -> None:
        """Some batches."""
        for batch in batches:
            self.task.inference_step(self.search, self.models, utils.move_to_cuda(batch) if self.cuda else batch)

    def work(self) -> None:
        """Batch by batch."""
        self.translate(self.batches)


class Machine(Workload):
    """The product of two large square matrices, whose rate is the machine's."""

    def __init__(self, dtype: str) -> None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        self.matrix = torch.randn(SIDE, SIDE, device=device).to(getattr(torch, dtype))
        self.timing = Timing("machine", 0, 2 * SIDE**3, dtype)
        self.work()

    def work(self) -> None:
        """One product."""
        _ = self.matrix @ self.matrix


def measure(workloads: Sequence[Workload], rounds: int) -> None:
    """Time the workloads in turns."""
    for turn in range(rounds):
        first = turn % len(workloads)
        for workload in [*workloads[first:], *workloads[:first]]:
            workload.run()


def as_table(timings: Sequence[Timing], unit: str, rates: dict[str, float]) -> str:
    """Markdown: units a second, the range over the rounds, operations a second and their share of the machine's.

    The last column is the time that a unit takes, the first setup's being 1.

    Args:
        rates: operations a second of the machine, by precision.
    """
    header = [
        "",
        f"{unit}/s",
        "slowest to fastest round",
        f"{unit}/s of CPU time",
        "GFlop/s",
        "of the machine's",
        "time",
    ]
    lines = [f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
    for timing in timings:
        per_unit = [
            ours / timing.count / (first / timings[0].count) for ours, first in zip(timing.wall, timings[0].wall)
        ]
        rate, share = NONE, NONE
        if timing.operations:
            done = timing.operations / statistics.median(timing.wall)
            rate, share = f"{done / 1e9:,.0f}", f"{done / rates[timing.dtype]:.2f}"
        cells = [
            timing.name,
            f"{timing.per_second(timing.wall):,.4g}"
            if unit == "sentences"
            else f"{timing.per_second(timing.wall):,.0f}",
            f"{timing.count / max(timing.wall):,.0f} to {timing.count / min(timing.wall):,.0f}",
            f"{timing.per_second(timing.cpu):,.0f}",
            rate,
            share,
            f"{statistics.median(per_unit):.2f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def parse_setups(given: list[str], common: list[str]) -> dict[str, list[str]]:
    """'NAME: OPTIONS', each with the common options after its own.

    Raises:
        InputError: if one has no name, or the name of another.
    """
    setups: dict[str, list[str]] = {}
    for text in given:
        name, colon, options = text.partition(":")
        if not colon or not name.strip() or name.strip() in setups:
            raise InputError(f"setup {text!r} must be 'NAME: OPTIONS', with a name of its own")
        setups[name.strip()] = shlex.split(options) + common
    return setups


def _lengths(text: str) -> tuple[int, int]:
    """Two lengths with a comma between; for argparse."""
    source, comma, target = text.partition(",")
    if not (comma and source.isdecimal() and target.isdecimal() and min(int(source), int(target)) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not two lengths, as 30,30")
    return int(source), int(target)


def parse_arguments(own: list[str]) -> argparse.Namespace:
    """Read what stands before --.

    Raises:
        InputError: a number is out of range, or options do not go together.
    """
    parser = argparse.ArgumentParser(
        prog="python -m rnnsearch_fairseq.benchmark",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", choices=["train", "generate"])
    parser.add_argument("setups", nargs="+", metavar="'NAME: OPTIONS'", help="what to compare")
    parser.add_argument("--updates", type=int, default=8, metavar="N", help="updates, or batches, a round (default: 8)")
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="rounds (default: 7)")
    parser.add_argument("--lengths", type=_lengths, metavar="S,T", help="train on random words; see above")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the timings as JSON, too")
    args = parser.parse_args(own)
    if min(args.updates, args.rounds) < 1:
        raise InputError(f"--updates is {args.updates} and --rounds {args.rounds}; give at least 1")
    if args.lengths is not None and args.what != "train":
        raise InputError("--lengths is of training; leave it out, translations are of the data's sentences")
    return args


def main() -> None:
    """The command line of this module."""
    own, common = sys.argv[1:], []
    if "--" in own:
        own, common = own[: own.index("--")], own[own.index("--") + 1 :]
    args = parse_arguments(own)
    logging.disable(logging.INFO)
    setups = parse_setups(args.setups, common)
    if args.what == "train":
        workloads: list[Workload] = [
            Training(name, words, args.updates, args.lengths) for name, words in setups.items()
        ]
    else:
        workloads = [Translation(name, words, args.updates) for name, words in setups.items()]
    machines = [Machine(dtype) for dtype in sorted({work.timing.dtype for work in workloads if work.timing.operations})]
    measure([*workloads, *machines], args.rounds)
    rates = {work.timing.dtype: work.timing.operations / statistics.median(work.timing.wall) for work in machines}
    timings = [work.timing for work in workloads]
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"CPU, {torch.get_num_threads()} threads"
    told = "".join(f", {rate / 1e9:,.0f} GFlop/s in {dtype}" for dtype, rate in rates.items())
    unit, part = ("target words", "updates") if args.what == "train" else ("sentences", "batches")
    print(f"{args.rounds} rounds of {args.updates} {part}; torch {torch.__version__}, {device}{told}\n")
    print(as_table(timings, unit, rates))
    if args.output:
        with open_output(args.output) as out:
            out.write(json.dumps([asdict(work.timing) for work in [*workloads, *machines]], indent=1).encode())


if __name__ == "__main__":
    sys.exit(main())
