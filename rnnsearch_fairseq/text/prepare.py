"""Prepare raw parallel text for ``fairseq-preprocess``: as Moses tokens, as BPE subwords of them, or as sentencepieces.

    rnnsearch prepare raw text -s en -t fr                       files raw/{train,valid,test}.{en,fr}, as they are
    rnnsearch prepare corpus.en corpus.fr text -s en -t fr       two files; line N of both is the same sentence
    rnnsearch prepare corpus.tsv text -s en -t fr                lines "source TAB target"
    rnnsearch prepare corpus.tmx text -s en -t fr                a translation memory

Files are split at random into OUT/raw/{train,valid,test}.LANGUAGE (--split): equal sentences are in one part. Pairs
that cannot be translations are dropped and counted: an empty side, more than 100 words on a side, or over 9 times as
many words on one side as on the other. At the end it prints the commands to binarize, to train and to translate.

It uses fairseq's own encoders, and records the preparation in OUT/preparation.json. fairseq-preprocess and
fairseq-train copy the record to the checkpoints, so that fairseq-interactive, the page and Python split typed sentences
exactly as the training text was split. fairseq-generate reads prepared text and prints the model's words; with -s, -t
and these options, its lines D- hold plain text:

                    split into         options
words               Moses tokens       --tokenizer moses
--bpe N             Moses tokens, BPE  --tokenizer moses --bpe subword_nmt --bpe-codes OUT/bpe.codes
--sentencepiece N   sentencepieces     --bpe sentencepiece --sentencepiece-model OUT/sentencepiece.model
--tokenized         words as given     leave out --tokenizer

The lines H- hold the model's words; --post-process sentencepiece turns sentencepieces into text, and
--post-process subword_nmt turns BPE into Moses tokens. sentencepiece normalises text (NFKC), also the references in the
lines T-, so compare the lines D- with the raw text.

--segmentations K writes K random segmentations of the training text, OUT/train.0.LANGUAGE and so on, for subword
regularisation: BPE-dropout (Provilkov et al., 2020), which skips merges at random, or Kudo's (2018) sampling of
sentencepieces. OUT/train.LANGUAGE has the likeliest segmentation, as the other texts have. Random pieces are smaller:
one dictionary must hold those of all segmentations. fairseq-train then reads one segmentation an epoch.

Text is streamed. Memory is needed for the distinct words, from which BPE is learnt; for two million random lines, from
which sentencepiece learns; and for a hash of each sentence of files that are split. Shuffling needs disk space for one
more copy beside OUT.
"""

import argparse
import contextlib
import io
import random
import re
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import Path

import sentencepiece
from fairseq.data.encoders.moses_tokenizer import MosesTokenizer, MosesTokenizerConfig
from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE, SentencepieceConfig
from fairseq.data.encoders.subword_nmt_bpe import SubwordNMTBPE, SubwordNMTBPEConfig
from subword_nmt.learn_bpe import learn_bpe

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.output import check_not_input, open_output
from rnnsearch_fairseq.text.limit import limit
from rnnsearch_fairseq.text.lines import check_parallel, read_lines
from rnnsearch_fairseq.text.next_commands import next_commands
from rnnsearch_fairseq.text.pairs import is_folder
from rnnsearch_fairseq.text.preparation import CODES, PIECES, RECORD, Preparation, write_preparations
from rnnsearch_fairseq.text.scripts import lacks_blanks
from rnnsearch_fairseq.text.split import PARTS, split_corpus
from rnnsearch_fairseq.text.texts import add_languages

LEARN_FROM = 2_000_000  # random lines that sentencepiece keeps in memory and learns from
BUCKET = 64 << 20  # bytes of text to shuffle in memory
MOST_BUCKETS = 500  # the most open files
SAMPLE = 1000  # lines of training text whose script is examined


def rewrite(text: Path, out: Path, change: Callable[[str], str]) -> None:
    """Apply ``change`` to each line of ``text`` and write the lines to ``out``, which may be ``text``."""
    with open_output(out) as file:
        file.writelines(f"{change(line.rstrip(chr(10)))}\n".encode() for line in read_lines(text))


