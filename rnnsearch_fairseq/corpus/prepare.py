"""Prepare raw parallel text for training: clean it, split it into parts and words, and say what to expect.

    rnnsearch prepare raw text -s en -t fr                       files raw/{train,valid,test}.{en,fr}, as they are
    rnnsearch prepare corpus.en corpus.fr text -s en -t fr       two files; line N of both is the same sentence
    rnnsearch prepare a.po b.xlf c.tmx d.tsv text -s en -t fr    documents, memories, lines "source TAB target"
    rnnsearch prepare docs text -s en -t fr                      a folder of such files

Files (text, .tsv and .tmx also packed: .gz) are split at random into OUT/raw/{train,valid,test}.LANGUAGE (--split):
equal sentences are in one part. Of 20 files or more, whole files are drawn. Left out and counted are units that are not
translated, or fuzzy or for review, and pairs that cannot be translations or teach nothing: an empty side, more than 100
words on a side, over 9 times as many words on one side as on the other, equal sides, or a pair that came before.
Control characters and HTML's tags are taken out, and entities are undone; documentation and messages keep both.

Words are split into sentencepieces of both languages: after 1,000 updates on 3,600 captions, BLEU is 31.2; with whole
words it is 30.7, and 437 of 1,000 translations hold an <unk>. From a million pairs on, words are Moses tokens. At
the end it says what to expect of a training, and prints the commands to train, to translate and to score, which "bash
OUT/train.sh" runs, too. OUT changes only at the end.

OUT/preparation.json and the subwords beside it tell how the text was prepared. A model that is trained on OUT/bin keeps
them in its checkpoints, and prepares what it is given to translate in the same way.

Text is streamed. Memory is needed for the distinct words (BPE), two million random lines (sentencepiece), and a hash of
each sentence of files that are split.

    rnnsearch prepare raw text -s en -t fr
"""

import argparse
import fcntl
import multiprocessing
import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, replace
from itertools import islice
from pathlib import Path

from rnnsearch_fairseq.corpus.limit import limit, shuffle
from rnnsearch_fairseq.corpus.pairs import Pair, is_folder
from rnnsearch_fairseq.corpus.plan import LARGE, Plan, expectations, next_commands, plan_training
from rnnsearch_fairseq.corpus.split import MARKUP_SHARE, PARTS, SAMPLE, split_corpus
from rnnsearch_fairseq.corpus.subwords import count_pieces, learn_codes, learn_pieces
from rnnsearch_fairseq.corpus.texts import Texts, add_languages, texts_of
from rnnsearch_fairseq.errors import Count, InputError, make_parser
from rnnsearch_fairseq.output import check_not_input, open_output
from rnnsearch_fairseq.text.codec import TextCodec
from rnnsearch_fairseq.text.lines import check_parallel, read_lines, read_pairs
from rnnsearch_fairseq.text.markup import SYMBOLS, has_code, mask_pair
from rnnsearch_fairseq.text.preparation import RECORD, SUBWORDS, Preparation, write_preparations
from rnnsearch_fairseq.text.scripts import lacks_blanks, lacks_common_words

Convert = Callable[[Iterable[str]], Iterable[str]]

SCRIPT = "train.sh"
LOCK = ".prepare.lock"  # stays there, since two processes could hold it if it were removed
CHUNK = 500  # lines that a process converts at a time


@dataclass(frozen=True)
class Settings:
    """The options of the command that say how to prepare text; an InputError if two contradict each other.

    Attributes:
        bpe: number of BPE merges, learnt from both sides of the training text; 0: whole words.
        sentencepiece: the most sentencepieces, learnt likewise; 0: whole words. If both are None, the text decides.
        tokenized: the text consists of tokens with blanks between; do not tokenise it.
        max_words: leave out training pairs with more words on a side, before words are split; None keeps all.
        shuffle: seed for shuffling the training pairs; None keeps their order.
    """

    bpe: int | None = None
    sentencepiece: int | None = None
    tokenized: bool = False
    lowercase: bool = False
    max_words: int | None = None
    shuffle: int | None = None
    workers: int = 1

    def __post_init__(self) -> None:
        if min(self.bpe or 0, self.sentencepiece or 0) < 0:
            raise InputError("--bpe and --sentencepiece are numbers of subwords; give at least 0 (0: whole words)")
        if self.bpe and self.sentencepiece:
            raise InputError("--bpe and --sentencepiece are two ways to split words; give one of them")
        if self.tokenized and self.sentencepiece:
            raise InputError("--sentencepiece splits text, not tokens: leave out --tokenized, or give --bpe")


