"""Updates shared by several processes, in fairseq's own distributed training with gloo."""

import contextlib
import logging
import multiprocessing
import time
import traceback
from collections.abc import Iterable
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fairseq.distributed.utils import call_main
from fairseq.logging import metrics
from fairseq.trainer import Trainer
from omegaconf import DictConfig

from recipes.benchmark.setups import Setup, configure
from recipes.benchmark.sizes import Size
from recipes.benchmark.workloads import Timing, Workload, finish
from rnnsearch_fairseq.errors import InputError

SECONDS_TO_STOP = 60  # before a process is terminated


class Processes(Workload):
    """A setup's updates by ``size.processes`` processes, which share each batch; a context manager.

    Between rounds the processes are idle.

    Raises:
        InputError: a process refuses the options.
        RuntimeError: a process fails.
    """

    def __init__(self, name: str, options: list[str], size: Size, updates: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.folder = TemporaryDirectory()
        self.members: list[tuple[SpawnProcess, Connection]] = []
        try:
            for rank in range(size.processes):
                words = options + distributed_options(Path(self.folder.name, "rendezvous"), rank, size.processes)
                ours, theirs = context.Pipe()
                given = (theirs, name, words, size, updates)
                process = context.Process(target=serve, args=given, daemon=True)
                process.start()
                theirs.close()
                self.members.append((process, ours))
            self.timing = Timing(name, self.collect())
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> "Processes":
        return self

    def __exit__(self, *_: Any) -> None:
        """End the processes."""
        for _, connection in self.members:
            connection.close()
        for process, _ in self.members:
            process.join(SECONDS_TO_STOP)
            process.terminate()
        self.folder.cleanup()

    def collect(self) -> int:
        """Wait for each process's report, and return the words of a round; raise the first error that is reported."""
        said: dict[Connection, Any] = {}
        while silent := [connection for _, connection in self.members if connection not in said]:
            for connection in wait(silent):
                try:
                    said[connection] = connection.recv()
                except EOFError:
                    raise RuntimeError("a process of the benchmark has ended by itself") from None
                if isinstance(said[connection], Exception):
                    raise said[connection]
        self.seconds = sum(seconds for _, seconds in said.values())
        return next(words for words, _ in said.values())

    def work(self) -> None:
        """Make the updates of a round."""
        for _, connection in self.members:
            connection.send("go")
        self.collect()

    def cpu_seconds(self) -> float:
        """CPU time of all processes, at the end of the last round."""
        return self.seconds


def check_shares(pairs: int, processes: Iterable[int]) -> None:
    """Refuse numbers of processes that cannot share a batch equally.

    Raises:
        InputError: ``pairs`` is not a multiple of a number.
    """
    for number in processes:
        if pairs % number:
            raise InputError(f"--along processes: {number} can't share --batch-size {pairs} equally; give a multiple")


def distributed_options(rendezvous: Path, rank: int, processes: int) -> list[str]:
    """The options that make ``fairseq-train`` one of several processes; see ``run_processes_on_cpu`` in patches.fixes.

    Args:
        rendezvous: a file through which the processes find each other.
    """
    if processes == 1:
        return []
    words = ["--distributed-world-size", str(processes), "--distributed-rank", str(rank), "--distributed-no-spawn"]
    words += ["--distributed-init-method", f"file://{rendezvous}", "--distributed-backend", "gloo"]
    return [*words, "--ddp-backend", "legacy_ddp"]


def serve(connection: Connection, name: str, options: list[str], size: Size, updates: int) -> None:
    """The main function of a process: a ``fairseq-train`` that makes the updates of a round on each message."""
    logging.disable(logging.INFO)
    try:
        config = configure(name, options, size.vocabulary)
        call_main(config, partial(answer, connection=connection, name=name, size=size, updates=updates))
    except InputError as error:
        connection.send(error)
    except Exception:
        connection.send(RuntimeError(traceback.format_exc()))


def count_words(trainer: Trainer, batch: dict[str, Any]) -> int:
    """The target words of an update in all processes, by fairseq's own count."""
    with metrics.aggregate(new_root=True) as counted:
        trainer.train_step([batch])
    return round(counted.get_smoothed_values()["wpb"])


def answer(config: DictConfig, connection: Connection, name: str, size: Size, updates: int) -> None:
    """Make updates, and report the words of a round in all processes and this process's CPU time before each round."""
    setup = Setup(name, config, size.vocabulary)
    batches = setup.random_batches(updates, size.lengths, size.batch // size.processes)
    words = sum(count_words(setup.trainer, batch) for batch in batches)
    with contextlib.suppress(EOFError):  # the benchmark has closed the connection
        while True:
            connection.send((words, time.process_time()))
            connection.recv()
            for batch in batches:
                setup.trainer.train_step([batch])
            finish()
