"""Inject faults into the training of a small model, and check that each resumed training gives the same numbers.

``python -m recipes.fault_injection OUT [--kills 100]``

The reference is one undisturbed ``fairseq-train``. Then the same training is killed at random moments (two in five
times while it saves), stopped by SIGTERM, run on a full disk and deprived of its data worker, and its checkpoints are
damaged. After each fault it is started again. It *resumes exactly* if it continues from the newest intact checkpoint,
and its logged updates and the saved parameters, optimizer state and position in the data equal the reference's bit for
bit. A checkpoint is *lost* if it was saved, and is missing or damaged although this program did not damage it. When a
training is complete, another begins, until all faults were injected.

Attempts are forked from this process, which has imported fairseq already, so that each starts in a second. Linux only.
"""

import argparse
import functools
import importlib
import json
import logging
import math
import multiprocessing
import os
import random
import re
import resource
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils

import rnnsearch_fairseq
from recipes.reproduce.document import Table, markdown_block
from rnnsearch_fairseq.errors import Count, InputError, print_without_traceback
from rnnsearch_fairseq.files.integrity import count_updates, find_damage, find_newest
from rnnsearch_fairseq.grammar import write_corpus
from rnnsearch_fairseq.output import open_output
from rnnsearch_fairseq.patches.recovery import saving

PLUGIN = str(Path(rnnsearch_fairseq.__file__).parent)
PAIRS = {"train": 400, "valid": 16}
UPDATES = 100
MODEL = ["--arch", "bahdanau_gru_small", "--dropout", "0.1", "--task", "pooled_translation", "--pool-batches", "2"]
MODEL += [word for name in ("embedding", "hidden", "alignment", "maxout") for word in (f"--{name}-size", "16")]
TRAINING = ["--batch-size", "16", "--criterion", "summed_nll", "--optimizer", "adadelta", "--clip-norm", "1", "--cpu"]
TRAINING += ["--save-interval-updates", "5", "--no-epoch-checkpoints", "--log-format", "json", "--log-interval", "1"]
# The values of an update in a log that do not depend on time.
EXACT = ("epoch", "loss", "nll_sentence_nats", "nll_word_nats", "ppl")
EXACT += ("wpb", "bsz", "num_updates", "lr", "gnorm", "clip")
WAIT = 600  # seconds for an attempt, which takes a few
FILE_LIMIT = 200_000  # bytes: less than a checkpoint

Log = Path
Process = multiprocessing.process.BaseProcess
Prepare = Callable[[], object]


def start_training(data: Path, folder: Path, log: Log, words: Sequence[str], prepare: Prepare | None = None) -> Process:
    """Start ``fairseq-train DATA`` with further ``words`` in a fork of this process.

    Args:
        folder: its --save-dir.
        log: file for its output.
        prepare: called in the fork.
    """
    return fork_command("train", [str(data), "--user-dir", PLUGIN, "--save-dir", str(folder), *words], log, prepare)


def fork_command(command: str, words: list[str], log: Log, prepare: Prepare | None = None) -> Process:
    """Start ``fairseq-COMMAND`` in a fork of this process; the other arguments are those of `start_training`."""
    for module in (f"fairseq_cli.{command}", "torch._dynamo"):  # imported once here instead of in every fork
        importlib.import_module(module)
    log.write_bytes(b"")  # here, because the fork may be killed before it can
    process = multiprocessing.get_context("fork").Process(target=_run, args=(command, words, log, prepare))
    process.start()
    return process


def _run(command: str, words: list[str], log: Log, prepare: Prepare | None) -> None:
    os.dup2(os.open(log, os.O_WRONLY), 1)
    os.dup2(1, 2)
    sys.stdout = sys.stderr = os.fdopen(1, "w", buffering=1, closefd=False)
    form = "%(asctime)s | %(levelname)s | %(name)s | %(message)s"
    logging.basicConfig(format=form, level=logging.INFO, stream=sys.stdout, force=True)
    torch.set_num_threads(1)  # a fork has no threads of its parent
    # fairseq keeps the best score of the parent's trainings here.
    vars(checkpoint_utils.save_checkpoint).pop("best", None)
    sys.argv = [f"fairseq-{command}", *words]
    if prepare is not None:
        prepare()
    rnnsearch_fairseq.register()  # patches the command, which is loaded now
    print_without_traceback()
    try:
        importlib.import_module(f"fairseq_cli.{command}").cli_main()
    except Exception:
        sys.excepthook(*sys.exc_info())
        sys.exit(1)


