"""Compare the speed of whole training updates, one program, in turns: timings of separate runs can't be compared.

``python -m rnnsearch_fairseq.benchmark train 'NAME: OPTIONS' ['NAME: OPTIONS' ...] -- COMMON OPTIONS``

OPTIONS and COMMON OPTIONS are those of fairseq-train, the data among them. Every setup makes the same number of updates
(forward, backward, clipping, optimizer) on its first batches of an epoch, then the next one, round after round. Each
round starts with another of them. OMP_NUM_THREADS sets the number of threads.
"""

import argparse
import json
import logging
import shlex
import statistics
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from fairseq import tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.options import get_training_parser, parse_args_and_arch
from fairseq.trainer import Trainer

from rnnsearch_fairseq.data.output import open_output
from rnnsearch_fairseq.errors import InputError

WARM_UP = 2  # updates before the first is timed


@dataclass
class Timing:
    """What one setup took: target words, end-of-sentence included, and seconds of each round."""

    name: str
    words: int
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def words_per_second(self, seconds: list[float]) -> float:
        """By the median round."""
        return self.words / statistics.median(seconds)


class Training:
    """One setup's model, and the batches on which it makes its updates.

    Raises:
        InputError: if the data has fewer batches than ``updates``.
    """

    def __init__(self, name: str, options: list[str], updates: int) -> None:
        config = convert_namespace_to_omegaconf(parse_args_and_arch(get_training_parser(), options))
        task = tasks.setup_task(config.task)
        task.load_dataset(config.dataset.train_subset)
        torch.manual_seed(config.common.seed)
        self.trainer = Trainer(config, task, task.build_model(config.model), task.build_criterion(config.criterion))
        epoch = self.trainer.get_train_iterator(1, load_dataset=False).next_epoch_itr(shuffle=True)
        self.batches: list[dict[str, Any]] = [batch for _, batch in zip(range(updates), epoch)]
        if len(self.batches) < updates:
            raise InputError(f"{name}: the data has {len(self.batches)} batches; give --updates of that at most")
        self.timing = Timing(name, sum(batch["ntokens"] for batch in self.batches))
        for batch in self.batches[:WARM_UP]:
            self.trainer.train_step([batch])

    def run(self) -> None:
        """Time one round."""
        wall, cpu = time.perf_counter(), time.process_time()
        for batch in self.batches:
            self.trainer.train_step([batch])
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.timing.wall.append(time.perf_counter() - wall)
        self.timing.cpu.append(time.process_time() - cpu)


def measure(setups: dict[str, list[str]], updates: int, rounds: int) -> list[Timing]:
    """Train each of ``setups``, options of fairseq-train by name, in turns: ``updates`` a round."""
    trainings = [Training(name, options, updates) for name, options in setups.items()]
    for turn in range(rounds):
        first = turn % len(trainings)
        for training in trainings[first:] + trainings[:first]:
            training.run()
    return [training.timing for training in trainings]


def as_table(timings: list[Timing]) -> str:
    """Markdown: words a second, the range over the rounds, and how long an epoch is, the first setup's being 1."""
    lines = ["| | words/s | slowest to fastest round | words/s of CPU time | time, relative |", "|---|---|---|---|---|"]
    for timing in timings:
        per_word = [
            ours / timing.words / (first / timings[0].words) for ours, first in zip(timing.wall, timings[0].wall)
        ]
        lines.append(
            f"| {timing.name} | {timing.words_per_second(timing.wall):,.0f} "
            f"| {timing.words / max(timing.wall):,.0f} to {timing.words / min(timing.wall):,.0f} "
            f"| {timing.words_per_second(timing.cpu):,.0f} | {statistics.median(per_word):.2f} |"
        )
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
            raise InputError(f"setup {text!r} must be 'NAME: OPTIONS of fairseq-train', with a name of its own")
        setups[name.strip()] = shlex.split(options) + common
    return setups


def main() -> None:
    """The command line of this module."""
    own, common = sys.argv[1:], []
    if "--" in own:
        own, common = own[: own.index("--")], own[own.index("--") + 1 :]
    parser = argparse.ArgumentParser(
        prog="python -m rnnsearch_fairseq.benchmark",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", choices=["train"])
    parser.add_argument("setups", nargs="+", metavar="'NAME: OPTIONS'", help="what to compare")
    parser.add_argument("--updates", type=int, default=8, metavar="N", help="updates a round (default: 8)")
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="rounds (default: 7)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the timings as JSON, too")
    args = parser.parse_args(own)
    if min(args.updates, args.rounds) < 1:
        raise InputError(f"--updates is {args.updates} and --rounds {args.rounds}; give at least 1")
    logging.disable(logging.INFO)
    timings = measure(parse_setups(args.setups, common), args.updates, args.rounds)
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"CPU, {torch.get_num_threads()} threads"
    print(
        f"Target words a second, {args.rounds} rounds of {args.updates} updates; torch {torch.__version__}, {device}\n"
    )
    print(as_table(timings))
    if args.output:
        with open_output(args.output) as out:
            out.write(json.dumps([asdict(timing) for timing in timings], indent=1).encode())


if __name__ == "__main__":
    sys.exit(main())
