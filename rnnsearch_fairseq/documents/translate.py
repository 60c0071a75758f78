"""Translate lines of plain text, a document, or a folder of documents.

Lines: each line of FILE or of standard input gives one line of output. A line without a letter stays as it is. A line
that cannot be read is named on standard error and left blank, and the command then ends with status 1. With --nbest, a
line of output is the number of the line (from 1), the search's score and the translation, with tabs between.

Documents: PO (.po), XLIFF (.xlf, .xliff), Qt's .ts, Markdown (.md, .mdx) and HTML (.html), also compressed (.gz).
Messages that have a translation keep it, also a fuzzy one. A new translation in PO, XLIFF and TS is marked for review;
Markdown and HTML have no such mark. A translated heading of Markdown gets an anchor, so that links to it still work.
Front matter, and the titles of links and images, stay as they are. So do names that are the subject of several clauses,
such as a project's own. In a folder, documents in other languages than the model's, and all other files (such as
.rst, .txt and .pot), are copied, and the folders .git and node_modules are left out.

Translated lines overwrite the file of --output. A document is never written over a file. If one document of a folder
cannot be read, the command names it and writes nothing.

  rnnsearch translate raw/test.en --model checkpoints --output test.fr
  rnnsearch translate docs.po --model checkpoints --output docs.fr.po
"""

import argparse
import codecs
import contextlib
import itertools
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

from tqdm import tqdm

from rnnsearch_fairseq.command_line import count, make_parser
from rnnsearch_fairseq.documents.formats import file_suffix, find_beginning, find_format, read_document
from rnnsearch_fairseq.documents.units import Document, Page
from rnnsearch_fairseq.errors import InputError, quote
from rnnsearch_fairseq.inference.aligned_pairs import AlignedPair
from rnnsearch_fairseq.inference.loading import model_files
from rnnsearch_fairseq.inference.options import add_model_options, add_search_options, load_with_replacements
from rnnsearch_fairseq.inference.translator import Text, Translator
from rnnsearch_fairseq.output import check_not_input, open_output
from rnnsearch_fairseq.text.language import MAX_LINES, find_other_languages
from rnnsearch_fairseq.text.lines import LINE_ENDS, MAX_LINE_BYTES, check_line, open_bytes, read_lines
from rnnsearch_fairseq.text.terms import find_names

READ_AHEAD = 1 << 16  # bytes
SEARCHED_TOGETHER = 400  # texts
# The names of the counts, and whether a count of zero is printed.
DOCUMENTS, KEPT, BLANK = "documents", "texts that keep their translation", "texts to translate"
FILLED, EQUAL, REVIEWED = "translated", "equal to their source", "marked for review"
FAULTY = "with something missing or changed, named above"
COUNTED = {DOCUMENTS: True, KEPT: False, BLANK: True, FILLED: True, EQUAL: False, REVIEWED: False, FAULTY: False}
LEFT = {".git", "node_modules"}  # folders that are not copied
# The endings of files that are no plain text. translate-toolkit or sphinx-intl makes PO of such files.
NOT_PLAIN = {
    ".adoc", ".arb", ".csv", ".ftl", ".ini", ".json", ".lang", ".php", ".properties", ".resx", ".rst", ".srt",
    ".strings", ".toml", ".vtt", ".xhtml", ".yaml", ".yml"
}  # fmt: skip
BLANK_LINE_ENDS = str.maketrans(dict.fromkeys(LINE_ENDS, " "))  # a line of text has one line of output


def read_arriving(path: Path | None) -> Iterator[list[bytes]]:
    """Yield the lines of a file, a pipe or standard input in groups, as they arrive."""
    incomplete = b""
    with contextlib.nullcontext(sys.stdin.buffer) if path is None else open_bytes(path) as file:
        for number, block in enumerate(iter(lambda: file.read1(READ_AHEAD), b"")):
            if not number and b"\0" in block:
                raise InputError(f"{path or 'standard input'}: not text in UTF-8 (it has NUL bytes); give plain text")
            *lines, incomplete = (incomplete + block).split(b"\n")
            if lines:
                yield lines
            if len(incomplete) > MAX_LINE_BYTES:
                raise InputError(f"{path or 'standard input'}: a line has over {MAX_LINE_BYTES:,} bytes; split it")
    if incomplete:
        yield [incomplete]


