"""Prepare raw parallel text for ``fairseq-preprocess``: as Moses tokens, as BPE subwords of them, or as sentencepieces.

    rnnsearch prepare raw text -s en -t fr                       files raw/{train,valid,test}.{en,fr}, as they are
    rnnsearch prepare corpus.en corpus.fr text -s en -t fr       two files; line N of both is the same sentence
    rnnsearch prepare corpus.tsv text -s en -t fr                lines "source TAB target"
    rnnsearch prepare a.po b.xlf c.tmx text -s en -t fr          PO, XLIFF, translation memories
    rnnsearch prepare docs text -s en -t fr                      a folder of such files

Files are split at random into OUT/raw/{train,valid,test}.LANGUAGE (--split): equal sentences are in one part. Of 20
files or more, whole files are drawn. Units that are not translated, or fuzzy or for review, are left out. Pairs
that cannot be translations are dropped and counted: an empty side, more than 100 words on a side, or over 9 times as
many words on one side as on the other. At the end it prints the commands to binarize, to train and to translate.

OUT/preparation.json and the subwords beside it tell how the text was prepared. A model that is trained on OUT/bin keeps
them in its checkpoints, and prepares what it is given to translate in the same way.

Text is streamed. Memory is needed for the distinct words, from which BPE is learnt; for the two million random lines
from which sentencepiece learns; and for a hash of each sentence of files that are split.

    rnnsearch prepare raw text -s en -t fr
"""

import argparse
import multiprocessing
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from itertools import islice
from pathlib import Path

from rnnsearch_fairseq.errors import Count, InputError, make_parser
from rnnsearch_fairseq.output import open_output
from rnnsearch_fairseq.text.codec import TextCodec
from rnnsearch_fairseq.text.limit import limit, shuffle
from rnnsearch_fairseq.text.lines import check_parallel, read_lines, read_pairs
from rnnsearch_fairseq.text.markup import SYMBOLS, mask_pair
from rnnsearch_fairseq.text.next_commands import next_commands
from rnnsearch_fairseq.text.pairs import is_folder
from rnnsearch_fairseq.text.preparation import CODES, PIECES, RECORD, Preparation, write_preparations
from rnnsearch_fairseq.text.scripts import lacks_blanks
from rnnsearch_fairseq.text.split import PARTS, split_corpus
from rnnsearch_fairseq.text.subwords import count_pieces, learn_codes, learn_pieces
from rnnsearch_fairseq.text.texts import Texts, add_languages

Convert = Callable[[Iterable[str]], Iterable[str]]

CHUNK = 500  # lines that a process converts at a time
SAMPLE = 1000  # lines of training text that are examined
MARKUP_SHARE = 0.02  # of these with markup, from which on there is enough to learn from


@dataclass(frozen=True)
class Settings:
    """The options of the command that say how to prepare text; an InputError if two contradict each other.

    Attributes:
        bpe: number of BPE merges, learnt from both sides of the training text; 0: none.
        sentencepiece: the most sentencepieces, learnt likewise; 0: none.
        tokenized: the text consists of tokens with blanks between; do not tokenise it.
        max_words: leave out training pairs with more words on a side, before words are split; None keeps all.
        shuffle: seed for shuffling the training pairs; None keeps their order.
    """

    bpe: int = 0
    sentencepiece: int = 0
    tokenized: bool = False
    lowercase: bool = False
    max_words: int | None = None
    shuffle: int | None = None
    workers: int = 1

    def __post_init__(self) -> None:
        for option, number in (("bpe", self.bpe), ("sentencepiece", self.sentencepiece)):
            if number < 0:
                raise InputError(f"--{option} is {number}, but a number of subwords is at least 0 (0: whole words)")
        if self.bpe and self.sentencepiece:
            raise InputError("--bpe and --sentencepiece are two ways to split words; give one of them")
        if self.tokenized and self.sentencepiece:
            raise InputError("--sentencepiece splits text, not tokens: leave out --tokenized, or give --bpe")


