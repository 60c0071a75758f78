"""Measure the time of an update, and how it grows with each size."""

import argparse
import contextlib
from dataclasses import asdict
from typing import Any

from recipes.benchmark.growth import fit_growth
from recipes.benchmark.processes import Processes, check_shares
from recipes.benchmark.setups import Setup, base_size, configure
from recipes.benchmark.sizes import AXES, Line, Size
from recipes.benchmark.tables import growth_table
from recipes.benchmark.workloads import Updates, Workload, measure, name_device

MILLISECOND = 1e-3


def run(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure along each axis; print the tables, and return the lines with their fits."""
    base = base_size(args.setups, args.lengths, args.vocabulary)
    check_shares(base.batch, args.along.get("processes", []))
    print(f"Time of an update, median of {args.rounds} rounds of {args.updates} and their range; {name_device()}")
    found = []
    for axis, sizes in args.along.items():
        lines = measure_lines(args.setups, axis, sizes, base, args.updates, args.rounds)
        growths = [fit_growth(line) for line in lines]
        print(f"\nMilliseconds by {AXES[axis]}; {base.besides(axis)}\n")
        print(growth_table(lines, growths, MILLISECOND, {}), flush=True)
        found += [
            {"setup": line.setup, "base": asdict(base), "along": axis, "sizes": line.sizes, "seconds": line.values}
            | asdict(growth)
            for line, growth in zip(lines, growths)
        ]
    return found


def measure_lines(
    setups: dict[str, list[str]], axis: str, sizes: list[int], base: Size, updates: int, rounds: int
) -> list[Line]:
    """Time updates of every setup at each size, all in turns."""
    with contextlib.ExitStack() as stack:
        workloads = {
            name: make_workloads(name, options, axis, [base.along(axis, size) for size in sizes], updates, stack)
            for name, options in setups.items()
        }
        measure([work for works in workloads.values() for work in works], rounds)
    return [
        Line(name, axis, sizes, [[seconds / updates for seconds in work.timing.wall] for work in works])
        for name, works in workloads.items()
    ]


def make_workloads(
    name: str, options: list[str], axis: str, sizes: list[Size], updates: int, stack: contextlib.ExitStack
) -> list[Workload]:
    """Make one setup's workloads, one for each size; they share a model unless vocabularies or processes differ.

    Args:
        stack: ends the processes on exit.
    """
    if axis == "processes":
        return [stack.enter_context(Processes(name, options, size, updates)) for size in sizes]
    made: dict[int | None, Setup] = {}
    for vocabulary in {size.vocabulary for size in sizes}:
        made[vocabulary] = Setup(name, configure(name, options, vocabulary), vocabulary)
    workloads: list[Workload] = []
    for size in sizes:
        setup = made[size.vocabulary]
        workloads.append(Updates(name, setup.trainer, setup.random_batches(updates, size.lengths, size.batch)))
    return workloads