def prepare(
    data: Path, names: Mapping[str, str], languages: Pair, out: Path, settings: Settings = Settings()
) -> tuple[Plan, Preparation]:
    """Write ``OUT/{train,valid,test}.LANGUAGE`` and the record; return a plan for training, and the preparation.

    Args:
        data: folder of the raw text.
        names: for ``train``, ``valid`` and ``test``, the names of the raw files without language.

    Raises:
        InputError: a file is missing, empty or not UTF-8, two sides differ in their number of lines, or no training
            pair is short enough.
    """
    raw = {part: texts_of(data / name, *languages) for part, name in names.items()}
    counts = {part: check_parallel(paths) for part, paths in raw.items()}
    first = [*islice(read_pairs(*raw["train"]), SAMPLE)]
    has_markup = sum(any(map(has_code, pair)) for pair in first) >= MARKUP_SHARE * len(first)
    settings = _choose_subwords(settings, counts["train"], raw["train"], languages, has_markup)
    out.mkdir(parents=True, exist_ok=True)
    texts = {part: texts_of(out / part, *languages) for part in names}
    tokenizer = None if settings.tokenized or settings.sentencepiece else "moses"
    tokens = Preparation(tokenizer, lowercase=settings.lowercase)
    for part, paths in raw.items():
        _encode_files(paths, texts[part], tokens, languages, settings.workers)
        _say(f"{'copied' if tokenizer is None else 'tokenised'} {counts[part]:,} pairs of {names[part]}")
    train = texts["train"]
    if settings.max_words is not None:
        kept = limit(train, train, settings.max_words)
        _say(f"kept {kept:,} of {counts['train']:,} training pairs, of 1 to {settings.max_words} words on each side")
        counts["train"] = kept
    if settings.shuffle is not None:
        shuffle(train, settings.shuffle)
        _say(f"shuffled the training pairs (seed {settings.shuffle})")
    if settings.sentencepiece and has_markup:
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
    return plan_training(counts["train"]), prepared


def _mask_files(texts: Texts) -> None:
    """Replace markup that both sides of a pair have by symbols."""
    with open_output(texts[0]) as source, open_output(texts[1]) as target:
        for pair in read_pairs(*texts):
            for file, line in zip((source, target), mask_pair(*pair)):
                file.write(f"{line.rstrip()}\n".encode())


def _choose_subwords(settings: Settings, pairs: int, train: Texts, languages: Pair, has_markup: bool) -> Settings:
    """Fill in the subwords that the user has not chosen, and say why; warn of what the text's first lines show."""
    against_tokens = ["tokens tear its markup apart (code, placeholders)"] * has_markup
    for path, language in zip(train, languages):
        if lacks_common_words(islice(read_lines(path), SAMPLE), language):
            _say(f"warning: hardly a word of the {language} text is a common one of {language}; are -s and -t right?")
        if lacks_blanks(islice(read_lines(path), SAMPLE)):
            against_tokens.append(f"its {language} has no blanks between words")
    if settings.bpe is not None or settings.sentencepiece is not None:
        if against_tokens and not settings.sentencepiece:
            why = " and ".join(against_tokens)
            _say(f"warning: the text needs sentencepieces, since {why}; leave out --bpe and --tokenized")
        return settings
    if pairs >= LARGE and not against_tokens:
        _say("whole words, as in the first paper: there are a million pairs or more (--sentencepiece 32000: subwords)")
        return settings
    pieces = plan_training(pairs).pieces
    if not settings.tokenized:
        pieces += len({character for path in train for line in read_lines(path) for character in line})
    kind = "bpe" if settings.tokenized else "sentencepiece"
    _say(f"--{kind} {pieces}: subwords, since few pairs leave many whole words unknown (--bpe 0: whole words)")
    return replace(settings, **{kind: pieces})


def _learn_subwords(train: Sequence[Path], settings: Settings, symbols: Sequence[str]) -> Preparation:
    """The preparation that splits words, with nothing else in it."""
    if settings.bpe:
        _say(f"learning {settings.bpe:,} BPE merges from both languages")
        return Preparation(bpe=learn_codes(train, settings.bpe))
    if settings.sentencepiece:
        model = learn_pieces(train, settings.sentencepiece, symbols)
        _say(f"learnt {count_pieces(model):,} sentencepieces from both languages")
        return Preparation(sentencepiece=model)
    return Preparation()


