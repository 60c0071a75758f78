"""Run each case in a process of its own, and time their rounds in turns."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rnnsearch_fairseq.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
QUIET = {"TORCH_CPP_LOG_LEVEL": "ERROR", "KINETO_LOG_LEVEL": "99"}  # torch's profiler reports its start and end


@dataclass(frozen=True)
class Case:
    """The options of a fairseq command, and the checkout whose package runs it; None: this one."""

    name: str
    options: Sequence[str]
    checkout: str | None = None


@dataclass
class Timing:
    """The measurements of a case.

    Args:
        count: words or sentences of a round.
        peak: bytes of memory at the peak of an update, above what stays; None if not measured.
        device: torch's version and device.
        wall, cpu: seconds of each round.
    """

    name: str
    count: int
    peak: int | None
    device: str
    on_gpu: bool
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)


class Worker:
    """A process that does a case's work on request; see `recipes.benchmark.workloads.main`."""

    def __init__(self, case: Case, work: Mapping[str, Any], packages: Path) -> None:
        self.name = case.name
        package = Path(case.checkout or ROOT, "rnnsearch_fairseq").resolve()
        if not package.is_dir():
            raise InputError(f"{case.name}: {package} is no folder; give a checkout after the @")
        # The program is always this checkout's, the package is the case's.
        packages.mkdir()
        (packages / "rnnsearch_fairseq").symlink_to(package)
        path = os.pathsep.join(filter(None, [str(packages), os.environ.get("PYTHONPATH")]))
        self.process = subprocess.Popen(
            [sys.executable, str(ROOT / "recipes/benchmark/workloads.py")],
            env=os.environ | QUIET | {"PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.send({"options": list(case.options), **work})

    def send(self, message: object) -> None:
        """Send the work, or the request for a round."""
        print(json.dumps(message), file=self.process.stdin, flush=True)

    def receive(self) -> Any:
        """Wait for the process's report; None if it failed, and printed the reason on standard error."""
        line = self.process.stdout.readline()
        if not line:
            print(f"{self.name}: failed with exit status {self.process.wait()}", file=sys.stderr, flush=True)
        return json.loads(line) if line else None


def measure(cases: Sequence[Case], work: Mapping[str, Any], rounds: int) -> list[Timing]:
    """Time the cases in turns; those that fail are left out."""
    workers: list[Worker] = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            for number, case in enumerate(cases):
                workers.append(Worker(case, work, Path(folder, str(number))))
            reports = [(worker, worker.receive()) for worker in workers]
            ready = [(worker, Timing(worker.name, *report)) for worker, report in reports if report]
            for turn in range(rounds):
                first = turn % max(1, len(ready))
                for worker, timing in [*ready[first:], *ready[:first]]:
                    worker.send("round")
                    if seconds := worker.receive():
                        timing.wall.append(seconds[0])
                        timing.cpu.append(seconds[1])
                        print(f"round {turn + 1}, {worker.name}: {seconds[1]:.4g} s", file=sys.stderr, flush=True)
                    else:
                        ready = [pair for pair in ready if pair[0] is not worker]
        finally:
            for worker in workers:
                worker.process.kill()
    return [timing for _, timing in ready]
