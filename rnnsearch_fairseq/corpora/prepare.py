"""Turn raw parallel text into what ``fairseq-preprocess`` takes: Moses tokens, whole or split (BPE), or sentencepieces.

It calls the encoders that fairseq itself uses, and writes how the text was prepared to OUT/preparation.json. The record
travels with fairseq-preprocess and fairseq-train to the checkpoints, so that fairseq-interactive, the page and Python
split a typed sentence exactly as the training text was split. The paper's shortlist is made by fairseq-preprocess
(--nwordssrc 30004 --nwordstgt 30004: 30,000 words and fairseq's four symbols). fairseq-generate reads text that is
prepared already, and prints the model's words; with -s, -t and these options it prints text in its lines D-:

                    what is split      options
words               Moses tokens       --tokenizer moses
--bpe N             Moses tokens       --tokenizer moses --bpe subword_nmt --bpe-codes OUT/bpe.codes
--sentencepiece N   the text itself    --bpe sentencepiece --sentencepiece-model OUT/sentencepiece.model

Its lines H- are as the model writes them; --post-process sentencepiece makes text of them, too, and of BPE
--post-process subword_nmt makes Moses tokens. The references in T- are those of the model,
which sentencepiece has normalised (NFKC): compare the lines D- with the raw text.

Text is streamed: 850 million words pass in the memory that the distinct words need from which BPE is learnt, or the two
million lines, drawn at random, from which sentencepiece learns. Shuffling needs room for one more copy beside OUT.
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

LEARN_FROM = 2_000_000  # random lines that sentencepiece learns from, which it holds in memory
BUCKET = 64 << 20  # bytes of text that are shuffled in memory
MOST_BUCKETS = 500  # files that are open at a time


def rewrite(text: Path, out: Path, change: Callable[[str], str]) -> None:
    """Write what ``change`` makes of each line of ``text`` to ``out``, which may be ``text``."""
    with open_output(out) as file:
        file.writelines(f"{change(line.rstrip(chr(10)))}\n".encode() for line in read_lines(text))


def tokenize(raw: Path, tokens: Path, language: str) -> None:
    """Write the Moses tokens of every line of ``raw`` (text in ``language``) to ``tokens``."""
    tokenizer = MosesTokenizer(MosesTokenizerConfig(source_lang=language))
    rewrite(raw, tokens, lambda line: tokenizer.encode(line.rstrip("\r")))


def limit_lengths(texts: list[Path], most: int) -> int:
    """Drop the pairs of which a side has more than ``most`` words, in place; returns how many are left."""
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
    """Bring the lines of parallel texts, each of which ends in a newline, into the same random order, in place.

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
        InputError: if the text is too small for so many.
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
        splits: from the names ``train``, ``valid``, ``test`` to file names without language: ``test_2016_flickr``.
        merges: BPE merges, learnt from both sides of the training text, kept in ``OUT/bpe.codes``; 0 for words.
        pieces: sentencepieces, learnt likewise, kept in ``OUT/sentencepiece.model``; 0 for words.
        most_words: drops training pairs with more words on a side, before any splitting; None keeps all.
        seed: of the shuffle of the training pairs; None leaves them in order.
        lowercase: writes all text in lower case, before words are split.

    Raises:
        InputError: if a file is missing, empty or not UTF-8, if two sides differ in their number of lines, if a number
            is out of range or no training pair is short enough.
    """
    _check_numbers(merges, pieces, most_words)
    sources = {split: [data / f"{name}.{language}" for language in languages] for split, name in splits.items()}
    counts = {split: check_parallel(paths) for split, paths in sources.items()}
    out.mkdir(parents=True, exist_ok=True)
    for name in (RECORD, CODES, PIECES):  # of an earlier run: its text must not be split by them later
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
        _say(f"kept {kept:,} of {counts['train']:,} training pairs, those of at most {most_words} words")
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
    """Learn to split words from ``train``, if that is wanted, and split those of ``texts`` in place."""
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
    parser.add_argument("-s", "--source-lang", required=True, help="ending of the source files, a language code: en")
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
        help="drop training pairs of which a side has more than N words, counted before they are split (paper: 30, 50)",
    )
    parser.add_argument("--lowercase", action="store_true", help="write all text in lower case")
    parser.add_argument("--shuffle", type=int, metavar="SEED", help="shuffle the training pairs, once (the paper does)")
    args = parser.parse_args()
    splits = {"train": args.train, "valid": args.valid, "test": args.test}
    languages = (args.source_lang, args.target_lang)
    subwords = (args.bpe, args.sentencepiece)
    prepare(args.data, splits, languages, args.out, *subwords, args.max_words, args.shuffle, args.lowercase)
