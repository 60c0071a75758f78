"""Turn what a parser said of the source text into one line of transitions a sentence, for fairseq-preprocess.

SOURCE is the text that the model reads: one sentence a line, tokenised. PARSES is the parser's output for the same
sentences:

penn    trees in brackets, from any parser that prints them: one a line if PARSES has as many lines as SOURCE, empty
        lines counted. Otherwise a tree ends where its brackets are closed, or at an empty line
enju    Enju's XML, one sentence a line

Line N of TREES is the tree of line N of SOURCE: S shifts the next word, R joins the two topmost phrases, so that
((a b) c) is "S S R S R"; "-" is a sentence without a parse. Labels are dropped, nodes of one child collapsed, and nodes
of more than two made binary: (a (b (c d))). Words after the last leaf are outside the tree; only punctuation may be.

A sentence is without a parse, and is counted, if its parse is empty, like (()), has a parse_status other than success,
or is unusable: not one well-formed tree.

  rnnsearch trees text/train.en text/train.penn --format penn --output text/train.tree
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rnnsearch_fairseq.errors import InputError, make_parser
from rnnsearch_fairseq.output import check_not_input, open_output
from rnnsearch_fairseq.text.lines import check_text_file, read_lines, shown
from rnnsearch_fairseq.text.trees import READERS, NoParse, Parse, Tree, first_difference, format_transitions, join_lines


@dataclass
class ParseCounts:
    """The sentences, the words and phrases of those with a tree, and by reason the numbers, from 1, of the others."""

    sentences: int = 0
    words: int = 0
    phrases: int = 0
    outside: int = 0
    no_parse: dict[NoParse, list[int]] = field(default_factory=lambda: {reason: [] for reason in NoParse})

    def count(self, tree: Tree | NoParse, words: int) -> None:
        """Add a sentence of ``words`` words."""
        self.sentences += 1
        if isinstance(tree, NoParse):
            self.no_parse[tree].append(self.sentences)
        else:
            self.words += words
            self.phrases += len(tree.splits)
            self.outside += words - tree.leaves

    def summary(self) -> str:
        """The counts in words, over several lines."""
        without = sum(map(len, self.no_parse.values()))
        lines = [
            f"{self.sentences:,} sentences, {self.sentences - without:,} parsed: {self.words:,} words, "
            f"{self.outside:,} of them outside the trees; {self.phrases:,} phrase nodes",
            f"{without:,} without a parse" + (":" if without else ""),
        ]
        for reason, numbers in self.no_parse.items():
            if numbers:
                lines.append(f"  {len(numbers):,} {reason.value} (the first is sentence {numbers[0]:,})")
        return "\n".join(lines)


def read_trees(
    source: Path, parses: Path, form: str, counts: ParseCounts, lowercase: bool = False, refuse: bool = True
) -> Iterator[Tree | None]:
    """Read, and count, the tree of every sentence of ``source``; None is a sentence without a parse.

    ``parses`` have the format ``form``, one of ``READERS``. With ``lowercase``, leaves are lowercased before they are
    compared with the words. Leaves that are not the words are an error or, without ``refuse``, no parse.

    Raises:
        InputError: a file is bad, the files are not of the same number of sentences, leaves are not the words, or no
            parse at all can be read in this format.
    """
    texts = _parse_texts(source, parses, form)
    for number, (line, (start, text)) in enumerate(zip(read_lines(source), texts, strict=True), 1):
        words = line.split()
        parse = READERS[form](text)
        tree = parse if isinstance(parse, NoParse) else parse.tree
        if isinstance(parse, Parse):
            position = first_difference(parse.words, words, lowercase)
            if position is not None:
                if refuse:
                    raise _mismatch(f"{parses}, line {start}", parse.words, f"{source}, line {number}", words, position)
                tree = NoParse.MISMATCH
        counts.count(tree, len(words))
        yield None if isinstance(tree, NoParse) else tree
    if len(counts.no_parse[NoParse.UNUSABLE]) == counts.sentences:
        raise InputError(f"{parses}: nothing in it can be read as --format {form}; give the format that it is in")


def _parse_texts(source: Path, parses: Path, form: str) -> Iterator[tuple[int, str]]:
    """The number of each parse's first line, and its text."""
    sentences, lines = check_text_file(source), check_text_file(parses)
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
    if leaf and word and first_difference(leaf, word) is None:
        cure = "leave out --lowercase, since this text has capitals"
    elif leaf and word and first_difference(leaf, word, lowercase=True) is None:
        cure = "give --lowercase"
    return InputError(f"{where}: {has}, but {needs}; {cure}")


def main() -> None:
    """The command line of this module."""
    parser = make_parser(__doc__)
    parser.add_argument("source", type=Path, help="source text as fairseq-preprocess will read it")
    parser.add_argument("parses", type=Path, help="what the parser said of it")
    parser.add_argument("--format", choices=READERS, required=True, help="the parser's format; see above")
    parser.add_argument("--output", type=Path, metavar="FILE", required=True, help="file of transitions to write")
    parser.add_argument("--lowercase", action="store_true", help="SOURCE was lowercased after it was parsed")
    parser.add_argument(
        "--mismatch",
        choices=("refuse", "no-parse"),
        default="refuse",
        help="what to do with a tree whose leaves are not the words of its sentence: stop and name them, or leave the "
        "sentence without a parse and count it (default: refuse)",
    )
    args = parser.parse_args()
    check_not_input(args.output, (args.source, args.parses))
    counts = ParseCounts()
    with open_output(args.output) as out:
        refuse = args.mismatch == "refuse"
        trees = read_trees(args.source, args.parses, args.format, counts, args.lowercase, refuse)
        out.writelines(f"{format_transitions(tree)}\n".encode() for tree in trees)
    print(f"{counts.summary()}\n-> {args.output}")
