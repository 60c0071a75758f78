"""Prepare raw parallel text for training: clean it, split it into parts and words, and say what to expect.

Files are split at random into OUT/raw/{train,valid,test}.LANGUAGE; a folder with train.en, train.fr and so on stays
split. Words become sentencepieces or, from a million pairs on, Moses tokens. OUT changes only at the end. In place of
two files, of which line N is the same sentence, give any of PO, XLIFF, TMX and .tsv ("source TAB target"), or folders.

  rnnsearch prepare corpus.en corpus.fr text -s en -t fr
"""

import argparse
import fcntl
import multiprocessing
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, replace
from itertools import chain, islice
from pathlib import Path

from rnnsearch_fairseq.corpus.limit import is_within
from rnnsearch_fairseq.corpus.pairs import MAX_CHARACTERS, Pair, find_files
from rnnsearch_fairseq.corpus.plan import MANY_PAIRS, expectations, make_commands, make_script, plan_training
from rnnsearch_fairseq.corpus.rows import Rows, shuffle_rows, write_rows
from rnnsearch_fairseq.corpus.split import MARKUP_SHARE, PARTS, SAMPLE, split_files
from rnnsearch_fairseq.corpus.subwords import count_pieces, learn_codes, learn_pieces
from rnnsearch_fairseq.corpus.texts import Texts, add_languages, texts_of
from rnnsearch_fairseq.errors import Count, InputError, make_parser
from rnnsearch_fairseq.output import check_not_input
from rnnsearch_fairseq.text.codec import TextCodec
from rnnsearch_fairseq.text.lines import read_pairs
from rnnsearch_fairseq.text.markup import SYMBOLS, has_code, mask_pair
from rnnsearch_fairseq.text.preparation import RECORD, SUBWORDS, Preparation, write_preparations
from rnnsearch_fairseq.text.scripts import lacks_blanks, lacks_common_words

SCRIPT = "train.sh"
LOCK = ".lock"  # stays there, since two processes could hold it if it were removed
CHUNK = 500  # pairs that a process converts at a time
TIMED_PAIRS = 5000  # from which the time of a training is estimated


