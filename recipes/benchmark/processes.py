"""Updates that several processes make together: fairseq's own distributed training, with gloo."""

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

LAST_WORDS = 60  # seconds that a process has to end by itself


class Processes(Workload):
    """A setup's updates by ``size.processes``, each of which has its share of the batch; a context.

    They wait between rounds, without computing.

    Raises:
        InputError: if a process refuses the options.
        RuntimeError: if a process fails.
    """

    def __init__(self, name: str, options: list[str], size: Size, updates: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.folder = TemporaryDirectory()
        self.members: list[tuple[SpawnProcess, Connection]] = []
        try:
            for rank in range(size.processes):
                words = options + distributed_options(Path(self.folder.name, "meeting"), rank, size.processes)
                ours, theirs = context.Pipe()
                given = (theirs, name, words, size, updates)
                process = context.Process(target=serve, args=given, daemon=True)
                process.start()
                theirs.close()
                self.members.append((process, ours))
            self.timing = Timing(name, self.hear())
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
            process.join(LAST_WORDS)
            process.terminate()
        self.folder.cleanup()

    def hear(self) -> int:
        """Wait for what each process says, the words of a round and its CPU time; the first error is raised."""
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
        """The updates of a round."""
        for _, connection in self.members:
            connection.send("go")
        self.hear()

    def cpu_seconds(self) -> float:
        """Of all the processes, at the end of the last round."""
        return self.seconds


def check_shares(pairs: int, processes: Iterable[int]) -> None:
    """Raises:
    InputError: processes can't share a batch equally.
    """
    for number in processes:
        if pairs % number:
            raise InputError(f"--along processes: {number} can't share --batch-size {pairs} equally; give a multiple")


def distributed_options(meeting: Path, rank: int, processes: int) -> list[str]:
    """What makes ``fairseq-train`` one of several processes; see ``run_processes_on_cpu`` in patches.fixes.

    Args:
        meeting: a file through which they find each other.
    """
    if processes == 1:
        return []
    words = ["--distributed-world-size", str(processes), "--distributed-rank", str(rank), "--distributed-no-spawn"]
    words += ["--distributed-init-method", f"file://{meeting}", "--distributed-backend", "gloo"]
    return [*words, "--ddp-backend", "legacy_ddp"]


def serve(connection: Connection, name: str, options: list[str], size: Size, updates: int) -> None:
    """What a process does: be a ``fairseq-train`` that makes the updates of a round whenever it is told to."""
    logging.disable(logging.INFO)
    try:
        config = configure(name, options, size.vocabulary)
        call_main(config, partial(answer, connection=connection, name=name, size=size, updates=updates))
    except InputError as error:
        connection.send(error)
    except Exception:
        connection.send(RuntimeError(traceback.format_exc()))


def count_words(trainer: Trainer, batch: dict[str, Any]) -> int:
    """The target words of an update on this batch and those of the other processes, by fairseq's own count."""
    with metrics.aggregate(new_root=True) as counted:
        trainer.train_step([batch])
    return round(counted.get_smoothed_values()["wpb"])


def answer(config: DictConfig, connection: Connection, name: str, size: Size, updates: int) -> None:
    """Make the updates of a round, and say how many words they have in all processes and the CPU time so far."""
    setup = Setup(name, config, size.vocabulary)
    batches = setup.random_batches(updates, size.lengths, size.batch // size.processes)
    words = sum(count_words(setup.trainer, batch) for batch in batches)
    with contextlib.suppress(EOFError):  # the benchmark is done with it
        while True:
            connection.send((words, time.process_time()))
            connection.recv()
            for batch in batches:
                setup.trainer.train_step([batch])
            finish()