def wait(process: Process, log: Log) -> int:
    """Wait for a process, and return its exit status.

    Raises:
        InputError: it does not end.
    """
    process.join(WAIT)
    if process.exitcode is None:
        process.kill()
        raise InputError(f"{log}: this attempt did not end within {WAIT} seconds; see where it hangs")
    return process.exitcode


def finish(process: Process, log: Log) -> None:
    """Wait for a process.

    Raises:
        InputError: it fails.
    """
    if wait(process, log) != 0:
        raise InputError(f"{log}: failed with status {process.exitcode}; see the reason there")


def read_updates(log: Log) -> list[dict[str, Any]]:
    """Read the values of each update from a log."""
    records = re.findall(r"\| train_inner \| (\{.*\})$", log.read_text(encoding="utf-8"), re.MULTILINE)
    return [{name: value for name, value in json.loads(record).items() if name in EXACT} for record in records]


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


# The faults: each starts an attempt, and injects the fault.

Start = Callable[..., Process]  # FaultRun.start, with its log


def send_signal(number: signal.Signals, run: "FaultRun", start: Start) -> Process:
    """Send a signal at a random moment."""
    process = start()
    process.join(run.random.uniform(0, run.span))
    if process.pid and process.is_alive():
        os.kill(process.pid, number)
    return process


def kill_while_saving(run: "FaultRun", start: Start) -> Process:
    """Kill the training when it opens, renames or removes a checkpoint file, or up to 5 ms later."""
    left, delay = run.random.randint(1, 60), run.random.choice([0, run.random.uniform(0, 0.005)])

    def count_down(event: str, args: tuple[Any, ...]) -> None:
        nonlocal left
        if event in ("open", "os.rename", "os.remove", "shutil.copyfile") and str(run.folder) in str(args[0]):
            left -= 1
            if left == 0 and delay:
                threading.Timer(delay, os.kill, (os.getpid(), signal.SIGKILL)).start()
            elif left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return start(prepare=lambda: sys.addaudithook(count_down))


def fill_disk(run: "FaultRun", start: Start) -> Process:
    """Limit the size of files to less than a checkpoint."""

    def prepare() -> None:
        saving.WAITS = (0.01, 0.01)
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_LIMIT, FILE_LIMIT))

    return start(prepare=prepare)


def kill_worker(run: "FaultRun", start: Start) -> Process:
    """Kill the data worker at a random moment."""
    moment = time.monotonic() + run.random.uniform(0, run.span)

    def kill() -> None:
        while time.monotonic() < moment or not multiprocessing.active_children():
            time.sleep(0.02)
        multiprocessing.active_children()[0].kill()

    return start("--num-workers", "1", prepare=threading.Thread(target=kill, daemon=True).start)


FAULTS = {
    "kill -9 at a random moment": functools.partial(send_signal, signal.SIGKILL),
    "kill -9 while saving": kill_while_saving,
    "SIGTERM": functools.partial(send_signal, signal.SIGTERM),
    "full disk while saving": fill_disk,
    "kill -9 of the data's worker": kill_worker,
}
SHARES = (60, 40, 15, 5, 5)  # the number of each fault for 100 kills
NONE = "none"


# Damage to checkpoints between two attempts


def cut_off(path: Path, random_: random.Random) -> None:
    """Keep only the beginning of a file."""
    os.truncate(path, random_.randrange(path.stat().st_size))


def flip_a_bit(path: Path, random_: random.Random) -> None:
    """Change one bit of a file."""
    content = bytearray(path.read_bytes())
    content[random_.randrange(len(content))] ^= 1 << random_.randrange(8)
    path.write_bytes(content)


