"""Fuzz ``fairseq-interactive``: each line must be answered or refused by number, and memory must not grow.

``python -m tests.fuzz.typed DATA --path CHECKPOINT [--lines N] [OPTIONS OF fairseq-interactive]``
"""

import argparse
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import rnnsearch_fairseq
from tests.fuzz.noise import LINES, noise
from tests.serve.live import resident

SAMPLES = 10
ANSWER = re.compile(rb"H-(\d+)\t")
REFUSAL = re.compile(rb"line \d+ \(S-(\d+)\) is not translated: ")


@dataclass
class Typed:
    """The outcome of typed lines: the numbers of the answered lines, in order, and of the refused ones.

    ``memory`` is the process's memory in bytes after each tenth of the answers; ``errors`` is standard error.
    """

    answered: list[int] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    errors: list[bytes] = field(default_factory=list)
    status: int = -1

    def is_complete(self, lines: int) -> bool:
        """Whether each line was answered or refused, once."""
        return Counter(self.answered + self.refused) == Counter(range(lines)) and self.status == 0


def type_lines(lines: Iterable[bytes], words: list[str]) -> Typed:
    """Type lines into a ``fairseq-interactive`` with the options ``words``."""
    program = Path(sys.executable).with_name("fairseq-interactive")
    words = [*words, "--user-dir", str(Path(rnnsearch_fairseq.__file__).parent)]
    pipe = subprocess.PIPE
    typed, sizes = Typed(), []
    with subprocess.Popen([program, *words], stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        others = [
            threading.Thread(target=_type, args=(process.stdin, lines)),
            threading.Thread(target=typed.errors.extend, args=(process.stderr,)),
        ]
        for other in others:
            other.start()
        for line in process.stdout:
            if found := ANSWER.match(line):
                typed.answered.append(int(found[1]))
                sizes.append(resident(process.pid))
        for other in others:
            other.join()
    typed.status = process.returncode
    typed.refused = [int(found[1]) for line in typed.errors if (found := REFUSAL.search(line))]
    typed.memory = [sizes[len(sizes) * tenth // SAMPLES - 1] for tenth in range(1, SAMPLES + 1)] if sizes else []
    return typed


def _type(pipe: IO[bytes], lines: Iterable[bytes]) -> None:
    with pipe:
        for line in lines:
            pipe.write(line + b"\n")


def main() -> int:
    """The command line of this module."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.typed", description=__doc__)
    parser.add_argument("--lines", type=int, default=LINES)
    args, words = parser.parse_known_args()
    started = time.monotonic()
    typed = type_lines(noise(args.lines), words)
    seconds = time.monotonic() - started
    print(
        f"{args.lines:,} lines in {seconds:,.0f} s: {len(typed.answered):,} answered, {len(typed.refused):,} refused\n"
        f"memory after each tenth, MiB: {' '.join(f'{size / 2**20:,.0f}' for size in typed.memory)}"
    )
    if not typed.is_complete(args.lines):
        sys.stderr.buffer.writelines(typed.errors[-20:])
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
