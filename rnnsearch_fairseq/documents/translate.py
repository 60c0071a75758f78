"""Translate text, one sentence a line, or what is not translated in PO and XLIFF files.

FILE, or standard input, is plain text: it is prepared as the training text was, and the translations are plain text
again. Each line has one line of output, in order; a blank line stays blank. A line that cannot be read (it is not UTF-8
or too long, or its tree has other words) is named on standard error and left blank. With --nbest N, each line has up to
N lines of output, best first: its number from 1, the search's score and the translation, with tabs between.

Lines are translated as they arrive, in batches of similar lengths.

A PO or XLIFF file, or each one in a folder, is copied with its untranslated messages filled in and marked as fuzzy, or
as in need of review. Of the translations in the beam, the best one that keeps the markup (placeholders, code, tags) is
taken, or else the best one; messages in which markup is missing or changed are counted.

  rnnsearch translate raw/test.en --model checkpoints --output test.fr
  rnnsearch translate docs.po --model checkpoints --output docs.fr.po
"""

import argparse
import contextlib
import itertools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from rnnsearch_fairseq.documents.fill import translate_documents
from rnnsearch_fairseq.documents.formats import is_readable, refuse_document
from rnnsearch_fairseq.errors import Count, InputError, make_parser
from rnnsearch_fairseq.inference.options import add_model_options, add_search_options, search_options
from rnnsearch_fairseq.inference.score import write_score
from rnnsearch_fairseq.inference.translator import MOST_CHARACTERS, Alignment, Source, Translation, Translator, load
from rnnsearch_fairseq.output import check_not_input, open_output
from rnnsearch_fairseq.text.lines import check_line, check_text_file, open_bytes, read_lines
from rnnsearch_fairseq.text.scores import UNKNOWN

READ_AHEAD = 1 << 16  # bytes
MOST_BYTES = 4 * MOST_CHARACTERS  # of a line


def read_arriving(path: Path | None) -> Iterator[list[bytes]]:
    """Yield the lines of a file, a pipe or standard input in groups, as they arrive.

    Of a line that is too long, only the beginning is kept.
    """
    rest = b""
    with contextlib.nullcontext(sys.stdin.buffer) if path is None else open_bytes(path) as file:
        while block := file.read1(READ_AHEAD):
            *lines, rest = (rest + block).split(b"\n")
            rest = rest[: MOST_BYTES + 1]
            if lines:
                yield lines
    if rest:
        yield [rest]


def read_dictionary(path: Path) -> dict[str, str]:
    """Read the translation of each source word; each line of the file begins with these two words.

    Raises:
        InputError: the file cannot be read, or a line has fewer than two words.
    """
    dictionary = {}
    for number, line in enumerate(read_lines(path), 1):
        words = line.split()
        if len(words) < 2:
            raise InputError(f"{path}, line {number}: not a word and its translation; delete it or complete it")
        dictionary[words[0]] = words[1]
    return dictionary


def read_sources(translator: Translator, path: Path | None, trees: Path | None = None) -> Iterator[list[Source]]:
    """Yield the lines of a text in groups, as they arrive, with their trees from a file of as many lines.

    A line that cannot be read is named on standard error, and is blank.

    Raises:
        InputError: there are fewer or more trees than lines.
    """
    name = path or "standard input"
    tree_lines = None if trees is None else read_lines(trees)
    numbers = itertools.count(1)
    for lines in read_arriving(path):
        sources = []
        for line, number in zip(lines, numbers):
            where, tree = f"{name}, line {number}", None
            if tree_lines is not None and (tree := next(tree_lines, None)) is None:
                raise InputError(f"{trees}: ends before line {number}; give a tree for each line of the text")
            try:
                if len(line) > MOST_BYTES:
                    raise InputError(f"{where}: has more than {MOST_BYTES:,} bytes; split it")
                text = check_line(name, number, line, stray_returns=True)
                sources.append(translator.read_source(text, tree, where))
            except InputError as error:
                print(f"left blank: {error}", file=sys.stderr)
                sources.append(translator.read_source(""))
        yield sources
    if tree_lines is not None and next(tree_lines, None) is not None:
        raise InputError(f"{trees}: has more lines than the text; give a tree for each line of the text")


