"""Measure the cases of a command line, and print the tables."""

import logging
import sys

from recipes.benchmark.cases import parse_arguments
from recipes.benchmark.runner import measure
from recipes.benchmark.tables import format_tables
from rnnsearch_fairseq.errors import print_without_traceback

UNITS = {"train": "target words", "generate": "sentences"}


def main() -> int:
    """Run the named command; returns 1 if a case failed."""
    args = parse_arguments(sys.argv[1:])
    logging.disable(logging.INFO)
    timings = measure(args.cases, args.updates, args.rounds)
    if timings:
        print(f"{args.rounds} rounds of {args.updates} batches; {timings[0].device}\n")
        print(format_tables(timings, UNITS[args.command], args.updates, args.axis))
    return int(len(timings) < len(args.cases))


if __name__ == "__main__":
    print_without_traceback()
    sys.exit(main())
