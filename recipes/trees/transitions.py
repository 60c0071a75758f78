"""Turn a parser's output for the source text into one line of transitions a sentence, for fairseq-preprocess.

SOURCE is the text that the model reads, one sentence a line, tokenised. PARSES are its trees in Penn brackets, one a
line or over several lines, or Enju's XML, one sentence a line. Line N of the output is the tree of line N of SOURCE:
S shifts the next word, R joins the two topmost phrases; "-" is a sentence without a parse, which is counted.

  python -m recipes.trees.transitions text/train.en text/train.penn --format penn --output text/train.tree
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from rnnsearch_fairseq.command_line import make_parser, print_without_traceback
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.output import check_not_input, open_output
from rnnsearch_fairseq.text.lines import check_text_files, read_lines
from rnnsearch_fairseq.text.trees import READERS, NoParse, Parse, first_difference, format_transitions, join_lines


def _read_parses(source: Path, parses: Path, form: str) -> Iterator[tuple[int, str]]:
    """The number of each parse's first line, and its text."""
    sentences, lines = check_text_files(source), check_text_files(parses)
    if lines == sentences:
        return enumerate(read_lines(parses), 1)
    if form == "penn" and sum(1 for _ in join_lines(read_lines(parses))) == sentences:
        return join_lines(read_lines(parses))
    raise InputError(f"{parses}: has {lines} lines, but {source} has {sentences}; give one parse for each line of it")


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("source", type=Path, help="source text as fairseq-preprocess will read it")
    parser.add_argument("parses", type=Path, help="the parser's output for it")
    parser.add_argument("--format", choices=READERS, required=True, help="the parser's format; see above")
    parser.add_argument("--output", type=Path, metavar="FILE", required=True, help="file of transitions to write")
    parser.add_argument("--lowercase", action="store_true", help="SOURCE was lowercased after it was parsed")
    mismatch = "for a tree whose leaves are not the words: stop, or leave it out and count it (default: refuse)"
    parser.add_argument("--mismatch", choices=("refuse", "no-parse"), default="refuse", help=mismatch)
    args = parser.parse_args()
    check_not_input(args.output, (args.source, args.parses))
    found: Counter[NoParse | None] = Counter()  # None: a tree
    with open_output(args.output) as out:
        texts = _read_parses(args.source, args.parses, args.format)
        for number, (line, (start, text)) in enumerate(zip(read_lines(args.source), texts, strict=True), 1):
            words, parse = line.split(), READERS[args.format](text)
            difference = first_difference(parse.words, words, args.lowercase) if isinstance(parse, Parse) else None
            if difference is not None:
                if args.mismatch == "refuse":
                    raise InputError(
                        f"{args.parses}, line {start}: {difference} in {args.source}, line {number}; give the "
                        "text that was parsed, --lowercase if it was lowercased then, or --mismatch no-parse to skip it"
                    )
                parse = NoParse.MISMATCH
            tree = parse.tree if isinstance(parse, Parse) else None
            found[parse if tree is None else None] += 1
            out.write(f"{format_transitions(tree)}\n".encode())
        if found.keys() == {NoParse.UNUSABLE}:
            raise InputError(f"{args.parses}: nothing in it can be read as --format {args.format}; give its own format")
    print(f"{found.total():,} sentences, {found.pop(None, 0):,} parsed -> {args.output}")
    for failure, count in found.items():
        print(f"  {count:,} without a parse: {failure.value}")


if __name__ == "__main__":
    print_without_traceback()
    main()
