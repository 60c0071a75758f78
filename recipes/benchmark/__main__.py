"""Compare the speed and memory of models, in turns; separate runs are not comparable.

Each case is a process of its own. In each round every case does the same amount of work, one case at a time, and each
round starts with another case. The options of a case, and those of all cases after --, are those of fairseq-train
(whole updates are timed: forward, backward, clipping, optimizer) or fairseq-generate (from a batch of sources to its
translations). A case 'NAME @ FOLDER: OPTIONS' runs the package of another checkout, FOLDER/rnnsearch_fairseq. With
--vocabulary there is no data folder: words are random, and dictionaries made up. generate needs --vocabulary, and
--arch in place of --path: its weights are random, too, and every translation has --lengths words.

  python -m recipes.benchmark train --vocabulary 4008 'new:' 'old @ ../old:' -- --arch bahdanau_gru_small \\
      --task rnnsearch --criterion summed_nll --optimizer adam --lr 0.001 --clip-norm 1
"""

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recipes.reproduce.document import table
from rnnsearch_fairseq.command_line import count, make_parser, program
from rnnsearch_fairseq.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
QUIET = {"TORCH_CPP_LOG_LEVEL": "ERROR", "KINETO_LOG_LEVEL": "99"}  # torch's profiler reports its start and end


@dataclass
class Timing:
    """The measurements of a case.

    Args:
        count: words or sentences of a round.
        peak: bytes of memory at the peak of an update, above what stays; None if not measured.
        device: torch's version and device.
        seconds: of each round by the clock, and of the CPU.
    """

    name: str
    count: int
    peak: int | None
    device: str
    on_gpu: bool
    seconds: list[tuple[float, float]] = field(default_factory=list)

    @property
    def clocks(self) -> list[tuple[float, ...]]:
        """The seconds of the rounds by the clock that counts, and by the other one."""
        return [*zip(*self.seconds)][:: 1 if self.on_gpu else -1]


@dataclass
class Case:
    """The options of a fairseq command, and the checkout whose package runs it, in a process; None: this one."""

    name: str
    options: Sequence[str]
    checkout: str | None = None

    def start(self, work: Mapping[str, Any]) -> None:
        """Start the process, which does the work on request; see `recipes.benchmark.workloads.main`."""
        checkout = Path(self.checkout or ROOT).resolve()
        if not (checkout / "rnnsearch_fairseq").is_dir():
            raise InputError(f"{self.name}: {checkout}/rnnsearch_fairseq is no folder; give a checkout after the @")
        # The program, which needs no other package of a checkout, is always this checkout's.
        path = os.pathsep.join(filter(None, [str(checkout), os.environ.get("PYTHONPATH")]))
        self.process = subprocess.Popen(
            [sys.executable, str(ROOT / "recipes/benchmark/workloads.py")],
            env=os.environ | QUIET | {"PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.send({"options": list(self.options), **work})

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
    with ExitStack() as ending:
        for case in cases:
            case.start(work)
            ending.callback(case.process.kill)
        reports = [(case, case.receive()) for case in cases]
        ready = [(case, Timing(case.name, *report)) for case, report in reports if report]
        for turn in range(rounds):
            first = turn % max(1, len(ready))
            for case, timing in [*ready[first:], *ready[:first]]:
                case.send("round")
                if seconds := case.receive():
                    timing.seconds.append(seconds)
                    print(f"round {turn + 1}, {case.name}: {seconds[1]:.4g} s", file=sys.stderr, flush=True)
                else:
                    ready = [pair for pair in ready if pair[0] is not case]
    return [timing for _, timing in ready]


def parse_arguments(words: Sequence[str]) -> argparse.Namespace:
    """Read the command line; ``cases`` has its cases."""
    end = words.index("--") if "--" in words else len(words)
    parser = make_parser(__doc__)
    parser.add_argument("command", choices=("train", "generate"))
    parser.add_argument("setups", nargs="+", metavar="'NAME: OPTIONS'", help="the cases to compare")
    parser.add_argument("--updates", type=count, default=8, help="batches a round (8)")
    parser.add_argument("--rounds", type=count, default=7, help="rounds (7)")
    parser.add_argument("--vocabulary", type=count, help="entries of made-up dictionaries, fairseq's four included")
    parser.add_argument("--lengths", type=count, default=30, help="random words of a sentence, with its end (30)")
    parser.add_argument("--batch", type=count, default=80, help="random sentence pairs in a batch (80)")
    args = parser.parse_args(words[:end])
    if args.command == "generate" and args.vocabulary is None:
        raise InputError("generate translates random words; give --vocabulary N")
    args.cases = []
    for setup in args.setups:
        label, colon, options = setup.partition(":")
        name, _, checkout = (part.strip() for part in label.partition(" @ "))
        if not colon or not name or name in [case.name for case in args.cases]:
            raise InputError(f"{setup!r} must be 'NAME: OPTIONS', each with another name")
        args.cases.append(Case(name, [*shlex.split(options), *words[end + 1 :]], checkout or None))
    return args


def format_table(timings: Sequence[Timing], unit: str) -> str:
    """Format speeds in the median round, their range over the rounds, and memory, as Markdown.

    The first columns are of CPU time, or of the clock where the work was on a GPU.
    """
    clocks = ["CPU time", "the clock"][:: -1 if timings[0].on_gpu else 1]
    header = ["", f"{unit}/s of {clocks[0]}", "slowest to fastest round", "time, relative", f"{unit}/s of {clocks[1]}"]
    rows: list[list[str]] = []
    medians = [statistics.median(timing.clocks[0]) / timing.count for timing in timings]
    for timing, seconds in zip(timings, medians):
        first, second = timing.clocks
        fastest, slowest = (_short(timing.count / choose(first)) for choose in (min, max))
        numbers = [_short(1 / seconds), f"{slowest} to {fastest}", f"{seconds / medians[0]:.2f}"]
        memory = "" if timing.peak is None else _short(timing.peak / 1e6)
        rows.append([timing.name, *numbers, _short(timing.count / statistics.median(second)), memory])
    return table([*header, "peak MB"], rows)


def _short(value: float) -> str:
    """Format a number with at least three digits."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


@program
def main() -> int:
    """Run the command; returns 1 if a case failed."""
    args = parse_arguments(sys.argv[1:])
    work = {name: getattr(args, name) for name in ("command", "updates", "vocabulary", "lengths", "batch")}
    timings = measure(args.cases, work, args.rounds)
    if timings:
        print(f"{args.rounds} rounds of {args.updates} batches; {timings[0].device}\n")
        print(format_table(timings, "target words" if args.command == "train" else "sentences"))
    return int(len(timings) < len(args.cases))
