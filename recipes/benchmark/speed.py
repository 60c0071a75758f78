"""Measure the speed of training and of search, in words or sentences a second."""

import argparse
import statistics
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from recipes.benchmark.joeynmt import JoeyNMT
from recipes.benchmark.tables import speed_table
from recipes.benchmark.workloads import Machine, Training, Translation, Workload, measure, name_device


def train(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Time updates; print the table, and return the timings."""
    trainings = [
        Training(name, options, args.updates, args.lengths, args.vocabulary) for name, options in args.setups.items()
    ]
    first, others = trainings[0], []
    if args.joeynmt:
        others = [JoeyNMT(args.joeynmt, first.setup.dictionaries, first.batches, first.trainer.device)]
    return _compare([*trainings, *others], args.rounds, f"{args.updates} updates", "target words")


def generate(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Time search; print the table, and return the timings."""
    workloads = [Translation(name, options, args.updates) for name, options in args.setups.items()]
    return _compare(workloads, args.rounds, f"{args.updates} batches", "sentences")


def _compare(workloads: Sequence[Workload], rounds: int, part: str, unit: str) -> list[dict[str, Any]]:
    machines = [Machine(dtype) for dtype in sorted({work.timing.dtype for work in workloads if work.timing.operations})]
    measure([*workloads, *machines], rounds)
    rates = {work.timing.dtype: work.timing.operations / statistics.median(work.timing.wall) for work in machines}
    told = "".join(f", {rate / 1e9:,.0f} GFlop/s in {dtype}" for dtype, rate in rates.items())
    print(f"{rounds} rounds of {part}; {name_device()}{told}\n")
    print(speed_table([work.timing for work in workloads], unit, rates))
    return [asdict(work.timing) for work in [*workloads, *machines]]
