"""Count the lengths of training pairs, for ``--search tree2seq --length-statistics FILE``.

SOURCE and TARGET are the training text: tokenised, one sentence a line. The first million pairs are counted.

  python -m recipes.trees.lengths text/train.en text/train.fr --output lengths
"""

from collections import Counter
from itertools import islice
from pathlib import Path

from rnnsearch_fairseq.command_line import make_parser, program
from rnnsearch_fairseq.output import check_not_input, open_output
from rnnsearch_fairseq.search.length_statistics import LengthStatistics
from rnnsearch_fairseq.text.lines import read_pairs

MAX_PAIRS = 1_000_000  # as in Eriguchi et al. (2016), Section 4.3


@program
def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("source", type=Path, help="source side of the training text")
    parser.add_argument("target", type=Path, help="its target side")
    parser.add_argument("--output", type=Path, metavar="FILE", required=True, help="file of statistics to write")
    args = parser.parse_args()
    check_not_input(args.output, (args.source, args.target))
    pairs = islice(read_pairs(args.source, args.target), MAX_PAIRS)
    statistics = LengthStatistics(Counter((len(source.split()), len(target.split())) for source, target in pairs))
    with open_output(args.output) as out:
        out.write(statistics.write().encode())
    print(f"{statistics.counts.total():,} pairs, {len(statistics.totals):,} source lengths -> {args.output}")
