"""Make plain tokenised text of WMT's corpora and test sets as they are distributed.

``rnnsearch wmt segments SOURCE.sgm REFERENCE.sgm OUT -s en -t fr``
``rnnsearch wmt tokenize TEXT OUT -s en -t fr [--max-words N] [--workers N]``
``rnnsearch wmt shuffle TEXT OUT -s en -t fr [--seed N]``

TEXT and OUT are names without language: TEXT.en and TEXT.fr are parallel text.

segments  the sentences of a test set in SGML, one a line, with characters for entities and without markup
tokenize  Moses tokens, as ``rnnsearch prepare`` makes them, by several processes, in the order of TEXT. With
          --max-words, pairs with an empty side or one of more words than that are left out. A carriage return in the
          middle of a line, of which corpora from the web have some, is a space. preparation.json, beside OUT, tells how
          typed text becomes these tokens.
shuffle   the pairs in random order; each line of TEXT must end in a newline

Text is streamed: memory does not depend on its size.
"""

import argparse
import multiprocessing
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache
from itertools import islice, zip_longest
from pathlib import Path
from typing import NamedTuple

from fairseq.data.encoders.moses_tokenizer import MosesTokenizer, MosesTokenizerConfig

from rnnsearch_fairseq.corpora.prepare import shuffle
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.files.output import open_output
from rnnsearch_fairseq.files.preparation import Preparation, write_record
from rnnsearch_fairseq.files.text import unescaped

Texts = tuple[Path, Path]
CHUNK = 1000  # pairs that a process tokenises at a time
# Documents and segments in WMT's SGML, which is no XML: < and & may stand for themselves.
TAG = re.compile(r"<(doc|seg|/seg)\b([^<>]*)>", re.IGNORECASE)


# Test sets


class Segment(NamedTuple):
    """A sentence of a test set, by the names that it has there."""

    document: str
    number: str
    text: str


def read_segments(path: Path) -> list[Segment]:
    """The sentences of a test set in SGML, in the order of the file, the text of each on one line.

    Raises:
        InputError: the file is missing, is not UTF-8 or has no sentence, or one of them is empty or does not end.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); give a test set in SGML") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start + 1} is not UTF-8; convert the file with iconv") from error
    segments, document, number, begin = [], "", "", None
    for tag in TAG.finditer(text):
        name = tag[1].lower()
        if name == "doc" and begin is None:
            document = _attribute(tag[2], "docid")
        elif name == "seg" and begin is None:
            number, begin = _attribute(tag[2], "id"), tag.end()
        elif name == "seg":
            break
        elif name == "/seg" and begin is not None:
            segments.append(Segment(document, number, " ".join(unescaped(text[begin : tag.start()]).split())))
            if not segments[-1].text:
                break
            begin = None
    if begin is not None:
        wrong = "has no end" if not segments or segments[-1].text else "is empty"
        raise InputError(f"{path}: segment {number} of document {document} {wrong}; give the whole test set")
    if not segments:
        raise InputError(f"{path}: has no <seg>; give a test set in SGML, as newstest2014-fren-src.en.sgm")
    return segments


def _attribute(tag: str, name: str) -> str:
    found = re.search(rf"""\b{name}\s*=\s*["']?([^"'\s>]*)""", tag, re.IGNORECASE)
    return found[1] if found else ""


def write_segments(sgml: Texts, out: Texts) -> int:
    """Write the sentences of source and reference; returns how many.

    Raises:
        InputError: a file is bad, or the two do not have the same segments in the same order.
    """
    sides = [read_segments(path) for path in sgml]
    for pair in zip_longest(*sides):
        if None in pair or pair[0][:2] != pair[1][:2]:
            document, number, _ = pair[0] or pair[1]
            raise InputError(
                f"{sgml[0]}, {sgml[1]}: segment {number} of document {document} is not at the same place in both; "
                "give source and reference of one test set"
            )
    with ExitStack() as stack:
        outs = [stack.enter_context(open_output(path)) for path in out]
        for file, segments in zip(outs, sides):
            file.writelines(f"{segment.text}\n".encode() for segment in segments)
    return len(sides[0])


# Tokens


class _Chunk(NamedTuple):
    """Some pairs, and how they are to be tokenised; ``first`` is the number, from 1, of the first one's line."""

    raw: Texts
    languages: tuple[str, str]
    most_words: int | None
    first: int
    pairs: list[tuple[bytes, bytes]]


@cache
def _tokenizer(language: str) -> MosesTokenizer:
    return MosesTokenizer(MosesTokenizerConfig(source_lang=language))


def _tokens(line: bytes, language: str, path: Path, number: int) -> str:
    """The tokens of a line.

    Raises:
        InputError: it is not UTF-8.
    """
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}, line {number}: byte {line[error.start]:#04x} at column {error.start + 1} is not UTF-8; "
            "convert the file with iconv"
        ) from error
    return _tokenizer(language).encode(text.rstrip("\n"))


