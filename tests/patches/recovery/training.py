"""Trainings for the tests, in forks of the test's process, and what became of them."""

import dataclasses
import functools
import json
import os
import re
import socket
from collections.abc import Callable, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

import rnnsearch_fairseq
from tests.commands import fork_command

PLUGIN = str(Path(rnnsearch_fairseq.__file__).parent)
PAIRS = {"train": 96, "valid": 8}
TINY = [word for name in ("embedding", "hidden") for word in (f"--{name}-size", "8")]
COMMON = [*TINY, "--batch-size", "8", "--max-epoch", "2", "--save-interval-updates", "5", "--cpu"]
COMMON += ["--log-format", "json", "--log-interval", "1", "-s", "en", "-t", "fr"]
PAIRED = ["--arch", "bahdanau_gru_small", "--alignment-size", "8", "--maxout-size", "8", "--dropout", "0.1"]
PAIRED += ["--task", "pooled_translation", "--pool-batches", "2", "--criterion", "summed_nll", "--clip-norm", "1"]
PAIRED += ["--optimizer", "adadelta"]
TREES = ["--arch", "tree2seq_small", "--task", "tree_translation", "--tree-lang", "trees", "--sentence-avg"]
TREES += ["--optimizer", "sgd", "--lr", "1.0", "--lr-scheduler", "halve_on_worse", "--clip-norm", "3"]
# The second epoch can hardly be so much better than the first.
TREES += ["--lr-shrink", "0.5", "--lr-threshold", "0.9", "--batch-size", "16", "--max-epoch", "4"]
UPDATES = 24
WAIT = 600  # seconds, of a machine that may be busy with something else
# The values of an update in a log that do not depend on time.
EXACT = ("epoch", "loss", "nll_sentence_nats", "nll_word_nats", "ppl")
EXACT += ("wpb", "bsz", "num_updates", "lr", "gnorm", "clip")


@dataclasses.dataclass
class Trained:
    """What a training left: its folder, all that it printed, and its exit status."""

    folder: Path
    log: Path
    status: int | None

    @property
    def printed(self) -> str:
        return self.log.read_text(encoding="utf-8")

    @property
    def last(self) -> Path:
        return self.folder / "checkpoint_last.pt"

    def updates(self) -> list[dict[str, Any]]:
        """The values of each update in the log."""
        records = re.findall(r"\| train_inner \| (\{.*\})$", self.printed, re.MULTILINE)
        return [{name: value for name, value in json.loads(record).items() if name in EXACT} for record in records]

    def sentence(self) -> str:
        """The sentence that it ended with."""
        assert self.status == 1, self.printed
        assert "Traceback" not in self.printed
        last = self.printed.rstrip("\n").rpartition("\n")[2]
        assert re.match(r"(\[rank\d\]: )?error: ", last)
        return last


def start_training(
    data: Path, folder: Path, log: Path, words: Sequence[str], prepare: Callable[[], object] | None = None
) -> BaseProcess:
    """Start ``fairseq-train DATA --save-dir FOLDER`` with further ``words``."""
    return fork_command("train", [str(data), "--user-dir", PLUGIN, "--save-dir", str(folder), *words], log, prepare)


def train(
    data: Path,
    folder: Path,
    *more: str,
    words: Sequence[str] = PAIRED,
    prepare: Callable[[], None] | None = None,
) -> Trained:
    """Train to the end, or to another."""
    log = folder / f"{len(list(folder.glob('*.log')))}.log"
    workers = [] if "--num-workers" in more else ["--num-workers", "0"]
    process = start_training(data, folder / "saved", log, [*COMMON, *words, *workers, *more], prepare)
    try:
        process.join(WAIT)
        assert process.exitcode is not None, f"still running: {log.read_text()[-3000:]}"
    finally:
        process.kill()
    return Trained(folder / "saved", log, process.exitcode)


def train_two(
    data: Path, folder: Path, prepare: Callable[[int], None] | None = None, more: Sequence[str] = ()
) -> list[Trained]:
    """Two processes that train together, with ``more`` options; ``prepare`` gets each one's rank."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = str(free.getsockname()[1])

    def prepare_rank(rank: int) -> None:
        os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=port, WORLD_SIZE="2", RANK=str(rank))
        if prepare is not None:
            prepare(rank)

    number = len(list(folder.glob("rank0.*")))
    logs = [folder / f"rank{rank}.{number}" for rank in (0, 1)]
    words = [*COMMON, *PAIRED, "--num-workers", "0", "--batch-size", "4", *more]
    processes = []
    for rank, log in enumerate(logs):
        ready = functools.partial(prepare_rank, rank)
        processes.append(start_training(data, folder / "saved", log, words, ready))
    try:
        for process in processes:
            process.join(WAIT)
    finally:
        for process in processes:
            process.kill()
    return [Trained(folder / "saved", log, process.exitcode) for log, process in zip(logs, processes)]


def read_state(checkpoint: Path) -> dict[str, Any]:
    """Read the training state: parameters, optimizer state, position in the data, best score."""
    state = torch.load(checkpoint, map_location="cpu", weights_only=True)
    kept = {name: state["extra_state"].get(name) for name in ("train_iterator", "val_loss", "best")}
    return {"model": state["model"], "optimizer": state["last_optimizer_state"], **kept}


def is_equal(one: Any, other: Any) -> bool:
    """Whether two states are equal, tensors bit for bit."""
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(is_equal(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(is_equal, one, other))
    return one == other


def assert_same(whole: Trained, *parts: Trained) -> None:
    """The updates that the parts of a training logged, and its end, are those of a whole one."""
    expected = {record["num_updates"]: record for record in whole.updates()}
    assert len(expected) == UPDATES
    seen = {}
    for part in parts:
        for record in part.updates():
            assert record == expected[record["num_updates"]]
            seen[record["num_updates"]] = record
    assert seen == expected
    assert is_equal(read_state(parts[-1].last), read_state(whole.last))


def copy_checkpoints(whole: Trained, folder: Path, *names: str) -> Path:
    """Some checkpoints of a training, to go on from in another folder."""
    saved = folder / "saved"
    saved.mkdir()
    for name in names:
        (saved / name).write_bytes((whole.folder / name).read_bytes())
    return saved
