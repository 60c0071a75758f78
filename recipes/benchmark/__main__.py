"""The command line of the benchmarks."""

import contextlib
import json
import logging
import sys

from recipes.benchmark import memory, scaling, speed
from recipes.benchmark.arguments import parse_arguments
from rnnsearch_fairseq.errors import print_without_traceback
from rnnsearch_fairseq.files.output import open_output

COMMANDS = {"train": speed.train, "generate": speed.generate, "memory": memory.run, "scaling": scaling.run}


def main() -> None:
    """Run the named command; with --output, write its results as JSON."""
    args = parse_arguments(sys.argv[1:])
    logging.disable(logging.INFO)
    # Opened first, so that an unwritable name fails before the measurement.
    with open_output(args.output) if args.output else contextlib.nullcontext() as out:
        measured = COMMANDS[args.command](args)
        if out:
            out.write(json.dumps(measured, indent=1).encode())


if __name__ == "__main__":
    print_without_traceback()
    sys.exit(main())
