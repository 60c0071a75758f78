"""Faults at random moments of a training: each resume is exact, and no checkpoint is lost.

The reference is one undisturbed training. Then the same training is killed at random moments (two in five times while
it saves), stopped by SIGTERM, run on a full disk and deprived of its data worker, and its checkpoints are damaged.
After each fault it is started again. When it is complete, another begins, until all faults were injected.
``FAULT_KILLS=100`` makes it the run of patches/README.md, which takes three to five minutes; ``-s`` prints the table.
"""

import dataclasses
import functools
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
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from rnnsearch_fairseq.patches.recovery import saving
from rnnsearch_fairseq.patches.recovery.integrity import count_updates, find_damage, find_newest
from tests.patches.recovery.training import PAIRED, WAIT, Trained, is_equal, read_state, start_training

pytestmark = [pytest.mark.slow, pytest.mark.train, pytest.mark.patched]

KILLS = int(os.environ.get("FAULT_KILLS", "3"))
UPDATES = 60
WORDS = [*PAIRED, "--embedding-size", "16", "--hidden-size", "16", "--batch-size", "8", "--cpu", "-s", "en", "-t", "fr"]
WORDS += ["--max-update", str(UPDATES), "--save-interval-updates", "5", "--no-epoch-checkpoints"]
WORDS += ["--log-format", "json", "--log-interval", "1"]
FILE_LIMIT = 50_000  # bytes: less than a checkpoint

Start = Callable[..., BaseProcess]  # FaultRun.start, with its log


def send_signal(number: signal.Signals, run: "FaultRun", start: Start) -> BaseProcess:
    """Send a signal at a random moment."""
    process = start()
    process.join(run.random.uniform(0, run.span))
    if process.pid and process.is_alive():
        os.kill(process.pid, number)
    return process


def kill_while_saving(run: "FaultRun", start: Start) -> BaseProcess:
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


def fill_disk(run: "FaultRun", start: Start) -> BaseProcess:
    """Limit the size of files to less than a checkpoint."""

    def prepare() -> None:
        saving.WAITS = (0.01, 0.01)
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_LIMIT, FILE_LIMIT))

    return start(prepare=prepare)


def kill_worker(run: "FaultRun", start: Start) -> BaseProcess:
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


def cut_off(path: Path, random_: random.Random) -> None:
    os.truncate(path, random_.randrange(path.stat().st_size))


def flip_a_bit(path: Path, random_: random.Random) -> None:
    content = bytearray(path.read_bytes())
    content[random_.randrange(len(content))] ^= 1 << random_.randrange(8)
    path.write_bytes(content)


DAMAGES = {"cut off": cut_off, "with one bit flipped": flip_a_bit, "removed": lambda path, _: path.unlink()}


@dataclasses.dataclass
class FaultCounts:
    """For a kind of fault: its number, the number of exact resumes after it, and the checkpoints lost."""

    times: int = 0
    exact: int = 0
    lost: int = 0


class FaultRun:
    """A training into which faults are injected, and whose resumes are compared with the reference.

    Args:
        span: faults happen within this many seconds from the start of an attempt.
    """

    def __init__(self, out: Path, data: Path, reference: Trained, span: float) -> None:
        self.out, self.data, self.span, self.random = out, data, span, random.Random(1)
        self.folder = out / "checkpoints"
        self.reference = {record["num_updates"]: record for record in reference.updates()}
        self.saved = {count_updates(path): path for path in reference.folder.glob("checkpoint*.pt")}
        self.table: dict[str, FaultCounts] = {}
        self.attempts = 0
        self._to_resume: list[str] = []
        self._our_damage: set[tuple[Path, int]] = set()

    def start(self, log: Path, *words: str, prepare: Callable[[], object] | None = None) -> BaseProcess:
        words = (*WORDS, "--keep-interval-updates", "3", *words)
        words = words if "--num-workers" in words else (*words, "--num-workers", "0")
        return start_training(self.data, self.folder, log, words, prepare)

    def attempt(self, kind: str) -> bool:
        """Start or resume the training with a fault of this kind, or `NONE`, and compare it with the reference.

        Returns:
            Whether the fault ended the attempt before the end of the training.
        """
        self.attempts += 1
        log = self.out / f"{self.attempts:04}.log"
        newest = self._newest_updates()
        start = functools.partial(self.start, log)
        process = start() if kind == NONE else FAULTS[kind](self, start)
        process.join(WAIT)
        assert process.exitcode is not None, f"{log}: this attempt hangs"
        attempt = Trained(self.folder, log, process.exitcode)
        self.table.setdefault(kind, FaultCounts()).lost += self._count_lost(attempt, newest)
        self._compare(attempt, newest)
        if attempt.status == 0:
            shutil.rmtree(self.folder)
            return False
        self.table[kind].times += 1
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
        return 0 if newest is None else count_updates(newest)

    def _count_lost(self, attempt: Trained, newest: int) -> int:
        """Count damaged checkpoints, and one more if the newest that was saved is gone."""
        said = re.findall(r"Saved checkpoint .* @ (\d+) updates|training stops after update (\d+)", attempt.printed)
        saved = max([newest, *(int(updates) for pair in said for updates in pair if updates)])
        paths = [path for path in self.folder.glob("checkpoint*.pt") if _identify(path) not in self._our_damage]
        return sum(find_damage(path) is not None for path in paths) + (self._newest_updates() < saved)

    def _compare(self, attempt: Trained, newest: int) -> None:
        """Record whether the attempt resumed exactly, unless it ended before its first update."""
        updates = attempt.updates()
        loaded = re.search(r"Loaded checkpoint .* @ (\d+) updates", attempt.printed)
        if not updates and not re.search("done training|nothing to do", attempt.printed):
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


def test_every_resume_is_exact_and_no_checkpoint_is_lost(data: Path, tmp_path: Path) -> None:
    started = time.monotonic()
    reference = Trained(tmp_path / "reference", tmp_path / "reference.log", 0)
    process = start_training(data, reference.folder, reference.log, [*WORDS, "--num-workers", "0"])
    process.join(WAIT)
    assert len(reference.updates()) == UPDATES, reference.printed[-3000:]
    run = FaultRun(tmp_path, data, reference, span=(time.monotonic() - started) / 3)
    kinds = [kind for kind, share in zip(FAULTS, SHARES) for _ in range(math.ceil(share * KILLS / 100))]
    run.random.shuffle(kinds)
    for kind in kinds:
        while not run.attempt(kind):
            pass
        if run.random.random() < 0.4:
            run.damage()
    assert not run.attempt(NONE)
    rows = {kind: dataclasses.astuple(counts) for kind, counts in run.table.items() if kind != NONE}
    print("\n".join(f"| {kind} | {times} | {exact} | {lost} |" for kind, (times, exact, lost) in rows.items()))
    assert rows.keys() >= FAULTS.keys()
    assert all(times == exact and lost == 0 for times, exact, lost in rows.values()), rows
    assert run.table[NONE].lost == 0
