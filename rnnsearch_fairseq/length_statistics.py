"""Count the lengths of training pairs, for ``--search tree2seq --length-statistics FILE``.

``python -m rnnsearch_fairseq.length_statistics SOURCE TARGET --output FILE``

SOURCE and TARGET are text as the training data was: tokenised, one sentence a line.
"""

import argparse
import sys
from itertools import islice
from pathlib import Path

from rnnsearch_fairseq.data.output import check_not_input, open_output
from rnnsearch_fairseq.data.text_files import check_parallel, check_rereadable, read_pairs
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.search.length_statistics import LengthStatistics

MOST_PAIRS = 1_000_000


def main() -> None:
    """The command line of this module."""
    parser = argparse.ArgumentParser(
        prog="python -m rnnsearch_fairseq.length_statistics",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("source", type=Path, help="source side of the training text")
    parser.add_argument("target", type=Path, help="its target side")
    parser.add_argument("--output", type=Path, metavar="FILE", required=True, help="file of statistics to write")
    parser.add_argument(
        "--pairs", type=int, default=MOST_PAIRS, metavar="N", help=f"count the first N pairs (default: {MOST_PAIRS:,})"
    )
    args = parser.parse_args()
    if args.pairs < 1:
        raise InputError(f"--pairs is {args.pairs}; give at least 1")
    check_not_input(args.output, (args.source, args.target))
    check_rereadable(args.source, args.target)
    check_parallel([args.source, args.target])
    with open_output(args.output) as out:
        pairs = read_pairs(args.source, args.target)
        lengths = ((len(source.split()), len(target.split())) for source, target in pairs)
        statistics = LengthStatistics.count(islice(lengths, args.pairs))
        out.write(statistics.write().encode())
    counted = sum(of_source.total() for of_source in statistics.counts.values())
    print(f"{counted:,} pairs, {len(statistics.counts):,} source lengths -> {args.output}")


if __name__ == "__main__":
    sys.exit(main())