def prepare(
    data: Path, names: Mapping[str, str], languages: tuple[str, str], out: Path, settings: Settings = Settings()
) -> None:
    """Write ``OUT/{train,valid,test}.LANGUAGE`` and the record, and print the commands that come next.

    Args:
        data: folder of the raw text.
        names: for ``train``, ``valid`` and ``test``, the names of the raw files without language.

    Raises:
        InputError: a file is missing, empty or not UTF-8, two sides differ in their number of lines, or no training
            pair is short enough.
    """
    raw = {part: _files(data, name, languages) for part, name in names.items()}
    counts = {part: check_parallel(paths) for part, paths in raw.items()}
    out.mkdir(parents=True, exist_ok=True)
    (out / RECORD).unlink(missing_ok=True)  # until the new text is complete
    texts = {part: _files(out, part, languages) for part in names}
    tokenizer = None if settings.tokenized or settings.sentencepiece else "moses"
    tokens = Preparation(tokenizer, lowercase=settings.lowercase)
    for part, paths in raw.items():
        _encode_files(paths, texts[part], tokens, languages, settings.workers)
        done = "copied" if tokenizer is None else "tokenised"
        _say(f"{done} {counts[part]:,} pairs of {names[part]} -> {out / part}.{{{','.join(languages)}}}")
    train = texts["train"]
    if settings.max_words is not None:
        kept = limit(train, train, settings.max_words)
        _say(f"kept {kept:,} of {counts['train']:,} training pairs, of 1 to {settings.max_words} words on each side")
        counts["train"] = kept
    if settings.shuffle is not None:
        shuffle(train, settings.shuffle)
        _say(f"shuffled the training pairs (seed {settings.shuffle})")
    if settings.sentencepiece and _share_with_markup(train) >= MARKUP_SHARE:
        for paths in texts.values():
            _mask_files(paths)
        tokens = replace(tokens, markup=True)
        _say("the text holds markup (code, links, placeholders): numbered symbols stand for it in training text")
    subwords = _learn_subwords(train, settings, SYMBOLS if tokens.markup else [])
    if subwords.subwords is not None:
        for paths in texts.values():
            _encode_files(paths, paths, subwords, languages, settings.workers)
    prepared = replace(tokens, bpe=subwords.bpe, sentencepiece=subwords.sentencepiece)
    write_preparations(out, dict.fromkeys(languages, prepared))
    for path in [] if settings.sentencepiece else raw["train"]:
        if lacks_blanks(islice(read_lines(path), SAMPLE)):
            _say(f"{path}: there are no blanks between words; prepare again with --sentencepiece 8000")
    _say("\nThe next commands, to binarize the text, to train and to translate:\n")
    _say(next_commands(out, languages, counts["train"], prepared, raw["test"]))


def _files(folder: Path, name: str, languages: tuple[str, str]) -> Texts:
    source, target = (folder / f"{name}.{language}" for language in languages)
    return source, target


def _share_with_markup(train: Texts) -> float:
    """The share of the first training pairs that have markup in common."""
    pairs = list(islice(read_pairs(*train), SAMPLE))
    return sum(mask_pair(*pair) != pair for pair in pairs) / len(pairs)


def _mask_files(texts: Texts) -> None:
    """Replace markup that both sides of a pair have by symbols."""
    with open_output(texts[0]) as source, open_output(texts[1]) as target:
        for pair in read_pairs(*texts):
            for file, line in zip((source, target), mask_pair(*pair)):
                file.write(f"{line.rstrip()}\n".encode())


def _learn_subwords(train: Sequence[Path], settings: Settings, symbols: Sequence[str]) -> Preparation:
    """The preparation that splits words, with nothing else in it."""
    if settings.bpe:
        _say(f"learning {settings.bpe:,} BPE merges from both languages -> {train[0].with_name(CODES)}")
        return Preparation(bpe=learn_codes(train, settings.bpe))
    if settings.sentencepiece:
        model = learn_pieces(train, settings.sentencepiece, symbols)
        _say(f"learnt {count_pieces(model):,} sentencepieces from both languages -> {train[0].with_name(PIECES)}")
        return Preparation(sentencepiece=model)
    return Preparation()


