"""Turn a parser's output for the source text into one line of transitions a sentence, for fairseq-preprocess.

SOURCE is the text that the model reads, one sentence a line, tokenised. PARSES are its trees in Penn brackets, one a
line or over several lines, or Enju's XML, one sentence a line. Line N of the output is the tree of line N of SOURCE:
S shifts the next word, R joins the two topmost phrases; "-" is a sentence without a parse, which is counted.

  rnnsearch trees text/train.en text/train.penn --format penn --output text/train.tree
"""

from collections.abc import Iterator
from pathlib import Path

from rnnsearch_fairseq.errors import InputError, make_parser
from rnnsearch_fairseq.output import check_not_input, open_output
from rnnsearch_fairseq.text.lines import check_text_files, read_lines, shown
from rnnsearch_fairseq.text.trees import READERS, NoParse, Tree, first_difference, format_transitions, join_lines


def read_trees(
    source: Path, parses: Path, form: str, lowercase: bool = False, refuse: bool = True
) -> Iterator[Tree | NoParse]:
    """Yield the tree of every sentence of ``source``, or why it has none.

    Args:
        form: the format of ``parses``, one of `READERS`.
        lowercase: lowercase leaves before they are compared with the words.
        refuse: leaves that are not the words are an error; otherwise, the sentence has no parse.

    Raises:
        InputError: a file is bad, the files are not of the same number of sentences, or leaves are not the words.
    """
    texts = _read_parses(source, parses, form)
    for number, (line, (start, text)) in enumerate(zip(read_lines(source), texts, strict=True), 1):
        words = line.split()
        parse = READERS[form](text)
        if isinstance(parse, NoParse):
            yield parse
            continue
        position = first_difference(parse.words, words, lowercase)
        if position is None:
            yield parse.tree
        elif refuse:
            raise _mismatch(f"{parses}, line {start}", parse.words, f"{source}, line {number}", words, position)
        else:
            yield NoParse.MISMATCH


def _read_parses(source: Path, parses: Path, form: str) -> Iterator[tuple[int, str]]:
    """The number of each parse's first line, and its text."""
    sentences, lines = check_text_files(source), check_text_files(parses)
    if lines == sentences:
        return enumerate(read_lines(parses), 1)
    size = f"{lines} lines"
    if form == "penn":
        trees = sum(1 for _ in join_lines(read_lines(parses)))
        if trees == sentences:
            return join_lines(read_lines(parses))
        size += f" and {trees} trees"
    raise InputError(f"{parses} has {size}, but {source} has {sentences} lines; give one parse for each line of it")


def _mismatch(where: str, leaves: list[str], there: str, words: list[str], position: int) -> InputError:
    leaf, word = leaves[position : position + 1], words[position : position + 1]
    has = f"leaf {position + 1} is {shown(leaf[0])}" if leaf else "the tree ends"
    needs = f"word {position + 1} of {there} is {shown(word[0])}" if word else f"{there} ends"
    cure = "give the text that was parsed, or leave such sentences without a parse by --mismatch no-parse"
    if [text.lower() for text in leaf] == [text.lower() for text in word]:
        cure = "give --lowercase if, and only if, the text was lowercased after it was parsed"
    return InputError(f"{where}: {has}, but {needs}; {cure}")


def main() -> None:
    """The command line of this module."""
    parser = make_parser(__doc__)
    parser.add_argument("source", type=Path, help="source text as fairseq-preprocess will read it")
    parser.add_argument("parses", type=Path, help="the parser's output for it")
    parser.add_argument("--format", choices=READERS, required=True, help="the parser's format; see above")
    parser.add_argument("--output", type=Path, metavar="FILE", required=True, help="file of transitions to write")
    parser.add_argument("--lowercase", action="store_true", help="SOURCE was lowercased after it was parsed")
    mismatch = "for a tree whose leaves are not the words of its sentence: stop and name them, or leave the sentence "
    mismatch += "without a parse and count it (default: refuse)"
    parser.add_argument("--mismatch", choices=("refuse", "no-parse"), default="refuse", help=mismatch)
    args = parser.parse_args()
    check_not_input(args.output, (args.source, args.parses))
    refuse = args.mismatch == "refuse"
    sentences = phrases = 0
    failures: dict[NoParse, list[int]] = {}  # the numbers of sentences without a parse, by reason
    with open_output(args.output) as out:
        for tree in read_trees(args.source, args.parses, args.format, args.lowercase, refuse):
            sentences += 1
            if isinstance(tree, NoParse):
                failures.setdefault(tree, []).append(sentences)
                tree = None
            else:
                phrases += len(tree.splits)
            out.write(f"{format_transitions(tree)}\n".encode())
        if len(failures.get(NoParse.UNUSABLE, [])) == sentences:
            raise InputError(f"{args.parses}: nothing in it can be read as --format {args.format}; give its own format")
    without = sum(map(len, failures.values()))
    print(f"{sentences:,} sentences, {sentences - without:,} parsed: {phrases:,} phrases; {without:,} without a parse")
    for failure, numbers in failures.items():
        print(f"  {len(numbers):,} {failure.value} (the first is sentence {numbers[0]:,})")
    print(f"-> {args.output}")