def remove(path: Path, random_: random.Random) -> None:
    """Remove a file."""
    path.unlink()


DAMAGES = {"cut off": cut_off, "with one bit flipped": flip_a_bit, "removed": remove}


@dataclass
class FaultCounts:
    """For a kind of fault: its number, the number of exact resumes after it, and the checkpoints lost."""

    times: int = 0
    exact: int = 0
    lost: int = 0


class FaultRun:
    """A training into which faults are injected, and whose resumes are compared with the reference.

    Args:
        out: folder of the binarized data, of the reference (``reference`` and ``reference.log``), and of all output.
        span: faults happen within this many seconds from the start of an attempt.
    """

    def __init__(self, out: Path, span: float, seed: int) -> None:
        self.out, self.span, self.random = out, span, random.Random(seed)
        self.folder = out / "checkpoints"
        self.reference = {record["num_updates"]: record for record in read_updates(out / "reference.log")}
        self.saved = {count_updates(path): path for path in (out / "reference").glob("checkpoint*.pt")}
        self.table: dict[str, FaultCounts] = {}
        self.attempts = 0
        self._to_resume: list[str] = []
        self._our_damage: set[tuple[Path, int]] = set()

    def start(self, log: Log, *words: str, prepare: Prepare | None = None) -> Process:
        """Start an attempt."""
        words = (*MODEL, *TRAINING, "--max-update", str(UPDATES), "--keep-interval-updates", "3", *words)
        words = words if "--num-workers" in words else (*words, "--num-workers", "0")
        return start_training(self.out / "data", self.folder, log, words, prepare)

    def attempt(self, kind: str) -> bool:
        """Start or resume the training with a fault of this kind, or `NONE`, and compare it with the reference.

        Returns:
            Whether the fault ended the attempt before the end of the training.
        """
        self.attempts += 1
        log = self.out / "logs" / f"{self.attempts:04}.log"
        newest = self._newest_updates()
        start = functools.partial(self.start, log)
        status = wait(start() if kind == NONE else FAULTS[kind](self, start), log)
        counts = self.table.setdefault(kind, FaultCounts())
        counts.lost += self._count_lost(log, newest)
        self._compare(log, newest)
        if status == 0:
            shutil.rmtree(self.folder)
            return False
        counts.times += 1
        self._to_resume.append(kind)
        return True

    def damage(self) -> None:
        """Damage checkpoint_last.pt or, one time in three, all of the newest, if another intact one remains."""
        counts = {path: count_updates(path) for path in self.folder.glob("checkpoint*.pt") if not find_damage(path)}
        last = self.folder / "checkpoint_last.pt"
        all_newest = self.random.random() < 1 / 3
        hit = [path for path in counts if counts[path] == counts.get(last)] if all_newest else [last]
        if last not in counts or len(hit) == len(counts):
            return
        how = self.random.choice(list(DAMAGES))
        for path in hit:
            DAMAGES[how](path, self.random)
        self._our_damage |= {_identify(path) for path in hit if path.exists()}
        kind = f"{'newest checkpoints' if all_newest else 'checkpoint_last.pt'} {how}"
        self.table.setdefault(kind, FaultCounts()).times += 1
        self._to_resume.append(kind)

    def _newest_updates(self) -> int:
        last = self.folder / "checkpoint_last.pt"
        newest = last if not find_damage(last) else find_newest(self.folder)[0]
        return 0 if newest is None else count_updates(newest) or 0

    def _count_lost(self, log: Log, newest: int) -> int:
        """Count damaged checkpoints, and one more if the newest that was saved is gone."""
        said = re.findall(r"Saved checkpoint .* @ (\d+) updates|training stops after update (\d+)", log.read_text())
        saved = max([newest, *(int(updates) for pair in said for updates in pair if updates)])
        paths = [path for path in self.folder.glob("checkpoint*.pt") if _identify(path) not in self._our_damage]
        return sum(find_damage(path) is not None for path in paths) + (self._newest_updates() < saved)

    def _compare(self, log: Log, newest: int) -> None:
        """Record whether the attempt resumed exactly, unless it ended before its first update."""
        updates = read_updates(log)
        loaded = re.search(r"Loaded checkpoint .* @ (\d+) updates", log.read_text())
        if not updates and "done training" not in log.read_text():
            return
        first = int(updates[0]["num_updates"]) - 1 if updates else UPDATES
        exact = newest == (int(loaded[1]) if loaded else 0) == first
        exact &= all(self.reference.get(record["num_updates"]) == record for record in updates)
        exact &= all(self._is_reference(path) for path in self.folder.glob("checkpoint*.pt") if not find_damage(path))
        for kind in self._to_resume:
            self.table[kind].exact += exact
        self._to_resume.clear()

    def _is_reference(self, checkpoint: Path) -> bool:
        saved = self.saved.get(count_updates(checkpoint))
        # SIGTERM causes a checkpoint that the reference does not have.
        return saved is None or is_equal(read_state(checkpoint), read_state(saved))