def translate_group(
    translator: Translator, sources: Sequence[Source], nbest: int, align: bool, dictionary: dict[str, str] | None
) -> Iterator[tuple[list[Translation], Alignment | None]]:
    """The translations of each source, and the alignment of the best one if ``align`` is set.

    Args:
        dictionary: replace unknown words by their translations in it, or by the source words; None: do not.
    """
    results = translator.search(sources, nbest=nbest)
    wanted = [
        (number, place)
        for number, translations in enumerate(results)
        for place, translation in enumerate(translations)
        if (align and place == 0) or (dictionary is not None and UNKNOWN in translation.words)
    ]
    pairs = [(sources[number], results[number][place].words) for number, place in wanted]
    alignments = dict(zip(wanted, translator.align_words(pairs)))
    for (number, place), alignment in alignments.items() if dictionary is not None else ():
        words = replace_unknown(results[number][place].words, alignment, dictionary)
        results[number][place] = replace(results[number][place], text=translator.decode(words, sources[number]))
    for number, translations in enumerate(results):
        yield translations, alignments.get((number, 0)) if align else None


def replace_unknown(words: Sequence[str], alignment: Alignment, dictionary: dict[str, str]) -> list[str]:
    """Replace each <unk> by the translation of the source word with the greatest weight, or by that word itself."""
    source = alignment.source[:-1]
    aligned = [source[row.argmax()] if source else UNKNOWN for row in alignment.weights[:-1, :-1]]
    return [dictionary.get(other, other) if word == UNKNOWN else word for word, other in zip(words, aligned)]


def load_with_replacements(args: argparse.Namespace) -> tuple[Translator, dict[str, str] | None]:
    """Load the model of a command line, and the dictionary of ``--replace-unknown``: None if it is not given.

    Raises:
        InputError: either cannot be read, or the model has no alignment.
    """
    name = args.replace_unknown
    dictionary = {} if name == "" else name and read_dictionary(Path(name))
    translator = load(args.model, args.device, **search_options(args))
    if not translator.has_attention and (dictionary is not None or getattr(args, "alignments", None) is not None):
        raise InputError("the model has no alignment (RNNencdec); leave out --replace-unknown and --alignments")
    return translator, dictionary


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = make_parser(__doc__)
    parser.add_argument("file", type=Path, nargs="?", metavar="FILE", help="default: standard input")
    add_model_options(parser)
    parser.add_argument("--output", type=Path, metavar="FILE", help="default: standard output")
    parser.add_argument("--nbest", action=Count, help="print up to N translations of each line, with number and score")
    parser.add_argument(
        "--trees", type=Path, metavar="FILE", help="parses, line by line, in Penn brackets or from rnnsearch trees"
    )
    parser.add_argument("--alignments", type=Path, metavar="FILE", help="write alignments, as rnnsearch score does")
    add_search_options(parser)
    args = parser.parse_args()
    if _holds_documents(args.file) and (args.output is None or args.nbest or args.alignments or args.trees):
        raise InputError(f"{args.file}: give --output, without --nbest, --alignments and --trees, which are for lines")
    inputs = [path for path in (args.file, args.trees) if path is not None]
    for output in (args.output, args.alignments):
        if output is not None:
            check_not_input(output, inputs)
    return args


def main() -> None:
    """The command line of this module."""
    args = parse_arguments()
    if args.trees is not None:
        check_text_file(args.trees)
    translator, dictionary = load_with_replacements(args)
    if _holds_documents(args.file):

        def search(sources: Sequence[Source]) -> list[list[Translation]]:
            return [best for best, _ in translate_group(translator, sources, args.beam, False, dictionary)]

        return translate_documents(translator, search, args.file, args.output)
    with contextlib.ExitStack() as stack:
        out = sys.stdout.buffer if args.output is None else stack.enter_context(open_output(args.output))
        alignments = None if args.alignments is None else stack.enter_context(open_output(args.alignments))
        progress = stack.enter_context(_progress(args.file, args.output is not None))
        number = 0
        if args.file is None:
            refuse_document("standard input", sys.stdin.buffer.peek())
        for sources in read_sources(translator, args.file, args.trees):
            for best, alignment in translate_group(
                translator, sources, args.nbest or 1, alignments is not None, dictionary
            ):
                number += 1
                if args.nbest is None:
                    out.write(f"{best[0].text}\n".encode())
                else:
                    out.writelines(f"{number}\t{each.score:.4f}\t{each.text}\n".encode() for each in best)
                if alignments is not None:
                    write_score(number - 1, alignment, alignments)
            out.flush()
            progress.update(len(sources))


def _holds_documents(path: Path | None) -> bool:
    return path is not None and (path.is_dir() or is_readable(path))


def _progress(path: Path | None, to_file: bool) -> contextlib.AbstractContextManager:
    """A bar on a terminal, unless the translations are printed there; it knows the number of lines of a file."""
    from tqdm import tqdm

    hidden = not sys.stderr.isatty() or (sys.stdout.isatty() and not to_file)
    total = None
    if not hidden and path is not None and path.is_file():
        with open_bytes(path) as file:
            total = sum(1 for _ in file)
    return tqdm(total=total, unit=" lines", disable=hidden, dynamic_ncols=True)