@dataclass(frozen=True)
class Settings:
    """The options of the command that say how to prepare text; an InputError if two contradict each other.

    Attributes:
        bpe: number of BPE merges; 0: whole words.
        sentencepiece: greatest number of sentencepieces. If both are None, the text decides.
        max_words: greatest number of words on a side of a training pair, before words are split.
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
    parts: Mapping[str, Sequence[Pair]], languages: Pair, out: Path, settings: Settings = Settings()
) -> tuple[int, Preparation]:
    """Write ``OUT/{train,valid,test}.LANGUAGE`` and the record.

    Args:
        parts: the raw pairs of ``train``, ``valid`` and ``test``.
        out: a folder, which also holds temporary files meanwhile.

    Returns:
        The number of training pairs, and the preparation of both languages.

    Raises:
        InputError: no training pair is short enough, or the text has more characters than sentencepieces.
    """
    sample = [*islice(parts["train"], SAMPLE)]
    has_markup = sum(any(map(has_code, pair)) for pair in sample) >= MARKUP_SHARE * len(sample)
    settings = _choose_subwords(settings, parts["train"], languages, has_markup)
    words = Preparation(
        tokenizer=None if settings.tokenized or settings.sentencepiece else "moses",
        lowercase=settings.lowercase,
        markup=bool(settings.sentencepiece and has_markup),
    )
    if words.markup:
        _say("the text holds markup (code, links, placeholders): numbered symbols stand for it in training text")
    tokens: dict[str, Sequence[Pair]] = {}
    for part, pairs in parts.items():
        tokens[part] = Rows(_encode(pairs, words, languages, settings.workers), out)
        _say(f"{'copied' if words.tokenizer is None else 'tokenised'} {len(pairs):,} {part} pairs")
    tokens["train"] = train = _choose_training_pairs(tokens["train"], settings, out)
    subwords = _learn_subwords(train, settings, SYMBOLS if words.markup else [])
    for part, pairs in tokens.items():
        split = pairs if subwords == Preparation() else _encode(pairs, subwords, languages, settings.workers)
        write_rows(texts_of(out / part, *languages), split)
    prepared = replace(words, bpe=subwords.bpe, sentencepiece=subwords.sentencepiece)
    write_preparations(out, dict.fromkeys(languages, prepared))
    return len(train), prepared


def _mask(pair: Pair) -> Pair:
    """A pair with symbols in place of the markup that both sides have; text that is too long for a pair stays."""
    return mask_pair(*pair) if max(map(len, pair)) <= MAX_CHARACTERS else pair


def _choose_subwords(settings: Settings, train: Sequence[Pair], languages: Pair, has_markup: bool) -> Settings:
    """Fill in the subwords that the user has not chosen, and say why; warn of what the first pairs show."""
    against_tokens = ["tokens tear its markup apart (code, placeholders)"] * has_markup
    for lines, language in zip(zip(*islice(train, SAMPLE)), languages):
        if lacks_common_words(lines, language):
            _say(f"warning: hardly a word of the {language} text is a common one of {language}; are -s and -t right?")
        if lacks_blanks(lines):
            against_tokens.append(f"its {language} has no blanks between words")
    if settings.bpe is not None or settings.sentencepiece is not None:
        if against_tokens and not settings.sentencepiece:
            why = " and ".join(against_tokens)
            _say(f"warning: the text needs sentencepieces, since {why}; leave out --bpe and --tokenized")
        return settings
    if len(train) >= MANY_PAIRS and not against_tokens:
        _say("whole words, as in the first paper: there are a million pairs or more (--sentencepiece 32000: subwords)")
        return settings
    pieces = plan_training(len(train)).pieces
    if not settings.tokenized:
        pieces += len({character for pair in train for side in pair for character in side})
    kind = "bpe" if settings.tokenized else "sentencepiece"
    _say(f"--{kind} {pieces}: subwords, since few pairs leave many whole words unknown (--bpe 0: whole words)")
    return replace(settings, **{kind: pieces})


def _choose_training_pairs(train: Sequence[Pair], settings: Settings, out: Path) -> Sequence[Pair]:
    """Leave out long pairs, and shuffle, as the settings say."""
    if settings.max_words is not None:
        number = len(train)
        train = Rows((pair for pair in train if is_within(pair, settings.max_words)), out)
        if not len(train):
            raise InputError(f"--max-words {settings.max_words}: every training pair is longer; give a greater number")
        limits = f"of 1 to {settings.max_words} words on each side"
        _say(f"kept {len(train):,} of {number:,} training pairs, {limits}")
    if settings.shuffle is not None:
        train = shuffle_rows(train, settings.shuffle)
        _say(f"shuffled the training pairs (seed {settings.shuffle})")
    return train


def _learn_subwords(train: Sequence[Pair], settings: Settings, symbols: Sequence[str]) -> Preparation:
    """The preparation that splits words, with nothing else in it."""
    lines = (pair[side] for side in (0, 1) for pair in train)
    if settings.bpe:
        _say(f"learning {settings.bpe:,} BPE merges from both languages")
        return Preparation(bpe=learn_codes(lines, settings.bpe))
    if settings.sentencepiece:
        model = learn_pieces(lines, settings.sentencepiece, symbols)
        _say(f"learnt {count_pieces(model):,} sentencepieces from both languages")
        return Preparation(sentencepiece=model)
    return Preparation()


def _encode(pairs: Iterable[Pair], preparation: Preparation, languages: Pair, workers: int) -> Iterator[Pair]:
    """Yield the pairs as words with blanks between, in order, by this process or several others."""
    if workers == 1:
        _start_worker(preparation, languages)
        yield from map(_encode_pair, pairs)
        return
    with multiprocessing.Pool(workers, _start_worker, (preparation, languages)) as pool:
        # The pool reads ahead only as far as its pipe holds text, so memory does not depend on the text's size.
        yield from pool.imap(_encode_pair, pairs, CHUNK)


def _start_worker(preparation: Preparation, languages: Pair) -> None:
    global _codecs
    _codecs = [TextCodec(preparation, language) for language in languages]


def _encode_pair(pair: Pair) -> Pair:
    if _codecs[0].preparation.markup:
        pair = _mask(pair)
    return " ".join(_codecs[0].encode(pair[0])), " ".join(_codecs[1].encode(pair[1]))


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
    add("--split-seed", action=Count, default=1, metavar="SEED", help="seed of the split (default: 1)")
    held_out = "the test set is these files of DATA as a whole, and no sentence of theirs is in another part"
    add("--held-out", type=Path, nargs="+", action="extend", default=[], metavar="FILE", help=held_out)
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
    sys.stdout.reconfigure(errors="backslashreplace")  # a folder's name may be no text
    settings = Settings(**{field.name: getattr(args, field.name) for field in fields(Settings)})
    languages = (args.source_lang, args.target_lang)
    if languages[0] == languages[1]:
        raise InputError(f"-s {languages[0]} -t {languages[1]}: source and target are the same language; name two")
    files_of_parts = _find_files_of_parts(args, languages)
    sizes = _check_options_of_split(args, bool(files_of_parts))
    if files_of_parts:
        inputs = [*chain(*files_of_parts.values())]
        in_place = files_of_parts["test"][0].resolve() == texts_of(args.out / "raw/test", *languages)[0].resolve()
        raw_parts = [] if in_place else ["test"]
    else:
        inputs = _find_files_to_split(args)
        raw_parts = list(PARTS)
    names = [*(f"raw/{part}" for part in raw_parts), *PARTS]
    outputs = [f"{name}.{language}" for name in names for language in languages]
    with _replace_files(args.out, [*outputs, *SUBWORDS.values(), SCRIPT, RECORD], inputs) as new:
        if files_of_parts:
            parts = {part: _read_part(paths, new) for part, paths in files_of_parts.items()}
        else:
            parts = split_files(inputs, languages, new, sizes, args.split_seed, args.keep, len(args.held_out))
        for part in raw_parts:
            write_rows(texts_of(new / "raw" / part, *languages), parts[part])
        number, preparation = prepare(parts, languages, new, settings)
        plan = plan_training(number)
        (new / SCRIPT).write_text(make_script(languages, plan, preparation, LOCK), encoding="utf-8")
        sample = [*islice(read_pairs(*texts_of(new / "train", *languages)), TIMED_PAIRS)]
        _say(f"\n{expectations(plan, sample, preparation.subwords is not None)}")
    run = f"bash {shlex.quote(str(args.out / SCRIPT))}"
    _say(f"\nThe next commands, to train, to translate the test set and to score it ({run} runs them):\n")
    _say("\n".join(make_commands(f"{args.out}/", languages, plan, preparation)))
    _say("\nand to translate what you type, here or on a page:\n")
    model = shlex.quote(str(args.out / "checkpoints/checkpoint_best.pt"))
    _say("\n".join(f"rnnsearch {command} --model {model} --beam 12" for command in ("translate", "serve")))


def _find_files_of_parts(args: argparse.Namespace, languages: Pair) -> dict[str, Texts]:
    """The files of each part, if a folder is given that holds one of them or whose parts options name."""
    names = {part: getattr(args, part) or part for part in PARTS}
    files = {part: texts_of(args.data[0] / name, *languages) for part, name in names.items()}
    named = any(getattr(args, part) for part in PARTS)
    is_folder = len(args.data) == 1 and not os.path.isfile(args.data[0])
    return files if is_folder and (named or any(map(os.path.exists, chain(*files.values())))) else {}


def _check_options_of_split(args: argparse.Namespace, has_parts: bool) -> tuple[int, int] | None:
    """The sizes of the development and test sets, if they are given; an InputError if options contradict the data."""
    if has_parts and (args.split or args.keep or args.held_out):
        raise InputError(f"--split, --keep and --held-out: the parts of {args.data[0]} stay; leave these options out")
    if not has_parts and any(getattr(args, part) for part in PARTS):
        raise InputError("--train, --valid and --test name files of a folder; leave them out, or give a folder")
    sizes = args.split and re.fullmatch("([1-9][0-9]*),([1-9][0-9]*)", args.split)
    if args.split and not sizes:
        raise InputError(f"--split {args.split}: give two numbers of pairs, of at least 1: --split 1000,1000")
    return (int(sizes[1]), int(sizes[2])) if sizes else None


def _find_files_to_split(args: argparse.Namespace) -> list[Path]:
    """The files of the corpus, first those that are held out."""
    files = {path.resolve(): path for path in find_files(args.data)}
    held_out = [files.pop(path.resolve(), None) for path in args.held_out]
    if None in held_out:
        missing = args.held_out[held_out.index(None)]
        raise InputError(f"--held-out {missing}: not among the files of DATA, or given twice; give files of DATA")
    return [*held_out, *files.values()]


def _read_part(paths: Texts, temporary: Path) -> Rows:
    rows = Rows(read_pairs(*paths), temporary)
    if not len(rows):
        raise InputError(f"{paths[0]}: the file is empty; give a file of one sentence per line")
    return rows


@contextmanager
def _replace_files(out: Path, names: Iterable[str], inputs: Iterable[Path]) -> Iterator[Path]:
    """Give a new folder, whose files ``names`` go to ``out`` at the end; after an error, ``out`` is as it was.

    Raises:
        InputError: ``out`` or a file in it cannot be written or would replace an input, another process prepares or
            trains there, or a model of older text is there.
    """
    new = out / ".prepare"
    with ExitStack() as stack:
        try:
            out.mkdir(parents=True, exist_ok=True)
            lock = stack.enter_context(open(os.open(out / LOCK, os.O_RDWR | os.O_CREAT, 0o666), "rb"))
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _check_places(out, names, inputs)
            shutil.rmtree(new, ignore_errors=True)  # of a process that was killed
            (new / "raw").mkdir(parents=True)
        except BlockingIOError as error:
            raise InputError(f"{out}: another rnnsearch prepare or train.sh runs there; wait for its end") from error
        except OSError as error:
            raise InputError(f"{out}: cannot be written ({error.strerror}); give another folder") from error
        stack.callback(shutil.rmtree, new)
        yield new
        if (out / "bin").exists():
            _say(f"removed {out / 'bin'}, which is of older text")
            shutil.rmtree(out / "bin")
        for name in SUBWORDS.values():
            for old in out.glob(name.replace(".", ".*")):  # bpe.codes and bpe.en.codes
                old.unlink()
        (out / "raw").mkdir(exist_ok=True)
        for name in filter(lambda name: (new / name).exists(), names):
            os.replace(new / name, out / name)


def _check_places(out: Path, names: Iterable[str], inputs: Iterable[Path]) -> None:
    """Raise an InputError if a file cannot be replaced, or must not be."""
    if (out / "checkpoints").exists():
        raise InputError(f"{out / 'checkpoints'}: holds a model of older text; remove it, or give another OUT")
    for place in [out / name for name in names]:
        check_not_input(place, inputs)
        if place.exists() and not place.is_file():
            raise InputError(f"{place}: cannot be replaced by a file; remove it")
    if (out / "raw").exists() and not (out / "raw").is_dir():
        raise InputError(f"{out / 'raw'}: cannot be replaced by a folder; remove it")
