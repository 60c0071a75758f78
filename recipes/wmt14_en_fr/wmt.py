"""Tokenise and shuffle parallel text as large as WMT's corpora.

``rnnsearch wmt tokenize TEXT OUT -s en -t fr [--max-words N] [--workers N]``
``rnnsearch wmt shuffle TEXT OUT -s en -t fr [--seed N]``

TEXT and OUT are names without language: TEXT.en and TEXT.fr are parallel text.

tokenize  writes the Moses tokens of TEXT, as ``rnnsearch prepare`` makes them, by several processes, in the order of
          TEXT. With --max-words, pairs with an empty side or one of more words than that are left out. A carriage
          return inside a line, as in some text from the web, counts as a space. preparation.json, beside OUT, tells how
          typed text becomes these tokens.
shuffle   writes the pairs in random order; each line of TEXT must end in a newline

Text is streamed: memory does not depend on its size.
"""

import argparse
import multiprocessing
import os
import shutil
from contextlib import ExitStack
from functools import cache, partial

from fairseq.data.encoders.moses_tokenizer import MosesTokenizer, MosesTokenizerConfig

from rnnsearch_fairseq.errors import Count, InputError
from rnnsearch_fairseq.output import open_output
from rnnsearch_fairseq.text.lines import read_pairs
from rnnsearch_fairseq.text.preparation import Preparation, write_preparations
from rnnsearch_fairseq.text.prepare import shuffle
from rnnsearch_fairseq.text.texts import Texts, add_languages, texts_of

Pair = tuple[str, str]
CHUNK = 1000  # pairs that a process tokenises at a time


@cache
def _tokenizer(language: str) -> MosesTokenizer:
    return MosesTokenizer(MosesTokenizerConfig(source_lang=language))


def _tokenize(languages: Pair, pair: Pair) -> Pair:
    source, target = (_tokenizer(language).encode(line.rstrip("\n")) for language, line in zip(languages, pair))
    return source, target


def tokenize(
    raw: Texts, out: Texts, languages: Pair, most_words: int | None = None, workers: int = 1
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
    with ExitStack() as stack:
        outs = [stack.enter_context(open_output(path)) for path in out]
        pool = stack.enter_context(multiprocessing.Pool(workers))
        # The pool reads ahead only as far as its pipe holds text. sacremoses -j would hold all of it in memory, and
        # takes a carriage return for the end of a line.
        for tokens in pool.imap(partial(_tokenize, languages), read_pairs(*raw, stray_returns=True), CHUNK):
            read += 1
            lengths = [len(side.split()) for side in tokens]
            if most_words is None or 1 <= min(lengths) <= max(lengths) <= most_words:
                kept += 1
                for file, side in zip(outs, tokens):
                    file.write(f"{side}\n".encode())
        if not kept:
            limit = "" if most_words is None else f" with 1 to {most_words} words on each side"
            raise InputError(f"{raw[0]}, {raw[1]}: no pair{limit}; give other text")
    return read, kept


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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    tokens = commands.add_parser("tokenize", help="write Moses tokens")
    order = commands.add_parser("shuffle", help="write the pairs in random order")
    for command in (tokens, order):
        command.add_argument("text", help="text to read, without the language")
        command.add_argument("out", help="text to write")
        add_languages(command)
    tokens.add_argument("--max-words", action=Count, help="leave out pairs with more words (default: no limit)")
    cores = len(os.sched_getaffinity(0))
    tokens.add_argument("--workers", action=Count, default=cores, help=f"processes (default: cores, {cores})")
    order.add_argument("--seed", type=int, default=1, help="by which pairs are shuffled (default: 1)")
    args = parser.parse_args()
    return args


def main() -> None:
    """The command line of this module."""
    args = parse_arguments()
    languages = args.source_lang, args.target_lang
    text, out = texts_of(args.text, args), texts_of(args.out, args)
    source, target = out
    if args.command == "shuffle":
        _shuffle(text, out, args.seed)
        print(f"shuffled (seed {args.seed}) -> {source}, {target}")
        return
    read, kept = tokenize(text, out, languages, args.max_words, args.workers)
    write_preparations(source.parent, dict.fromkeys(languages, Preparation("moses")))
    print(f"tokenised {read:,} pairs, kept {kept:,} -> {source}, {target}")