def _tokenize(chunk: _Chunk) -> tuple[int, bytes, bytes]:
    """The number of pairs of a chunk that are kept, and their lines in tokens."""
    kept: list[list[str]] = []
    for number, pair in enumerate(chunk.pairs, chunk.first):
        sides = [_tokens(*side, number) for side in zip(pair, chunk.languages, chunk.raw)]
        lengths = [len(side.split()) for side in sides]
        if chunk.most_words is None or 1 <= min(lengths) <= max(lengths) <= chunk.most_words:
            kept.append(sides)
    source, target = ("".join(f"{sides[k]}\n" for sides in kept).encode() for k in (0, 1))
    return len(kept), source, target


def _chunks(raw: Texts, languages: tuple[str, str], most_words: int | None) -> Iterator[_Chunk]:
    """All of ``raw``.

    Raises:
        InputError: a file is missing, or the two differ in their numbers of lines.
    """
    with ExitStack() as stack:
        try:
            files = [stack.enter_context(path.open("rb")) for path in raw]
        except OSError as error:
            raise InputError(f"{error.filename}: cannot be read ({error.strerror}); check the path") from error
        first = 1
        while True:
            sides = [list(islice(file, CHUNK)) for file in files]
            if len(sides[0]) != len(sides[1]):
                shorter = min((0, 1), key=lambda k: len(sides[k]))
                raise InputError(
                    f"{raw[shorter]}: ends at line {first + len(sides[shorter]) - 1}, and {raw[1 - shorter]} goes on; "
                    "line N must be the same sentence"
                )
            if not sides[0]:
                return
            yield _Chunk(raw, languages, most_words, first, list(zip(*sides)))
            first += len(sides[0])


def tokenize(
    raw: Texts, out: Texts, languages: tuple[str, str], most_words: int | None = None, workers: int = 1
) -> tuple[int, int]:
    """Write the Moses tokens of ``raw`` to ``out``, by ``workers`` processes.

    Args:
        most_words: leaves out pairs of which a side has none or more; None keeps all.

    Returns:
        How many pairs there are, and how many are kept.

    Raises:
        InputError: a file is missing, empty or not UTF-8, the two differ in their numbers of lines, or none is kept.
    """
    read = kept = 0

    def chunks() -> Iterator[_Chunk]:
        nonlocal read
        for chunk in _chunks(raw, languages, most_words):
            read += len(chunk.pairs)
            yield chunk

    with ExitStack() as stack:
        outs = [stack.enter_context(open_output(path)) for path in out]
        pool = stack.enter_context(multiprocessing.Pool(workers))
        # The pool reads ahead only as far as its pipe holds text.
        for number, *sides in pool.imap(_tokenize, chunks()):
            kept += number
            for file, text in zip(outs, sides):
                file.write(text)
        if not kept:
            limit = "" if most_words is None else f" with 1 to {most_words} words on each side"
            raise InputError(f"{raw[0]}, {raw[1]}: no pair{limit}; give other text")
    return read, kept


# The command


def _shuffle(text: Texts, out: Texts, seed: int) -> None:
    for path, copy in zip(text, out):
        try:
            shutil.copyfile(path, copy)
        except (OSError, shutil.SameFileError) as error:
            raise InputError(f"{path}: cannot be copied to {copy} ({error}); give other names") from error
    shuffle(list(out), seed)


def parse_arguments() -> argparse.Namespace:
    """Read the command line.

    Raises:
        InputError: a number is out of range.
    """
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    segments = commands.add_parser("segments", help="write the sentences of a test set")
    segments.add_argument("sgml", type=Path, nargs=2, metavar="SGML", help="source, and reference")
    tokens = commands.add_parser("tokenize", help="write Moses tokens")
    order = commands.add_parser("shuffle", help="write the pairs in random order")
    for command in (tokens, order):
        command.add_argument("text", help="text to read, without the language")
    for command in (segments, tokens, order):
        command.add_argument("out", help="text to write")
        command.add_argument("-s", "--source-lang", required=True, help="language of the source: en")
        command.add_argument("-t", "--target-lang", required=True, help="language of the target: fr")
    tokens.add_argument(
        "--max-words", type=int, metavar="N", help="leave out pairs with more words (default: no limit)"
    )
    cores = len(os.sched_getaffinity(0))
    tokens.add_argument("--workers", type=int, default=cores, metavar="N", help=f"processes (default: cores, {cores})")
    order.add_argument("--seed", type=int, default=1, help="by which pairs are shuffled (default: 1)")
    args = parser.parse_args()
    for option in ("max_words", "workers"):
        if getattr(args, option, None) is not None and getattr(args, option) < 1:
            raise InputError(f"--{option.replace('_', '-')} is {getattr(args, option)}; give at least 1")
    return args


def main() -> None:
    """The command line of this module."""
    args = parse_arguments()
    languages = args.source_lang, args.target_lang
    source, target = (Path(f"{args.out}.{language}") for language in languages)
    out = source, target
    if args.command == "segments":
        print(f"{write_segments(tuple(args.sgml), out):,} sentences -> {source}, {target}")
        return
    text = Path(f"{args.text}.{languages[0]}"), Path(f"{args.text}.{languages[1]}")
    if args.command == "shuffle":
        _shuffle(text, out, args.seed)
        print(f"shuffled (seed {args.seed}) -> {source}, {target}")
        return
    read, kept = tokenize(text, out, languages, args.max_words, args.workers)
    write_record(source.parent, dict.fromkeys(languages, Preparation("moses")))
    print(f"tokenised {read:,} pairs, kept {kept:,} -> {source}, {target}")