def tokenize(raw: Path, tokens: Path, language: str) -> None:
    """Write the Moses tokens of every line of ``raw`` (text in ``language``) to ``tokens``."""
    tokenizer = MosesTokenizer(MosesTokenizerConfig(source_lang=language))
    rewrite(raw, tokens, lambda line: tokenizer.encode(line.rstrip("\r")))


def shuffle(texts: list[Path], seed: int) -> None:
    """Shuffle the lines of parallel texts in place, all in the same order; each line must end in a newline.

    Lines go to random buckets on disk, and each bucket is shuffled in memory: every order is equally likely
    (Sandelius, 1962). The order follows from ``seed`` and the text.
    """
    generator = random.Random(seed)
    with contextlib.ExitStack() as stack:
        number = min(sum(text.stat().st_size for text in texts) // BUCKET + 1, MOST_BUCKETS)
        files = (tempfile.TemporaryFile(dir=texts[0].parent) for _ in range(number))
        buckets = [stack.enter_context(file) for file in files]
        for lines in zip(*(stack.enter_context(text.open("rb")) for text in texts)):
            generator.choice(buckets).writelines(lines)
        outs = [stack.enter_context(open_output(text)) for text in texts]
        for bucket in buckets:
            bucket.seek(0)
            lines = bucket.readlines()
            order = list(range(0, len(lines), len(texts)))
            generator.shuffle(order)
            for side, out in enumerate(outs):
                out.writelines(lines[first + side] for first in order)


def learn_codes(texts: list[Path], codes: Path, merges: int) -> None:
    """Learn ``merges`` byte-pair merges from all of ``texts`` together and write them to ``codes``."""
    with open_output(codes) as out, io.TextIOWrapper(out, encoding="utf-8", newline="\n") as file:
        learn_bpe(chain.from_iterable(map(read_lines, texts)), file, merges)


def learn_pieces(texts: list[Path], model: Path, pieces: int) -> int:
    """Learn a vocabulary of sentencepieces (unigram model) from all of ``texts`` together, to ``model``.

    Returns:
        The size of the vocabulary: ``pieces``, or less if the text is too small for so many.

    Raises:
        InputError: the text has more different characters than that.
    """
    learnt = io.BytesIO()
    sentencepiece.set_random_generator_seed(1)
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=(line.rstrip("\n") for line in chain.from_iterable(map(read_lines, texts))),
            model_writer=learnt,
            vocab_size=pieces,
            hard_vocab_limit=False,
            input_sentence_size=LEARN_FROM,
            minloglevel=2,
        )
    except RuntimeError as error:
        reason = str(error).rsplit("] ", 1)[-1].strip()
        raise InputError(f"--sentencepiece {pieces}: the training text does not allow it ({reason})") from error
    with open_output(model) as out:
        out.write(learnt.getvalue())
    return sentencepiece.SentencePieceProcessor(model_proto=learnt.getvalue()).get_piece_size()


