"""Translate text, one sentence a line, or documents: PO, XLIFF, TS, Markdown and HTML, alone or in a folder.

A line of text (FILE, or standard input) gives one line of output. A line without a letter stays as it is. A line that
cannot be read is named on standard error and left blank, and the command then ends with status 1. In PO, XLIFF and TS,
only messages without a translation get one, and it is marked for review. Markdown and HTML have no such mark. Other
files of a folder are copied. With --nbest, a line of output is a line's number, the search's score and the translation,
with tabs between.

  rnnsearch translate raw/test.en --model checkpoints --output test.fr
  rnnsearch translate docs.po --model checkpoints --output docs.fr.po
"""

import argparse
import contextlib
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

from tqdm import tqdm

from rnnsearch_fairseq.command_line import count, make_parser
from rnnsearch_fairseq.documents.fill import translate_documents
from rnnsearch_fairseq.documents.formats import find_beginning, find_format
from rnnsearch_fairseq.errors import InputError, quote
from rnnsearch_fairseq.inference.loading import model_files
from rnnsearch_fairseq.inference.options import add_model_options, add_search_options, load_with_replacements
from rnnsearch_fairseq.inference.translator import Text, Translator
from rnnsearch_fairseq.output import check_not_input, open_output
from rnnsearch_fairseq.text.language import MAX_LINES, find_other_languages
from rnnsearch_fairseq.text.lines import LINE_ENDS, MAX_LINE_BYTES, check_line, open_bytes, read_lines

READ_AHEAD = 1 << 16  # bytes
BLANK_LINE_ENDS = str.maketrans(dict.fromkeys(LINE_ENDS, " "))  # a line of text has one line of output


def read_arriving(path: Path | None) -> Iterator[list[bytes]]:
    """Yield the lines of a file, a pipe or standard input in groups, as they arrive."""
    incomplete = b""
    with contextlib.nullcontext(sys.stdin.buffer) if path is None else open_bytes(path) as file:
        while block := file.read1(READ_AHEAD):
            *lines, incomplete = (incomplete + block).split(b"\n")
            if lines:
                yield lines
            if len(incomplete) > MAX_LINE_BYTES:
                raise InputError(f"{path or 'standard input'}: a line has over {MAX_LINE_BYTES:,} bytes; split it")
    if incomplete:
        yield [incomplete]


def read_texts(
    translator: Translator, path: Path | None, trees: Path | None, prepared: bool, unread: list[int]
) -> Iterator[list[Text]]:
    """Yield the lines of a text in groups, as they arrive, with their trees from a file of as many lines.

    A line that cannot be read is named on standard error, is blank, and its number is added to ``unread``.
    """
    name = path or "standard input"
    numbers, tree_lines = itertools.count(1), iter(()) if trees is None else read_lines(trees)
    for lines in read_arriving(path):
        texts = []
        for line, number in zip(lines, numbers):
            tree = next(tree_lines, None)
            if trees is not None and tree is None:
                raise InputError(f"{trees}: ends before line {number}; give a tree for each line of the text")
            try:
                text = check_line(name, number, line, stray_returns=True).translate(BLANK_LINE_ENDS).rstrip()
                texts.append(translator.read_text(text, tree, f"{name}, line {number}", prepared))
            except InputError as error:
                print(f"left blank: {error}", file=sys.stderr)
                texts.append(translator.read_text(""))
                unread.append(number)
        yield texts
    if next(tree_lines, None) is not None:
        raise InputError(f"{trees}: has more lines than the text; give a tree for each line of the text")


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = make_parser(__doc__)
    parser.add_argument("file", type=Path, nargs="?", metavar="FILE", help="default: standard input")
    add_model_options(parser)
    parser.add_argument("--output", type=Path, metavar="FILE", help="default: standard output")
    nbest = "print up to NBEST translations of each line, with number and score"
    parser.add_argument("--nbest", type=count, help=nbest)
    parser.add_argument("--trees", type=Path, metavar="FILE", help="parses, in Penn brackets or as transitions")
    parser.add_argument("--prepared", action="store_true", help="lines are words with blanks between, in and out")
    parser.add_argument("--alignments", type=Path, metavar="FILE", help="write alignments, as rnnsearch score does")
    add_search_options(parser)
    args = parser.parse_args()
    path = args.file
    args.documents = path is not None and (path.is_dir() or find_format(path) is not None)
    args.documents |= path is not None and path.is_file() and find_beginning(path) is not None
    if args.documents and (args.output is None or args.nbest or args.alignments or args.trees or args.prepared):
        lines = "--nbest, --alignments, --trees and --prepared, which are for lines"
        raise InputError(f"{args.file}: give --output, without {lines}")
    named = [args.replace_unknown or None, args.terms, getattr(args, "length_statistics", None)]
    check_not_input([args.output, args.alignments], [args.file, args.trees, *named, *model_files(args.model)])
    return args


def main() -> int | None:
    args = parse_arguments()
    translator = load_with_replacements(args)
    if args.documents:
        return translate_documents(translator, args.file, args.output)
    if args.file is None:
        if sys.stdin.isatty():
            print("type a sentence a line; Ctrl-D ends", file=sys.stderr)
        if find_beginning(sys.stdin.buffer.peek()):
            raise InputError("standard input: a document, not lines of text; give it as a file, and --output")
    with contextlib.ExitStack() as stack:
        out = sys.stdout.buffer if args.output is None else stack.enter_context(open_output(args.output))
        alignments = None if args.alignments is None else stack.enter_context(open_output(args.alignments))
        hidden = not sys.stderr.isatty() or (sys.stdout.isatty() and args.output is None)
        progress = stack.enter_context(tqdm(unit=" lines", disable=hidden, dynamic_ncols=True))
        number, unread, beginning = 0, list[int](), list[str]()
        for texts in read_texts(translator, args.file, args.trees, args.prepared, unread):
            for several in translator.search(texts, nbest=args.nbest or 1):
                number, best = number + 1, several[0]
                if best.faults:
                    place = f"{args.file or 'standard input'}, line {number}"
                    print(f"{place}: its translation {quote(', '.join(best.faults))}", file=sys.stderr)
                if args.nbest is None:
                    out.write(f"{best.text}\n".encode())
                else:
                    out.writelines(f"{number}\t{pair.score:.4f}\t{pair.text}\n".encode() for pair in several)
                if alignments is not None:
                    best.number = number - 1
                    alignments.write(f"{best.to_json()}\n".encode())
            out.flush()
            progress.update(len(texts))
            beginning += (text.passage.text for text in texts[: max(0, MAX_LINES - len(beginning))])
    if not args.prepared and (doubt := find_other_languages(beginning, translator.languages[0])):
        print(f"{args.file or 'standard input'}: {doubt}", file=sys.stderr)
    return 1 if unread else None