def read_texts(translator: Translator, args: argparse.Namespace, unread: list[int]) -> Iterator[list[Text]]:
    """Yield the lines of a text in groups, as they arrive, with their trees from a file of as many lines.

    A line that cannot be read is named on standard error, is blank, and its number is added to ``unread``.
    """
    name, trees = args.file or "standard input", args.trees
    numbers, tree_lines = itertools.count(1), iter(()) if trees is None else read_lines(trees)
    for lines in read_arriving(args.file):
        texts = []
        for line, number in zip(lines, numbers):
            tree = next(tree_lines, None)
            if trees is not None and tree is None:
                raise InputError(f"{trees}: ends before line {number}; give a tree for each line of the text")
            try:
                line = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
                text = check_line(name, number, line, stray_returns=True).translate(BLANK_LINE_ENDS).rstrip()
                texts.append(translator.read_text(text, tree, f"{name}, line {number}", args.prepared))
            except InputError as error:
                print(f"left blank: {error}", file=sys.stderr)
                texts.append(translator.read_text(""))
                unread.append(number)
        yield texts
    if next(tree_lines, None) is not None:
        raise InputError(f"{trees}: has more lines than the text; give a tree for each line of the text")


def translate_documents(translator: Translator, data: Path, out: Path) -> None:
    """Write a document, or a folder of documents, with translations of all texts that had none. Report on standard
    error.

    In a folder, links, documents in another language, templates of PO and all other files are copied.
    """
    inside = [path for path in sorted(data.rglob("*")) if path.is_file() or path.is_symlink()]
    paths = [path for path in inside if LEFT.isdisjoint(path.relative_to(data).parts)] if data.is_dir() else [data]
    outputs = {path: out / path.relative_to(data) for path in paths}
    check_not_input(outputs.values(), paths)
    written = (path for path in outputs.values() if path.is_symlink() or (path.is_file() and path.stat().st_size))
    if existing := next(written, None):
        raise InputError(f"{existing}: is there already, perhaps with reviewed text; remove it, or give another output")
    documents = _read(paths, data, *translator.languages)
    texts = (text for document in documents.values() for unit in document.units for text in unit.sources)
    if translator.reader.masks and (names := find_names(texts, translator.languages[0])):
        print(f"names that stay as they are (--terms FILE can change this): {', '.join(names)}", file=sys.stderr)
        translator.reader = replace(translator.reader, terms=translator.reader.terms.with_names(names))
    copied = Counter(path.suffix or path.name for path in paths if path not in documents)
    counts = Counter({DOCUMENTS: len(documents)})
    for path, output in outputs.items():
        output.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink() and path != data:
            output.symlink_to(path.readlink())
            continue
        if path not in documents:
            with path.open("rb") as original, open_output(output, packs=False) as file:
                shutil.copyfileobj(original, file)
            shutil.copymode(path, output)
            continue
        document = documents.pop(path)  # so that its memory is free once it is written
        counts += _fill(document, translator, path)
        with open_output(output) as file:
            file.write(document.write(translator.languages[1]))
    named = [name for name, is_always in COUNTED.items() if counts[name] or is_always]
    report = [f"{name}: {counts[name]:,}" for name in named]
    if copied:
        report.append(f"copied as they are: {', '.join(f'{number:,} {name}' for name, number in copied.most_common())}")
    print("; ".join(report), file=sys.stderr)


def _read(paths: Sequence[Path], data: Path, source: str, target: str) -> dict[Path, Document]:
    """The documents that are in the language ``source``, and their translations in ``target``."""
    documents, reason = {}, "holds no PO, XLIFF, TS, Markdown or HTML"
    for path in paths:
        if path != data and (path.is_symlink() or find_format(path) is None or ".pot" in path.suffixes):
            continue
        document = read_document(path)
        reason = document.find_other_language(source, target)
        if not reason:
            documents[path] = document
        elif path != data:
            print(f"{path}: copied as it is: {reason}", file=sys.stderr)
    if not documents:
        raise InputError(f"{data}: {reason}; give another file or folder")
    return documents