def prepare(
    data: Path,
    splits: dict[str, str],
    languages: tuple[str, str],
    out: Path,
    merges: int = 0,
    pieces: int = 0,
    most_words: int | None = None,
    seed: int | None = None,
    lowercase: bool = False,
    tokenized: bool = False,
    segmentations: int = 0,
    randomness: float = 0.1,
) -> None:
    """Write ``OUT/{train,valid,test}.LANGUAGE`` for the raw files ``DATA/{splits' values}.LANGUAGE``, and the record.

    The commands that come next are printed.

    Args:
        splits: maps ``train``, ``valid`` and ``test`` to file names without language, such as ``test_2016_flickr``.
        merges: number of BPE merges, learnt from both sides of the training text, in ``OUT/bpe.codes``; 0: words.
        pieces: the most sentencepieces, learnt likewise, in ``OUT/sentencepiece.model``; 0: words.
        most_words: drop training pairs with more words on a side, before words are split; None keeps all.
        seed: seed for shuffling the training pairs; None keeps their order.
        lowercase: lowercase all text before words are split.
        tokenized: the text consists of tokens with blanks between; do not tokenise it.
        segmentations: number of random segmentations of the training text, ``OUT/train.NUMBER.LANGUAGE``.
        randomness: of these, BPE's probability to skip a merge, or sentencepiece's smoothing exponent alpha.

    Raises:
        InputError: a file is missing, empty or not UTF-8, two sides differ in their number of lines, a number is out of
            range, or no training pair is short enough.
    """
    _check_options(merges, pieces, most_words, tokenized, segmentations, randomness)
    sources = {split: [data / f"{name}.{language}" for language in languages] for split, name in splits.items()}
    counts = {split: check_parallel(paths) for split, paths in sources.items()}
    out.mkdir(parents=True, exist_ok=True)
    for name in (RECORD, CODES, PIECES):  # files of an earlier run must not be used with the new text
        (out / name).unlink(missing_ok=True)
    for language in languages:
        for old in out.glob(f"train.*.{language}"):
            if old.name.split(".")[1].isdigit():
                check_not_input(old, [path for paths in sources.values() for path in paths])
                old.unlink()
    prepared = Preparation(
        tokenizer=None if pieces or tokenized else "moses",
        lowercase=lowercase,
    )
    for split, paths in sources.items():
        for raw, language in zip(paths, languages):
            if pieces or tokenized:
                rewrite(raw, out / f"{split}.{language}", lambda line: line.rstrip("\r"))
            else:
                tokenize(raw, out / f"{split}.{language}", language)
            if lowercase:
                rewrite(out / f"{split}.{language}", out / f"{split}.{language}", str.lower)
        done = "copied" if pieces or tokenized else "tokenised"
        _say(f"{done} {counts[split]:,} pairs of {splits[split]} -> {out / split}.{{{','.join(languages)}}}")
    train = [out / f"train.{language}" for language in languages]
    if most_words is not None:
        kept = limit(train, train, most_words)
        _say(f"kept {kept:,} of {counts['train']:,} training pairs, of at most {most_words} words on each side")
        counts["train"] = kept
    if seed is not None:
        shuffle(train, seed)
        _say(f"shuffled the training pairs (seed {seed})")
    texts = [out / f"{split}.{language}" for split in splits for language in languages]
    _split_words(train, texts, merges, pieces, segmentations, randomness)
    if merges:
        prepared = replace(prepared, bpe=(out / CODES).read_text(encoding="utf-8"))
    if pieces:
        prepared = replace(prepared, sentencepiece=(out / PIECES).read_bytes())
    write_preparations(out, dict.fromkeys(languages, prepared))
    for path in [] if pieces else sources["train"]:
        if lacks_blanks(islice(read_lines(path), SAMPLE)):
            _say(f"{path}: there are no blanks between words; prepare again with --sentencepiece 8000")
    _say("\nThe next commands, to binarize the text, to train and to translate:\n")
    _say(next_commands(out, languages, counts["train"], bool(merges or pieces), segmentations))


def _check_options(
    merges: int, pieces: int, most_words: int | None, tokenized: bool, segmentations: int, randomness: float
) -> None:
    for option, number in (("bpe", merges), ("sentencepiece", pieces)):
        if number < 0:
            raise InputError(f"--{option} is {number}, but a number of subwords is at least 0 (0: whole words)")
    if merges and pieces:
        raise InputError("--bpe and --sentencepiece are two ways to split words; give one of them")
    if tokenized and pieces:
        raise InputError("--sentencepiece splits text, not tokens: leave out --tokenized, or give --bpe")
    if most_words is not None and most_words < 1:
        raise InputError(f"--max-words is {most_words}, but the limit must be at least 1 word")
    if segmentations < 0:
        raise InputError(f"--segmentations is {segmentations}, but it must be at least 0")
    if segmentations and not (merges or pieces):
        raise InputError("--segmentations needs subwords: give --bpe or --sentencepiece")
    if not 0 < randomness < 1:
        option = "sentencepiece-alpha" if pieces else "bpe-dropout"
        raise InputError(f"--{option} is {randomness}, but it must be above 0 and below 1")