def _encode_files(texts: Texts, outs: Texts, preparation: Preparation, languages: Pair, workers: int) -> None:
    """Write the words of each line; an output may be its input."""
    for text, out, language in zip(texts, outs, languages):
        with open_output(out) as file, _encoder(preparation, language, workers) as encode:
            file.writelines(f"{line}\n".encode() for line in encode(read_lines(text)))


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
    kept = "keep tags and entities, pairs with equal sides, or pairs that came before; may be given several times"
    add("--keep", action="append", default=[], choices=("markup", "equal", "duplicates"), help=kept)
    add("--bpe", type=int, metavar="N", help="BPE merges of Moses tokens, both languages together; 0: whole words")
    pieces = "sentencepieces (fewer from a small text), both languages together (default: as many as suit the text)"
    add("--sentencepiece", type=int, metavar="N", help=pieces)
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
    languages = (args.source_lang, args.target_lang)
    if languages[0] == languages[1]:
        raise InputError(f"-s {languages[0]} -t {languages[1]}: source and target are the same language; name two")
    splitting = _splitting(args)
    raw = args.out / "raw" if splitting else args.data[0]
    inputs = args.data if splitting else [path for name in names.values() for path in texts_of(raw / name, *languages)]
    with _written_aside(args.out, inputs) as aside:
        if splitting:
            split_corpus(args.data, languages, aside / "raw", *splitting)
        plan, preparation = prepare(aside / "raw" if splitting else raw, names, languages, aside, settings)
        commands, for_users = next_commands(
            args.out, languages, plan, preparation, texts_of(raw / names["test"], *languages)
        )
        script = ["#!/usr/bin/env bash", "set -euo pipefail", f"cd {shlex.quote(os.getcwd())}", *commands]
        (aside / SCRIPT).write_text("\n".join([*script, ""]), encoding="utf-8")
        _say(f"\n{expectations(plan, *map(read_lines, texts_of(aside / 'train', *languages)))}")
    for older in filter(Path.exists, (args.out / "bin", args.out / "checkpoints")):
        _say(f"warning: {older} is of an earlier preparation; remove it before training")
    run = f"bash {shlex.quote(str(args.out / SCRIPT))}"
    _say(f"\nThe next commands, to train, to translate the test set and to score it ({run} runs them):\n")
    _say("\n".join([*commands, "\nand to translate what you type, here or on a page:\n", *for_users]))


@contextmanager
def _written_aside(out: Path, inputs: Iterable[Path]) -> Iterator[Path]:
    """Give a new folder, whose files go to ``out`` at the end; after an error, ``out`` is as it was.

    Raises:
        InputError: ``out`` cannot be written, another process prepares text there, or a file would replace an input.
    """
    aside = out / ".prepare"
    with ExitStack() as stack:
        try:
            out.mkdir(parents=True, exist_ok=True)
            # Forked processes do not inherit a lock of this kind.
            fcntl.lockf(stack.enter_context((out / LOCK).open("ab")), fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(aside, ignore_errors=True)  # of a process that was killed
            aside.mkdir()
        except BlockingIOError as error:
            raise InputError(f"{out}: another rnnsearch prepare writes there; wait for its end") from error
        except OSError as error:
            raise InputError(f"{out}: cannot be written ({error.strerror}); give another folder") from error
        stack.callback(shutil.rmtree, aside)
        yield aside
        files = sorted(filter(Path.is_file, aside.rglob("*")), key=lambda path: path.name == RECORD)
        places = [out / path.relative_to(aside) for path in files]
        for place in places:
            check_not_input(place, inputs)
        for name in (RECORD, *SUBWORDS.values()):
            for old in out.glob(name.replace(".", ".*")):  # bpe.codes and bpe.en.codes
                old.unlink()
        for path, place in zip(files, places):
            place.parent.mkdir(exist_ok=True)
            os.replace(path, place)


def _splitting(args: argparse.Namespace) -> tuple[tuple[int, int] | None, int, list[str]] | None:
    """Sizes, seed and what to keep, for files that are to be split; None: a folder of parts is given."""
    if is_folder(args.data):
        if args.split or args.keep:
            raise InputError(
                "--split and --keep are for files, and the parts of a folder stay as they are; leave them out"
            )
        return None
    if any(getattr(args, part) for part in PARTS):
        raise InputError("--train, --valid and --test name files of a folder; leave them out, or give a folder")
    if not 0 <= args.split_seed < 1 << 32:
        raise InputError(f"--split-seed is {args.split_seed}; give a number from 0 to {(1 << 32) - 1}")
    sizes = args.split and re.fullmatch("([1-9][0-9]*),([1-9][0-9]*)", args.split)
    if args.split and not sizes:
        raise InputError(f"--split {args.split}: give two numbers of pairs, of at least 1: --split 1000,1000")
    return (int(sizes[1]), int(sizes[2])) if sizes else None, args.split_seed, args.keep
