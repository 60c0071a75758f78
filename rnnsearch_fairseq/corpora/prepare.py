"""Prepare raw parallel text for ``fairseq-preprocess``: as Moses tokens, as BPE subwords of them, or as sentencepieces.

It uses fairseq's own encoders, and records the preparation in OUT/preparation.json. fairseq-preprocess and
fairseq-train copy the record to the checkpoints, so that fairseq-interactive, the page and Python split typed sentences
exactly as the training text was split. fairseq-preprocess applies the paper's shortlist (--nwordssrc 30004
--nwordstgt 30004: 30,000 words and fairseq's four symbols). fairseq-generate reads prepared text and prints the model's
words; with -s, -t and these options, its lines D- hold plain text:

                    split into         options
words               Moses tokens       --tokenizer moses
--bpe N             Moses tokens, BPE  --tokenizer moses --bpe subword_nmt --bpe-codes OUT/bpe.codes
--sentencepiece N   sentencepieces     --bpe sentencepiece --sentencepiece-model OUT/sentencepiece.model

The lines H- hold the model's words; --post-process sentencepiece turns sentencepieces into text, and
--post-process subword_nmt turns BPE into Moses tokens. sentencepiece normalises text (NFKC), also the references in the
lines T-, so compare the lines D- with the raw text.

Text is streamed. Memory is needed for the distinct words, from which BPE is learnt, or for two million random lines,
from which sentencepiece learns. Shuffling needs disk space for one more copy beside OUT.
"""

import argparse
import contextlib
import io
import random
import tempfile
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import sentencepiece
from fairseq.data.encoders.moses_tokenizer import MosesTokenizer, MosesTokenizerConfig
from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE, SentencepieceConfig
from fairseq.data.encoders.subword_nmt_bpe import SubwordNMTBPE, SubwordNMTBPEConfig
from subword_nmt.learn_bpe import learn_bpe

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.files.output import open_output
from rnnsearch_fairseq.files.preparation import CODES, PIECES, RECORD, Preparation, write_record
from rnnsearch_fairseq.files.text import check_parallel, read_lines, read_pairs

LEARN_FROM = 2_000_000  # random lines that sentencepiece keeps in memory and learns from
BUCKET = 64 << 20  # bytes of text to shuffle in memory
MOST_BUCKETS = 500  # the most open files


def rewrite(text: Path, out: Path, change: Callable[[str], str]) -> None:
    """Apply ``change`` to each line of ``text`` and write the lines to ``out``, which may be ``text``."""
    with open_output(out) as file:
        file.writelines(f"{change(line.rstrip(chr(10)))}\n".encode() for line in read_lines(text))


def tokenize(raw: Path, tokens: Path, language: str) -> None:
    """Write the Moses tokens of every line of ``raw`` (text in ``language``) to ``tokens``."""
    tokenizer = MosesTokenizer(MosesTokenizerConfig(source_lang=language))
    rewrite(raw, tokens, lambda line: tokenizer.encode(line.rstrip("\r")))


def limit_lengths(texts: list[Path], most: int) -> int:
    """Drop pairs with more than ``most`` words on either side, in place; return the number of pairs left."""
    kept = 0
    with contextlib.ExitStack() as stack:
        outs = [stack.enter_context(open_output(text)) for text in texts]
        for pair in read_pairs(*texts):
            if max(len(line.split()) for line in pair) <= most:
                kept += 1
                for out, line in zip(outs, pair):
                    out.write(line.encode())
    return kept


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