def _split_words(
    train: list[Path], texts: list[Path], merges: int, pieces: int, segmentations: int, randomness: float
) -> None:
    """Learn subwords from ``train``, if they are wanted; sample segmentations of it; and split ``texts`` in place."""
    if merges:
        model = train[0].with_name(CODES)
        learn_codes(train, model, merges)
        # Two encoders: subword-nmt's keeps words in a cache, also as they were split at random.
        encoder, sampler = (SubwordNMTBPE(SubwordNMTBPEConfig(bpe_codes=str(model))) for _ in range(2))
        encode, sample = encoder.encode, partial(sampler.bpe.process_line, dropout=randomness)
        done = f"split words by {merges:,} BPE merges"
    elif pieces:
        model = train[0].with_name(PIECES)
        learnt = learn_pieces(train, model, pieces)
        options = {"sentencepiece_model": str(model), "sentencepiece_alpha": randomness}
        encode, sample = (
            SentencepieceBPE(SentencepieceConfig(**options, sentencepiece_enable_sampling=sampling)).encode
            for sampling in (False, True)
        )
        done = f"split text into {learnt:,} sentencepieces"
    else:
        return
    random.seed(1)  # BPE-dropout draws from Python's own generator
    for number in range(segmentations):
        for text in train:
            rewrite(text, text.with_suffix(f".{number}{text.suffix}"), sample)
    for text in texts:
        rewrite(text, text, encode)
    _say(f"{done} learnt from both languages -> {model}")
    if segmentations:
        _say(f"wrote {segmentations} random segmentations of the training text -> {train[0].with_suffix('')}.NUMBER.*")


def _say(line: str) -> None:
    print(line, flush=True)


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "data", type=Path, nargs="+", help="folder of the raw text; or two files, a .tsv or a .tmx, to be split"
    )
    parser.add_argument("out", type=Path, help="folder to write; made if it is not there")
    add_languages(parser)
    parser.add_argument("--train", help="name of the training files in a folder, without the language (default: train)")
    parser.add_argument("--valid", help="name of the development files (default: valid)")
    parser.add_argument("--test", help="name of the test files (default: test)")
    parser.add_argument(
        "--split",
        metavar="DEV,TEST",
        help="pairs of the development and test sets (default: 1000,1000, or a 20th of the pairs each if that is less)",
    )
    parser.add_argument("--split-seed", type=int, default=1, metavar="SEED", help="seed of the split (default: 1)")
    parser.add_argument("--bpe", type=int, default=0, metavar="N", help="BPE merges, both languages together; 0: words")
    parser.add_argument(
        "--sentencepiece",
        type=int,
        default=0,
        metavar="N",
        help="sentencepieces (fewer from a small text), both languages together, instead of Moses tokens; 0: words",
    )
    parser.add_argument(
        "--segmentations",
        type=int,
        default=0,
        metavar="K",
        help="also write K random segmentations of the training text",
    )
    parser.add_argument(
        "--bpe-dropout", type=float, default=0.1, metavar="P", help="of these, BPE's probability to skip a merge"
    )
    parser.add_argument(
        "--sentencepiece-alpha",
        type=float,
        default=0.1,
        metavar="A",
        help="of these, sentencepiece's smoothing exponent: towards 0, all segmentations become equally likely",
    )
    parser.add_argument("--tokenized", action="store_true", help="the text is tokenised already: split it at blanks")
    parser.add_argument(
        "--max-words",
        type=int,
        metavar="N",
        help="drop training pairs with more than N words on a side, counted before words are split (paper: 30, 50)",
    )
    parser.add_argument("--lowercase", action="store_true", help="write all text in lower case")
    parser.add_argument("--shuffle", type=int, metavar="SEED", help="shuffle the training pairs, once (the paper does)")
    return parser


def main() -> None:
    """The command line of this module."""
    args = _make_parser().parse_args()
    randomness = args.sentencepiece_alpha if args.sentencepiece else args.bpe_dropout
    # Also before a large corpus is read.
    _check_options(args.bpe, args.sentencepiece, args.max_words, args.tokenized, args.segmentations, randomness)
    prepare(
        _split_files(args),
        {part: getattr(args, part) or part for part in PARTS},
        (args.source_lang, args.target_lang),
        args.out,
        args.bpe,
        args.sentencepiece,
        args.max_words,
        args.shuffle,
        args.lowercase,
        args.tokenized,
        args.segmentations,
        randomness,
    )


def _split_files(args: argparse.Namespace) -> Path:
    """Return the folder of the raw text; if files are given in its place, split them into it.

    Raises:
        InputError: an option does not go with a folder, or with files; or `split_corpus` refuses the files.
    """
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