def _fill(document: Document, translator: Translator, path: Path) -> Counter[str]:
    """Fill in the units of a document that have no translation; name each unit that stays empty or has a fault."""
    blanks = [unit for unit in document.units if any(unit.sources) and not any(unit.targets)]
    texts: dict[str, Text] = {}
    results: dict[str, AlignedPair | str] = {}  # the translation of each text, or why there is none
    for source in dict.fromkeys(chain.from_iterable(unit.sources for unit in blanks)):
        try:
            text = translator.read_text(source, None, "it")
            if text.passage.has_plural:
                raise InputError("it has ICU's plural or select; translate its forms by hand")
            texts[source] = text
        except InputError as error:
            results[source] = str(error)
    if doubt := find_other_languages(texts, translator.languages[0]):
        print(f"{path}: {doubt}; they are translated all the same", file=sys.stderr)
    waiting = iter(texts.values())
    groups = iter(lambda: [*islice(waiting, SEARCHED_TOGETHER)], [])
    pairs = (best for group in groups for best, *_ in translator.search(group))
    shown = {"unit": " texts", "disable": not sys.stderr.isatty(), "leave": False, "dynamic_ncols": True}
    results |= zip(texts, tqdm(pairs, path.name, len(texts), **shown))
    kept = [unit for unit in document.units if any(unit.targets)]
    counts = Counter({KEPT: len(kept), BLANK: len(blanks)})
    for unit in kept:
        if not all(unit.targets):
            print(f"{path}, {unit.name}: left as it is: not all its forms have a translation", file=sys.stderr)
    for unit in blanks:
        best = [results[source] for source in unit.sources]
        reason, faults = next((reason for reason in best if isinstance(reason, str)), ""), ""
        if not reason:
            translations = [pair.text for pair in best]
            reason = unit.fill(translations) if all(translations) else "its translation is empty"
            faults = ", ".join(dict.fromkeys(fault for pair in best for fault in pair.faults))
        if reason or faults:
            what = quote(repr(unit.sources[0]), 60)
            news = f"left as it is: {reason}" if reason else f"its translation {quote(faults)}"
            print(f"{path}, {unit.name}: {what}: {news}", file=sys.stderr)
        if not reason:
            is_equal, is_marked = translations == unit.sources, not isinstance(document.store, Page)
            counts += Counter({FILLED: 1, EQUAL: is_equal, REVIEWED: is_marked, FAULTY: bool(faults)})
    return counts


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = make_parser(__doc__)
    data = "text, document or folder; default: standard input, which is read as lines of plain text"
    parser.add_argument("file", type=Path, nargs="?", metavar="FILE", help=data)
    add_model_options(parser)
    parser.add_argument("--output", type=Path, metavar="FILE", help="file or folder to write (lines: default stdout)")
    parser.add_argument("--nbest", type=count, help="print up to NBEST translations of each line, with their scores")
    parser.add_argument("--trees", type=Path, metavar="FILE", help="a parse of each line: Penn brackets or transitions")
    prepared = "each line is words separated by spaces, as rnnsearch prepare writes them, and so is its translation"
    parser.add_argument("--prepared", action="store_true", help=prepared)
    parser.add_argument("--alignments", type=Path, metavar="FILE", help="write alignments, as rnnsearch score does")
    add_search_options(parser)
    args = parser.parse_args()
    path = args.file
    if path is not None and not path.exists():
        raise InputError(f"{path}: no such file or folder; give the text to translate")
    if path is not None and path.is_file() and file_suffix(path) in NOT_PLAIN:
        maker = "translate-toolkit or sphinx-intl"
        raise InputError(f"{path}: not plain text; give the .po file that a command of {maker} makes of it")
    is_folder, known = path is not None and path.is_dir(), None
    if path is not None and not is_folder:
        known = find_format(path) or (find_beginning(path) if path.is_file() else None)
    args.documents = is_folder or known is not None
    if args.documents and (args.nbest or args.alignments or args.trees or args.prepared):
        raise InputError(f"{path}: a document; leave out --nbest, --alignments, --trees and --prepared")
    if args.documents and args.output is None:
        raise InputError(f"{path}: give the {'folder' if is_folder else 'file'} to write, as --output")
    if args.output and not is_folder:
        written = find_format(args.output) or known
        if written is not known:
            raise InputError(
                f"{args.output}: a name of {written.name}, but the input is not {written.name}; give another name"
            )
    named = [args.replace_unknown or None, args.terms, getattr(args, "length_statistics", None)]
    check_not_input([args.output, args.alignments], [args.file, args.trees, *named, *model_files(args.model)])
    return args


def main() -> int | None:
    args = parse_arguments()
    translator = load_with_replacements(args)
    if args.documents:
        return translate_documents(translator, args.file, args.output)
    if args.file is None and find_beginning(sys.stdin.buffer.peek()):
        raise InputError("standard input: a document, not lines of plain text; give its name, and --output")
    with contextlib.ExitStack() as stack:
        out = sys.stdout.buffer if args.output is None else stack.enter_context(open_output(args.output))
        alignments = None if args.alignments is None else stack.enter_context(open_output(args.alignments))
        hidden = not sys.stderr.isatty() or (sys.stdout.isatty() and args.output is None)
        progress = stack.enter_context(tqdm(unit=" lines", disable=hidden, dynamic_ncols=True))
        number, unread, beginning = 0, list[int](), list[str]()
        for texts in read_texts(translator, args, unread):
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
        print(f"{args.file or 'standard input'}: {doubt}; they are translated all the same", file=sys.stderr)
    return 1 if unread else None