def learn_pieces(texts: list[Path], model: Path, pieces: int) -> None:
    """Learn a vocabulary of ``pieces`` sentencepieces (unigram model) from all of ``texts`` together, to ``model``.

    Raises:
        InputError: the text is too small for so many.
    """
    learnt = io.BytesIO()
    sentencepiece.set_random_generator_seed(1)
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=(line.rstrip("\n") for line in chain.from_iterable(map(read_lines, texts))),
            model_writer=learnt,
            vocab_size=pieces,
            input_sentence_size=LEARN_FROM,
            minloglevel=2,
        )
    except RuntimeError as error:
        reason = str(error).rsplit("] ", 1)[-1].strip()
        raise InputError(f"--sentencepiece {pieces}: the training text does not allow it ({reason})") from error
    with open_output(model) as out:
        out.write(learnt.getvalue())


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
) -> None:
    """Write ``OUT/{train,valid,test}.LANGUAGE`` for the raw files ``DATA/{splits' values}.LANGUAGE``, and the record.

    Args:
        splits: maps ``train``, ``valid`` and ``test`` to file names without language, such as ``test_2016_flickr``.
        merges: number of BPE merges, learnt from both sides of the training text, in ``OUT/bpe.codes``; 0: words.
        pieces: number of sentencepieces, learnt likewise, in ``OUT/sentencepiece.model``; 0: words.
        most_words: drop training pairs with more words on a side, before words are split; None keeps all.
        seed: seed for shuffling the training pairs; None keeps their order.
        lowercase: lowercase all text before words are split.

    Raises:
        InputError: a file is missing, empty or not UTF-8, two sides differ in their number of lines, a number is out of
            range, or no training pair is short enough.
    """
    _check_numbers(merges, pieces, most_words)
    sources = {split: [data / f"{name}.{language}" for language in languages] for split, name in splits.items()}
    counts = {split: check_parallel(paths) for split, paths in sources.items()}
    out.mkdir(parents=True, exist_ok=True)
    for name in (RECORD, CODES, PIECES):  # files of an earlier run must not be used with the new text
        (out / name).unlink(missing_ok=True)
    prepared = Preparation(
        tokenizer=None if pieces else "moses",
        lowercase=lowercase,
        bpe_codes=CODES if merges else None,
        sentencepiece_model=PIECES if pieces else None,
    )
    for split, paths in sources.items():
        for raw, language in zip(paths, languages):
            if pieces:
                rewrite(raw, out / f"{split}.{language}", lambda line: line.rstrip("\r"))
            else:
                tokenize(raw, out / f"{split}.{language}", language)
            if lowercase:
                rewrite(out / f"{split}.{language}", out / f"{split}.{language}", str.lower)
        done = "copied" if pieces else "tokenised"
        _say(f"{done} {counts[split]:,} pairs of {splits[split]} -> {out / split}.{{{','.join(languages)}}}")
    train = [out / f"train.{language}" for language in languages]
    if most_words is not None:
        kept = limit_lengths(train, most_words)
        _say(f"kept {kept:,} of {counts['train']:,} training pairs, of at most {most_words} words on each side")
        if not kept:
            raise InputError(f"--max-words {most_words}: every training pair is longer; give a greater number")
    if seed is not None:
        shuffle(train, seed)
        _say(f"shuffled the training pairs (seed {seed})")
    _split_words(train, [out / f"{split}.{language}" for split in splits for language in languages], merges, pieces)
    write_record(out, dict.fromkeys(languages, prepared))


def _check_numbers(merges: int, pieces: int, most_words: int | None) -> None:
    for option, number in (("bpe", merges), ("sentencepiece", pieces)):
        if number < 0:
            raise InputError(f"--{option} is {number}, but a number of subwords is at least 0 (0: whole words)")
    if merges and pieces:
        raise InputError("--bpe and --sentencepiece are two ways to split words; give one of them")
    if most_words is not None and most_words < 1:
        raise InputError(f"--max-words is {most_words}, but the limit must be at least 1 word")


def _split_words(train: list[Path], texts: list[Path], merges: int, pieces: int) -> None:
    """Learn subwords from ``train``, if they are wanted, and split ``texts`` in place."""
    if merges:
        model = train[0].with_name(CODES)
        learn_codes(train, model, merges)
        encode = SubwordNMTBPE(SubwordNMTBPEConfig(bpe_codes=str(model))).encode
        done = f"split words by {merges:,} BPE merges"
    elif pieces:
        model = train[0].with_name(PIECES)
        learn_pieces(train, model, pieces)
        encode = SentencepieceBPE(SentencepieceConfig(sentencepiece_model=str(model))).encode
        done = f"split text into {pieces:,} sentencepieces"
    else:
        return
    for text in texts:
        rewrite(text, text, encode)
    _say(f"{done} learnt from both languages -> {model}")


def _say(line: str) -> None:
    print(line, flush=True)


def main() -> None:
    """The command line of this module."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("data", type=Path, help="folder of the raw text, one sentence a line")
    parser.add_argument("out", type=Path, help="folder to write; made if it is not there")
    parser.add_argument("-s", "--source-lang", required=True, help="language code, the ending of the source files: en")
    parser.add_argument("-t", "--target-lang", required=True, help="ending of the target files: fr")
    parser.add_argument("--train", default="train", help="name of the training files, without the language")
    parser.add_argument("--valid", default="valid", help="name of the development files")
    parser.add_argument("--test", default="test", help="name of the test files")
    parser.add_argument("--bpe", type=int, default=0, metavar="N", help="BPE merges, both languages together; 0: words")
    parser.add_argument(
        "--sentencepiece",
        type=int,
        default=0,
        metavar="N",
        help="number of sentencepieces, both languages together, instead of Moses tokens; 0: words",
    )
    parser.add_argument(
        "--max-words",
        type=int,
        metavar="N",
        help="drop training pairs with more than N words on a side, counted before words are split (paper: 30, 50)",
    )
    parser.add_argument("--lowercase", action="store_true", help="write all text in lower case")
    parser.add_argument("--shuffle", type=int, metavar="SEED", help="shuffle the training pairs, once (the paper does)")
    args = parser.parse_args()
    splits = {"train": args.train, "valid": args.valid, "test": args.test}
    languages = (args.source_lang, args.target_lang)
    subwords = (args.bpe, args.sentencepiece)
    prepare(args.data, splits, languages, args.out, *subwords, args.max_words, args.shuffle, args.lowercase)
