"""The command ``lengths``: statistics of the lengths of training pairs, for tree2seq's search."""

from collections import Counter
from itertools import islice
from pathlib import Path

from rnnsearch_fairseq.errors import Count, make_parser
from rnnsearch_fairseq.output import check_not_input, open_output
from rnnsearch_fairseq.search.length_statistics import LengthStatistics
from rnnsearch_fairseq.text.lines import check_text_files, read_pairs

COMMAND = """Count the lengths of training pairs, for ``--search tree2seq --length-statistics FILE``.

SOURCE and TARGET are the training text: tokenised, one sentence a line.

  rnnsearch lengths text/train.en text/train.fr --output lengths
"""
MOST_PAIRS = 1_000_000


def main() -> None:
    """Run ``rnnsearch lengths``."""
    parser = make_parser(COMMAND)
    parser.add_argument("source", type=Path, help="source side of the training text")
    parser.add_argument("target", type=Path, help="its target side")
    parser.add_argument("--output", type=Path, metavar="FILE", required=True, help="file of statistics to write")
    pairs_help = f"count the first N pairs (default: {MOST_PAIRS:,})"
    parser.add_argument("--pairs", action=Count, default=MOST_PAIRS, help=pairs_help)
    args = parser.parse_args()
    check_not_input(args.output, (args.source, args.target))
    check_text_files(args.source, args.target)
    with open_output(args.output) as out:
        pairs = read_pairs(args.source, args.target)
        lengths = ((len(source.split()), len(target.split())) for source, target in pairs)
        statistics = LengthStatistics(Counter(islice(lengths, args.pairs)))
        out.write(statistics.write().encode())
    counts, totals = statistics.counts, statistics.totals
    print(f"{counts.total():,} pairs, {len(totals):,} source lengths -> {args.output}")
