"""Replace each parse in a file of transitions by a tree of as many words that knows nothing of syntax.

Two controls for the claim that a model gains by syntax: purely right-branching trees, (a (b (c d))), and random trees,
in which each phrase is divided at a place drawn at random. A sentence without a parse keeps its "-".

  python -m recipes.trees.controls text/train.tree --kind right --output control/train.tree
"""

import random
from pathlib import Path

from rnnsearch_fairseq.command_line import make_parser, program
from rnnsearch_fairseq.corpus.rows import write_rows
from rnnsearch_fairseq.output import check_not_input
from rnnsearch_fairseq.text.lines import read_lines
from rnnsearch_fairseq.text.trees import NO_PARSE, REDUCE, SHIFT


def draw_transitions(words: int, generator: random.Random | None) -> str:
    """The line of transitions of a tree of this many words: right-branching, or drawn by the generator."""
    transitions, sizes = [], [words]  # of phrases, the next one last; 0 ends a phrase
    while sizes:
        size = sizes.pop()
        if size < 2:
            transitions.append(SHIFT if size else REDUCE)
        else:
            left = 1 if generator is None else generator.randrange(1, size)
            sizes += [0, size - left, left]
    return " ".join(transitions)


@program
def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("trees", type=Path, help="transitions, one sentence a line")
    parser.add_argument("--kind", choices=["right", "random"], required=True, help="right-branching or random trees")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="transitions to write")
    args = parser.parse_args()
    check_not_input([args.output], [args.trees])
    generator = None if args.kind == "right" else random.Random(1)
    sizes = (0 if line.strip() == NO_PARSE else line.split().count(SHIFT) for line in read_lines(args.trees))
    write_rows([args.output], ((draw_transitions(words, generator) if words else NO_PARSE,) for words in sizes))
