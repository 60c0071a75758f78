"""Parse English text with Link Grammar (Sleator and Temperley 1991), for transitions.py --format penn.

SOURCE is tokenised English, one sentence a line. Line N of the output is its tree in Penn brackets, whose leaves are
the words of SOURCE, all labelled X: ``(S (NP (X many) (X animals)) (VP (X sleep)) (X .))``; or ``(())``, for a sentence
without a tree. Needs link-parser; Debian: apt-get install link-grammar.

  python -m recipes.trees.parse text/train.en --output text/train.penn
"""

import contextlib
import shutil
from collections import Counter
from pathlib import Path

from rnnsearch_fairseq.command_line import make_parser, program
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.output import check_not_input, open_output
from rnnsearch_fairseq.serve.link_grammar import PROGRAM, LinkParser
from rnnsearch_fairseq.text.lines import read_lines

NO_TREE = "(())"
MAX_SECONDS = 30  # for a sentence


@program
def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("source", type=Path, help="tokenised English, one sentence a line")
    parser.add_argument("--output", type=Path, metavar="FILE", required=True, help="file of trees to write")
    args = parser.parse_args()
    check_not_input(args.output, [args.source])
    if shutil.which(PROGRAM) is None:
        raise InputError(f"{PROGRAM} is not on the PATH; install it (Debian: apt-get install link-grammar)")
    parsed: Counter[bool] = Counter()
    with open_output(args.output) as out, contextlib.closing(LinkParser(MAX_SECONDS)) as link_parser:
        for line in read_lines(args.source):
            tree = link_parser.parse(line.split())
            parsed[tree is not None] += 1
            out.write(f"{tree or NO_TREE}\n".encode())
        if not parsed[True]:
            raise InputError(f"{args.source}: no sentence has a tree; give tokenised English, or run {PROGRAM} by hand")
    print(f"{parsed.total():,} sentences, {parsed[True]:,} parsed -> {args.output}")
