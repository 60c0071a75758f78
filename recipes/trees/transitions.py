"""Turn a parser's output for the source text into one line of transitions a sentence, for fairseq-preprocess.

SOURCE is the text that the model reads, one sentence a line, tokenised. PARSES are its trees, one a line, in Penn
brackets or Enju's XML. Line N of the output is the tree of line N of SOURCE: S shifts the next word, R joins the two
topmost phrases; "-" is a sentence without a parse, which is counted.

  python -m recipes.trees.transitions text/train.en text/train.penn --format penn --output text/train.tree
"""

import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from xml.etree.ElementTree import Element, ParseError, iterparse

from rnnsearch_fairseq.command_line import make_parser, program
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.output import check_not_input, open_output
from rnnsearch_fairseq.text.lines import read_pairs
from rnnsearch_fairseq.text.trees import NO_PARSE, NoParse, Parse, first_difference, make_binary, read_penn


def read_enju(text: str) -> Parse | NoParse:
    """Read a sentence as ``enju -xml`` prints it: ``<sentence parse_status="success"><cons>...</cons>.</sentence>``.

    The leaves are the texts of the ``tok`` elements. Without leaves, a sentence is EMPTY; with another
    ``parse_status``, STATUS; a text that is not such XML, or not one tree, is UNUSABLE.
    """
    if not text.strip():
        return NoParse.EMPTY
    try:
        _, *events, (_, sentence) = iterparse(io.StringIO(text), ("start", "end"))
    except ParseError:
        return NoParse.UNUSABLE
    return make_binary(_enju_nodes(events)) if sentence.get("parse_status") == "success" else NoParse.STATUS


def _enju_nodes(events: Iterable[tuple[str, Element]]) -> Iterator[bool | str]:
    for event, element in events:
        if event == "end" and element.tag == "tok":
            yield from (element.text or "").split()
        yield event == "start"


READERS: dict[str, Callable[[str], Parse | NoParse]] = {"penn": read_penn, "enju": read_enju}


@program
def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("source", type=Path, help="source text as fairseq-preprocess will read it")
    parser.add_argument("parses", type=Path, help="the parser's output for it")
    parser.add_argument("--format", choices=READERS, required=True, help="the parser's format; see above")
    parser.add_argument("--output", type=Path, metavar="FILE", required=True, help="file of transitions to write")
    parser.add_argument("--lowercase", action="store_true", help="SOURCE was lowercased after it was parsed")
    args = parser.parse_args()
    check_not_input(args.output, (args.source, args.parses))
    found: Counter[NoParse | None] = Counter()  # None: a tree
    with open_output(args.output) as out:
        for number, (line, text) in enumerate(read_pairs(args.source, args.parses), 1):
            parse, transitions = READERS[args.format](text), NO_PARSE
            if isinstance(parse, Parse):
                transitions = parse.transitions
                if difference := first_difference(parse.words, line.split(), args.lowercase):
                    cure = "give the text that was parsed, or --lowercase if it was lowercased then"
                    raise InputError(f"{args.parses}, line {number}: {difference} in {args.source}; {cure}")
            found[None if isinstance(parse, Parse) else parse] += 1
            out.write(f"{transitions}\n".encode())
        if found.keys() <= {NoParse.UNUSABLE}:
            raise InputError(f"{args.parses}: nothing in it can be read as --format {args.format}; give its own format")
    print(f"{found.total():,} sentences, {found.pop(None, 0):,} parsed -> {args.output}")
    for failure, count in found.items():
        print(f"  {count:,} without a parse: {failure.value}")
