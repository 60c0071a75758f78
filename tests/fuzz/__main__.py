"""Fuzz every reader of files: each input must be read, or refused in a sentence that names the file.

``python -m tests.fuzz [--reader NAME]... [--inputs N | --seconds S] [--seed K]``

Everything else is a crash: another error, an action outside the input's folder, more than 20 seconds or 1.5 GB, or a
partial file left behind. Inputs that crash are kept, and the exit status is 1. --seed, the reader and the input's
number determine an input.
"""

import argparse
import logging
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tests.fuzz.attempt import Crash, Outcome, attempt
from tests.fuzz.readers import READERS, Files, Reader

INPUTS = 1000
ADDRESSES = 24 << 30  # bytes that a process may map, to protect the machine


def inputs(name: str, reader: Reader, seed: int) -> Iterator[tuple[Files, str]]:
    """Yield sets of files, one of them damaged, with its name, without end."""
    number = 0
    while True:
        generator = Random(f"{seed} {name} {number}")
        files = generator.choice(reader.seeds())
        hostile = generator.choice([file for file in reader.hostile if file in files])
        yield {**files, hostile: reader.damage(files[hostile], generator)}, hostile
        number += 1


def run(name: str, most: int, seconds: float, seed: int) -> Iterator[Outcome | tuple[Crash, Files]]:
    """Yield the outcome of each input of a reader."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        for number, (files, _) in enumerate(inputs(name, READERS[name], seed)):
            if number == most or time.monotonic() - began > seconds:
                return
            place = Path(folder) / str(number)
            place.mkdir()
            for file, content in files.items():
                (place / file).write_bytes(content)
            try:
                yield attempt(READERS[name].read, place, list(files))
            except Crash as crash:
                yield crash, files
            for file in [path for path in place.rglob("*") if path.is_file()]:
                file.unlink()


def summarize(name: str, most: int, seconds: float, seed: int) -> int:
    """Print a line for a reader, and its crashes; return their number."""
    accepted = refused = 0
    crashes: list[tuple[int, Crash, Files]] = []
    slowest = memory = 0.0
    for number, outcome in enumerate(run(name, most, seconds, seed)):
        if isinstance(outcome, Outcome):
            accepted, refused = accepted + outcome.accepted, refused + (not outcome.accepted)
            slowest, memory = max(slowest, outcome.seconds), memory + outcome.megabytes
        else:
            crashes.append((number, *outcome))
    total = accepted + refused + len(crashes)
    print(
        f"| {name} | {total:,} | {accepted:,} | {refused:,} | {len(crashes)} | {slowest:.1f} | {memory:,.0f} |",
        flush=True,
    )
    for number, crash, files in crashes[:10]:
        folder = Path(tempfile.mkdtemp(prefix=f"crash-{number}-"))
        for file, content in files.items():
            (folder / file).write_bytes(content)
        print(f"  input {number} of seed {seed}: {crash}; kept in {folder}", flush=True)
    return len(crashes)


def main() -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--reader", action="append", choices=READERS, metavar="NAME", help="default: all of them")
    parser.add_argument("--inputs", type=int, metavar="N", help=f"of each reader (default: {INPUTS:,})")
    parser.add_argument("--seconds", type=float, default=float("inf"), metavar="S", help="for each reader, at most")
    parser.add_argument("--seed", type=int, default=1, metavar="K", help="default: 1")
    args = parser.parse_args()
    most = args.inputs or (INPUTS if args.seconds == float("inf") else sys.maxsize)
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, resource.getrlimit(resource.RLIMIT_AS)[1]))
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    print("| reader | inputs | accepted | refused | crashes | slowest, s | memory, MB |")
    print("|---|---|---|---|---|---|---|")
    return int(sum([summarize(name, most, args.seconds, args.seed) for name in args.reader or READERS]) > 0)


if __name__ == "__main__":
    sys.exit(main())