def _identify(path: Path) -> tuple[Path, int]:
    return path, path.stat().st_mtime_ns


def run_faults(out: Path, kills: int) -> dict[str, FaultCounts]:
    """Make the data, train the reference, and inject ``kills`` times kill -9, and other faults in proportion.

    Raises:
        InputError: the reference, or the last attempt, which has no fault, fails.
    """
    (out / "logs").mkdir(parents=True)
    write_corpus(out / "text", PAIRS)
    words = ["--user-dir", PLUGIN, "-s", "en", "-t", "fr", "--destdir", str(out / "data")]
    words += [word for part in PAIRS for word in (f"--{part}pref", str(out / "text" / part))]
    log = out / "preprocess.log"
    finish(fork_command("preprocess", [*words, "--thresholdsrc", "2", "--thresholdtgt", "2"], log), log)
    words, log = [*MODEL, *TRAINING, "--max-update", str(UPDATES), "--num-workers", "0"], out / "reference.log"
    started = time.monotonic()
    finish(start_training(out / "data", out / "reference", log, words), log)
    run = FaultRun(out, span=(time.monotonic() - started) / 3, seed=1)
    kinds = [kind for kind, share in zip(FAULTS, SHARES) for _ in range(math.ceil(share * kills / 100))]
    run.random.shuffle(kinds)
    for done, kind in enumerate(kinds, start=1):
        while not run.attempt(kind):
            pass
        if run.random.random() < 0.4:
            run.damage()
        print(f"\r{done} of {len(kinds)} faults", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    if run.attempt(NONE):
        raise InputError(f"{out / 'logs'}: the last attempt had no fault, and failed; see its log")
    return {kind: run.table[kind] for kind in [*FAULTS, *sorted(run.table.keys() - FAULTS)] if kind in run.table}


def format_table(table: dict[str, FaultCounts]) -> str:
    """Format the counts as a Markdown table, with the sums."""
    total = FaultCounts(
        *(sum(getattr(counts, name) for counts in table.values()) for name in ("times", "exact", "lost"))
    )
    rows = [
        [kind, str(counts.times), str(counts.exact), str(counts.lost)]
        for kind, counts in [*table.items(), ("all", total)]
        if counts.times or counts.lost
    ]
    return markdown_block(Table(["fault", "times", "resumed exactly", "checkpoints lost"], rows)) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns 1 if a resume was not exact or a checkpoint was lost, otherwise 0."""
    parser = argparse.ArgumentParser(prog="python -m recipes.fault_injection", description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path, help="new folder for all output; the table is faults.md in it")
    parser.add_argument("--kills", action=Count, default=100, help="how often to kill the training (default: 100)")
    args = parser.parse_args(arguments)
    if args.out.exists():
        raise InputError(f"{args.out}: exists already; give a new folder, or remove it")
    started = time.monotonic()
    table = run_faults(args.out.resolve(), args.kills)
    text = format_table(table)
    with open_output(args.out / "faults.md") as file:
        file.write(text.encode())
    print(f"{text}\n{time.monotonic() - started:.0f} seconds; logs of all attempts in {args.out / 'logs'}")
    return 1 if any(counts.exact < counts.times or counts.lost for counts in table.values()) else 0
