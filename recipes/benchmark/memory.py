"""Measure the peak memory of an update, and how it grows with each size."""

import argparse
import os
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import torch
from fairseq.trainer import Trainer
from torch.autograd.profiler import profile

from recipes.benchmark.growth import fit_growth, fit_square
from recipes.benchmark.setups import Setup, base_size, configure
from recipes.benchmark.sizes import AXES, Line, Size
from recipes.benchmark.tables import NONE, growth_table
from recipes.benchmark.workloads import name_device

MEGABYTE = 1e6


def run(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure along each axis; print the tables, and return the lines with their fits."""
    base = base_size(args.setups, args.lengths, args.vocabulary)
    lines = [
        measure_line(name, options, axis, sizes, base)
        for name, options in args.setups.items()
        for axis, sizes in args.along.items()
    ]
    print(f"Peak memory of an update, above what stays between updates; {name_device()}")
    found = []
    for axis in args.along:
        along = [line for line in lines if line.axis == axis]
        growths = [fit_growth(line) for line in along]
        squares = [bytes_of_a_word_pair(line, base.batch) if axis == "lengths" else None for line in along]
        told = [NONE if each is None else f"{each:,.1f}" for each in squares]
        more = {"bytes × source × target × batch": told} if axis == "lengths" else {}
        print(f"\nMB by {AXES[axis]}; {base.besides(axis)}\n")
        print(growth_table(along, growths, MEGABYTE, more))
        found += [
            {"setup": line.setup, "base": asdict(base), "along": axis, "sizes": line.sizes, "bytes": line.medians}
            | asdict(growth)
            | {"bytes_of_a_word_pair": each}
            for line, growth, each in zip(along, growths, squares)
        ]
    return found


def measure_line(name: str, options: list[str], axis: str, sizes: list[int], base: Size) -> Line:
    """Measure the peak of one setup at each size."""
    line = Line(name, axis, sizes, [])
    setup = None
    for size in sizes:
        at = base.along(axis, size)
        if setup is None or axis == "vocabulary":
            setup = Setup(name, configure(name, options, at.vocabulary), at.vocabulary)
        (batch,) = setup.random_batches(1, at.lengths, at.batch)
        line.values.append([update_peak(setup.trainer, batch)])
    return line


def bytes_of_a_word_pair(line: Line, pairs: int) -> float | None:
    """Bytes of the peak for each source word × target word × sentence pair, when both lengths grow.

    This is the quadratic coefficient of a least-squares parabola; None for fewer than three lengths.
    """
    square = fit_square(line)
    return None if square is None else square / pairs


def update_peak(trainer: Trainer, batch: dict[str, Any]) -> int:
    """Bytes at the peak of an update, above the parameters and the optimizer's state; gradients count."""
    trainer.train_step([batch])  # the first update allocates the optimizer's state
    trainer.zero_grad()
    return peak_bytes(lambda: trainer.train_step([batch]), next(trainer.model.parameters()).device)


def peak_bytes(work: Callable[[], Any], device: torch.device) -> int:
    """The peak of torch's allocations during ``work``, above the allocations before it.

    On CPUs it comes from torch's record of each allocation, so ``work`` must not free earlier tensors. Memory that is
    allocated but never touched counts; memory that libraries allocate themselves, for matrix products, does not.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        work()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # or the profiler logs its start and stop to stderr
    with profile(profile_memory=True) as record:
        work()
    live = peak = 0
    for event in sorted(record.kineto_results.events(), key=lambda event: event.start_ns()):
        if event.name() == "[memory]":
            live += event.nbytes()
            peak = max(peak, live)
    return peak
