"""Run each case in a process of its own, and time their rounds in turns."""

import logging
import multiprocessing
import os
import statistics
import sys
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

import torch

from recipes.benchmark.cases import Case
from recipes.benchmark.joeynmt import JoeyNMTTraining, JoeyNMTTranslation
from recipes.benchmark.marian import MarianTraining, MarianTranslation
from recipes.benchmark.workloads import Training, Translation
from rnnsearch_fairseq.errors import InputError

WORKLOADS = {  # by command and toolkit
    ("train", "fairseq"): Training,
    ("train", "joeynmt"): JoeyNMTTraining,
    ("train", "marian"): MarianTraining,
    ("generate", "fairseq"): Translation,
    ("generate", "joeynmt"): JoeyNMTTranslation,
    ("generate", "marian"): MarianTranslation,
}
QUIET = {"TORCH_CPP_LOG_LEVEL": "ERROR", "KINETO_LOG_LEVEL": "99"}  # torch's profiler reports its start and end


@dataclass
class Timing:
    """The measurements of a case.

    Args:
        count: words or sentences of a round.
        peak: bytes of memory at the peak of an update, above what stays; None if not measured.
        device: torch's version and device.
        wall, cpu: seconds of each round.
    """

    case: Case
    count: int
    peak: int | None = None
    device: str = ""
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """The median round."""
        return statistics.median(self.wall)


class Worker:
    """A process that does a case's work when told."""

    def __init__(self, case: Case, updates: int) -> None:
        # A server forks the processes, so that only it imports fairseq; but a fork may be unable to use a GPU.
        context = multiprocessing.get_context("spawn" if torch.cuda.is_available() else "forkserver")
        context.set_forkserver_preload([__name__])
        self.name, (self.connection, theirs) = case.label, context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, case, updates), daemon=True)
        self.process.start()
        theirs.close()

    def hear(self) -> Any:
        """Wait for the process's report; None if it has failed, and said why on standard error."""
        try:
            return self.connection.recv()
        except (EOFError, ConnectionResetError):
            self.process.join()
            print(f"{self.name}: failed with exit status {self.process.exitcode}", file=sys.stderr, flush=True)
            return None

    def run(self) -> tuple[float, float] | None:
        """Do a round; return its wall and CPU seconds, or None if the process has failed."""
        self.connection.send("go")
        return self.hear()


def measure(cases: Sequence[Case], updates: int, rounds: int) -> list[Timing]:
    """Time the cases in turns; those that fail are left out."""
    os.environ |= QUIET
    workers = [Worker(case, updates) for case in cases]
    try:
        ready = [(worker, Timing(case, *said)) for case, worker in zip(cases, workers) if (said := worker.hear())]
        for turn in range(rounds):
            first = turn % max(1, len(ready))
            for worker, timing in [*ready[first:], *ready[:first]]:
                if seconds := worker.run():
                    timing.wall.append(seconds[0])
                    timing.cpu.append(seconds[1])
                    print(f"round {turn + 1}, {worker.name}: {seconds[0]:.4g} s", file=sys.stderr, flush=True)
                else:
                    ready = [pair for pair in ready if pair[0] is not worker]
    finally:
        for worker in workers:
            worker.process.kill()
    return [timing for _, timing in ready]


def serve(connection: Connection, case: Case, updates: int) -> None:
    """The main function of a process: prepare the work, tell its size, and do a round on each message."""
    logging.disable(logging.INFO)
    warnings.simplefilter("ignore")  # torch warns about fairseq's calls
    if case.size.threads is not None:
        torch.set_num_threads(case.size.threads)
    try:
        workload = WORKLOADS[case.command, case.toolkit](case.options, case.size, updates)
        connection.send((workload.count, workload.peak(), name_device()))
        while connection.recv():
            connection.send(workload.round())
    except InputError as error:
        sys.exit(f"error: {case.label}: {error}")
    except Exception:
        traceback.print_exc()
        sys.exit(1)


def name_device() -> str:
    """Describe torch's version and device."""
    threads = torch.get_num_threads()
    on_cpu = f"CPU, {threads} thread" + "s" * (threads > 1)
    return f"torch {torch.__version__}, {torch.cuda.get_device_name() if torch.cuda.is_available() else on_cpu}"