def _encode_files(
    texts: Texts, outs: Texts, preparation: Preparation, languages: tuple[str, str], workers: int
) -> None:
    """Write the words of each line; an output may be its input."""
    for text, out, language in zip(texts, outs, languages):
        with open_output(out) as file, _encoder(preparation, language, workers) as encode:
            lines = (line.rstrip("\r\n") for line in read_lines(text))
            file.writelines(f"{line}\n".encode() for line in encode(lines))


@contextmanager
def _encoder(preparation: Preparation, language: str, workers: int) -> Iterator[Convert]:
    """A function from lines of text to lines of words, in order, by this process or several others."""
    if workers == 1:
        codec = TextCodec(preparation, language)
        yield lambda lines: map(codec.encode, lines)
        return
    with multiprocessing.Pool(workers, _start_worker, (preparation, language)) as pool:
        # The pool reads ahead only as far as its pipe holds text, so memory does not depend on the text's size.
        yield lambda lines: pool.imap(_encode_in_worker, lines, CHUNK)


def _start_worker(preparation: Preparation, language: str) -> None:
    global _codec
    _codec = TextCodec(preparation, language)


def _encode_in_worker(line: str) -> str:
    return _codec.encode(line)


def _say(line: str) -> None:
    print(line, flush=True)


def _make_parser() -> argparse.ArgumentParser:
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("data", type=Path, nargs="+", help="folder of the raw text; or two text files, or others, to be split")
    add("out", type=Path, help="folder to write; made if it is not there")
    add_languages(parser)
    add("--train", help="name of the training files in a folder, without the language (default: train)")
    add("--valid", help="name of the development files (default: valid)")
    add("--test", help="name of the test files (default: test)")
    size = "pairs of the development and test sets (default: 1000,1000, or a 20th of the pairs each if that is less)"
    add("--split", metavar="DEV,TEST", help=size)
    add("--split-seed", type=int, default=1, metavar="SEED", help="seed of the split (default: 1)")
    add("--bpe", type=int, default=0, metavar="N", help="BPE merges, both languages together; 0: words")
    pieces = "sentencepieces (fewer from a small text), both languages together, instead of Moses tokens; 0: words"
    add("--sentencepiece", type=int, default=0, metavar="N", help=pieces)
    add("--tokenized", action="store_true", help="the text is tokenised already: split it at blanks")
    longest = "leave out training pairs with more words on a side, counted before words are split (paper: 30, 50)"
    add("--max-words", action=Count, help=longest)
    add("--lowercase", action="store_true", help="write all text in lower case")
    add("--shuffle", type=int, metavar="SEED", help="shuffle the training pairs, once (the paper does)")
    cores = len(os.sched_getaffinity(0))
    add("--workers", action=Count, default=cores, help=f"processes (default: cores, {cores})")
    return parser


def main() -> None:
    """The command line of this module."""
    args = _make_parser().parse_args()
    settings = Settings(**{field.name: getattr(args, field.name) for field in fields(Settings)})
    names = {part: getattr(args, part) or part for part in PARTS}
    prepare(_split_files(args), names, (args.source_lang, args.target_lang), args.out, settings)


def _split_files(args: argparse.Namespace) -> Path:
    """Return the folder of the raw text; if files are given in its place, split them into it."""
    if is_folder(args.data):
        if args.split:
            raise InputError("--split splits files, but a folder has its own parts; leave out --split, or give files")
        return args.data[0]
    if any(getattr(args, part) for part in PARTS):
        raise InputError("--train, --valid and --test name files of a folder; leave them out, or give a folder")
    if not 0 <= args.split_seed < 1 << 32:
        raise InputError(f"--split-seed is {args.split_seed}; give a number from 0 to {(1 << 32) - 1}")
    sizes = args.split and re.fullmatch("([1-9][0-9]*),([1-9][0-9]*)", args.split)
    if args.split and not sizes:
        raise InputError(f"--split {args.split}: give two numbers of pairs, of at least 1: --split 1000,1000")
    raw = args.out / "raw"
    languages = (args.source_lang, args.target_lang)
    split_corpus(args.data, languages, raw, sizes and (int(sizes[1]), int(sizes[2])), args.split_seed)
    return raw
