"""Prepare raw parallel text for training: clean it, split it, and write train.sh, which trains a model.

DATA is two text files, where line N of the second translates line N of the first, or PO, XLIFF, TMX and .tsv files
("source TAB target"), or folders of these. The pairs are split at random into OUT/raw/{train,valid,test}.LANGUAGE. A
folder with the files train.en, train.fr, valid.en and so on is split already, and its text is taken as it is. A .tsv
file has no header and no quotation marks around its texts. Words become sentencepieces or, from a million pairs on,
Moses tokens. OUT gets its files only when all is done.

  rnnsearch prepare corpus.en corpus.fr own -s en -t fr
"""

import io
import os
import shlex
import shutil
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import chain, islice
from pathlib import Path

import sentencepiece
from subword_nmt.learn_bpe import learn_bpe

from rnnsearch_fairseq.command_line import count, make_parser
from rnnsearch_fairseq.corpus.doubts import find_doubts
from rnnsearch_fairseq.corpus.pairs import MAX_CHARACTERS, Pair, find_files
from rnnsearch_fairseq.corpus.plan import (
    CARD,
    MANY_PAIRS,
    START,
    TERMS_FILE,
    make_script,
    plan_adaptation,
    plan_training,
)
from rnnsearch_fairseq.corpus.rows import Rows, add_languages, count_tokens, is_within, map_blocks, texts_of, write_rows
from rnnsearch_fairseq.corpus.split import PARTS, split_files
from rnnsearch_fairseq.errors import InputError, quote
from rnnsearch_fairseq.inference.loading import Member, load_members, write_member
from rnnsearch_fairseq.inference.options import TERMS, read_terms
from rnnsearch_fairseq.output import write_folder
from rnnsearch_fairseq.text.codec import TextCodec
from rnnsearch_fairseq.text.language import check_language
from rnnsearch_fairseq.text.lines import check_rereadable, read_pairs
from rnnsearch_fairseq.text.markup import SYMBOLS, has_code, known_characters, mask_pair
from rnnsearch_fairseq.text.preparation import Preparation, list_words, write_preparations
from rnnsearch_fairseq.text.sentences import count_words, lacks_blanks
from rnnsearch_fairseq.text.terms import NO_TERMS, Terms

SCRIPT = "train.sh"
SETTINGS = ("bpe", "sentencepiece", "tokenized", "lowercase", "max_words", "shuffle")  # options of `prepare`
SAMPLE = 1000  # pairs that are examined
MARKUP_SHARE = 0.02  # of these with markup, from which on there is enough to learn from
MAX_LINES = 2_000_000  # random lines that sentencepiece keeps in memory and learns from


def prepare(
    parts: Mapping[str, Sequence[Pair]],
    languages: Pair,
    out: Path,
    bpe: int | None = None,
    sentencepiece: int | None = None,
    tokenized: bool = False,
    lowercase: bool = False,
    max_words: int | None = None,
    shuffle: int | None = None,
) -> tuple[int, Preparation]:
    """Write ``OUT/{train,valid,test}.LANGUAGE`` and the record; return the number of training pairs and the record.

    The keywords are the command's options. Without ``bpe`` and ``sentencepiece``, the text decides.
    """
    sample = [*islice(parts["train"], SAMPLE)]
    has_markup = sum(any(map(has_code, pair)) for pair in sample) >= MARKUP_SHARE * len(sample)
    needs_pieces = has_markup or any(map(lacks_blanks, zip(*sample)))
    if bpe is None and sentencepiece is None:
        bpe, sentencepiece = _choose_subwords(parts["train"], tokenized, needs_pieces)
    elif needs_pieces and not sentencepiece:
        reason = "it has markup (code, placeholders), or no blanks between words"
        print(f"warning: the text needs sentencepieces, since {reason}; leave out --bpe and --tokenized")
    tokenizer = None if tokenized or sentencepiece else "moses"
    words = Preparation(tokenizer, lowercase=lowercase, markup=bool(sentencepiece and has_markup))
    if words.markup:
        print("the text holds markup (code, links, placeholders): numbered symbols stand for it in training text")
    count_in = count_tokens if tokenized or tokenizer else count_words  # some scripts have no blanks
    tokens: dict[str, Rows] = {}
    for part, pairs in parts.items():
        encoded = _encode_on_all_cores(pairs, words, languages, f"{part}, words")
        if part == "train" and max_words is not None:
            encoded = (pair for pair in encoded if is_within(pair, max_words, count_in))
        tokens[part] = Rows(encoded)
        print(f"{part}: {len(tokens[part]):,} of {len(pairs):,} pairs")
        if not tokens[part]:
            raise InputError(f"{part}: no pair is left; give more text, or a greater --max-words")
    if shuffle is not None:
        tokens["train"] = tokens["train"].shuffle(shuffle)
    lines = (pair[side] for side in (0, 1) for pair in tokens["train"])
    subwords = Preparation()
    if bpe or sentencepiece:
        print("learning subwords from both languages")
    if bpe:
        subwords = Preparation(bpe=learn_codes(lines, bpe))
    elif sentencepiece:
        subwords = Preparation(sentencepiece=learn_pieces(lines, sentencepiece, SYMBOLS if words.markup else []))
    for part, pairs in tokens.items():
        if subwords != Preparation():
            pairs = _encode_on_all_cores(pairs, subwords, languages, f"{part}, subwords")
        write_rows(texts_of(out / part, *languages), pairs)
    prepared = replace(words, bpe=subwords.bpe, sentencepiece=subwords.sentencepiece)
    packed = [list_words(pair[side] for pair in tokens["train"]) if words.markup else None for side in (0, 1)]
    write_preparations(out, {language: replace(prepared, words=own) for language, own in zip(languages, packed)})
    return len(tokens["train"]), prepared


def prepare_as(model: Member, parts: Mapping[str, Sequence[Pair]], out: Path, terms: Terms = NO_TERMS) -> int:
    """Prepare text as the model's was prepared, and write what fine-tuning needs; return the number of pairs."""
    text = model.text
    if text.preparations is None:
        raise InputError("--from: the model does not say how its text was prepared; give one of rnnsearch prepare")
    codecs = [*map(TextCodec, text.preparations, text.languages, (text.vocabularies[0], None))]
    known = known_characters(text.vocabularies[0].symbols)
    for part, pairs in parts.items():
        write_rows(texts_of(out / part, *text.languages), _encode(pairs, *codecs, known, terms))
        print(f"{part}: {len(pairs):,} pairs, cut into the model's subwords")
    preparations = list[Preparation]()
    for side, preparation in enumerate(text.preparations):
        if (known_words := preparation.known_words()) is not None:
            words = list_words((pair[side] for pair in parts["train"]), known_words)
            preparation = replace(preparation, words=words)
        preparations.append(preparation)
    write_preparations(out, dict(zip(text.languages, preparations)))
    for language, vocabulary in zip(text.languages, text.vocabularies):
        vocabulary.write(out / f"dict.{language}.txt")
    write_member(out / START, replace(model, text=replace(text, preparations=tuple(preparations))))
    return len(parts["train"])


def _choose_subwords(train: Sequence[Pair], tokenized: bool, needs_pieces: bool) -> tuple[int | None, int | None]:
    """Choose the number of BPE merges or of sentencepieces, and say why."""
    if len(train) >= MANY_PAIRS and not needs_pieces:
        print("whole words, as in the first paper: there are a million pairs or more (--sentencepiece 32000: subwords)")
        return None, None
    pieces = plan_training(len(train)).pieces
    if not tokenized:
        pieces += len(set(chain.from_iterable(chain.from_iterable(train))))
    kind = "bpe" if tokenized else "sentencepiece"
    why = f"since with so few pairs many words would be unknown (--{kind} {pieces}; for whole words: --bpe 0)"
    print(f"words are cut into subwords (at most {pieces:,} different ones), {why}")
    return (pieces, None) if tokenized else (None, pieces)


def learn_codes(lines: Iterable[str], merges: int) -> str:
    """Learn byte-pair merges: the text of subword-nmt's file."""
    codes = io.StringIO()
    learn_bpe(lines, codes, merges)
    return codes.getvalue()


def learn_pieces(lines: Iterable[str], pieces: int, symbols: Sequence[str] = ()) -> bytes:
    """Learn at most ``pieces`` sentencepieces (unigram model): the model's file. ``symbols`` are never split."""
    model = io.BytesIO()
    sentencepiece.set_random_generator_seed(1)
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            vocab_size=pieces,
            hard_vocab_limit=False,
            user_defined_symbols=list(symbols),
            input_sentence_size=MAX_LINES,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise InputError(f"--sentencepiece {pieces}: too few for the training text ({quote(error)})") from error
    return model.getvalue()


_make_codec = lru_cache(4)(TextCodec)  # a process makes its codecs once


def encode_block(preparation: Preparation, languages: Pair, pairs: Iterable[Pair]) -> list[Pair]:
    """The pairs as words separated by spaces."""
    return [*_encode(pairs, *(_make_codec(preparation, language) for language in languages))]


def _encode_on_all_cores(
    pairs: Iterable[Pair], preparation: Preparation, languages: Pair, label: str
) -> Iterator[Pair]:
    return chain.from_iterable(map_blocks(partial(encode_block, preparation, languages), pairs, label))


def _encode(
    pairs: Iterable[Pair],
    source: TextCodec,
    target: TextCodec,
    known: Container[str] | None = None,
    terms: Terms = NO_TERMS,
) -> Iterator[Pair]:
    """Yield the pairs as words separated by spaces; ``known`` are the characters that the model knows."""
    for pair in pairs:
        if source.preparation.markup and max(map(len, pair)) <= MAX_CHARACTERS:
            pair = mask_pair(terms.put_into(pair[0]), pair[1], known, terms.kept)
        yield " ".join(source.encode(pair[0])), " ".join(target.encode(pair[1]))


def _make_parser() -> ArgumentParser:
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("data", type=Path, nargs="+", help="two text files, other files, or folders")
    add("out", type=Path, help="folder to write, new or empty")
    add_languages(parser)
    add("--from", dest="base", metavar="MODEL", help="train this model further; text is prepared as its text was")
    add("--terms", type=Path, metavar="FILE", help=f"with --from: {TERMS}")
    for part in PARTS:
        add(f"--{part}", help=f"name of the {part} files in a folder, without the language (default: {part})")
    size = "pairs of the development and test sets (default: 1000 each, or a 20th of the pairs if that is less)"
    add("--split", type=count, nargs=2, metavar=("DEV", "TEST"), help=size)
    add("--keep-markup", action="store_true", help="keep tags and entities (always kept in PO and XLIFF)")
    add_subwords = parser.add_mutually_exclusive_group().add_argument
    add_subwords("--bpe", type=partial(count, least=0), metavar="N", help="BPE merges of Moses tokens; 0: whole words")
    add_subwords("--sentencepiece", type=count, metavar="N", help="sentencepieces (default: as many as suit the text)")
    add("--tokenized", action="store_true", default=None, help="the text is tokenised already: split it at spaces")
    longest = "leave out training pairs with more than N words, not subwords, on a side (Bahdanau et al.: 30, 50)"
    add("--max-words", type=count, metavar="N", help=longest)
    add("--lowercase", action="store_true", default=None, help="write all text in lower case")
    add("--shuffle", type=int, metavar="SEED", help="shuffle the training pairs, once (as Bahdanau et al. do)")
    return parser


def main() -> None:
    args = _make_parser().parse_intermixed_args()
    sys.stdout.reconfigure(line_buffering=True)
    languages = (args.source_lang, args.target_lang)
    for language in languages:
        check_language(language)
    if args.out.is_file():
        raise InputError(f"{args.out}: a file, but the last word is the folder to write; give a folder after it")
    if languages[0] == languages[1] or {"gz", "log", "sh"}.intersection(languages):  # train.sh is another file
        raise InputError(f"-s {languages[0]} -t {languages[1]}: give two languages, and sh_RS for sh")
    settings = {name: getattr(args, name) for name in SETTINGS if getattr(args, name) is not None}
    if args.base is not None and settings:
        raise InputError("--from: the text is prepared as the model's; leave out all other options of the preparation")
    if args.base is None and args.terms is not None:
        raise InputError("--terms: only a model of --from keeps terms; give it, or leave the terms out")
    model = None if args.base is None else _load_base(args.base, languages)
    terms = NO_TERMS
    if args.terms is not None:
        terms = read_terms(args.terms, bool(model.text.preparations and model.text.preparations[0].markup))
    files_of_parts = _find_files_of_parts(args, languages)
    inputs = [*chain(*files_of_parts.values())] or find_files(args.data)
    check_rereadable(*inputs)
    with write_folder(args.out) as new:
        (new / "raw").mkdir()
        if files_of_parts:
            parts = {part: Rows(read_pairs(*paths)) for part, paths in files_of_parts.items()}
            if empty := [part for part, rows in parts.items() if not rows]:
                raise InputError(f"{files_of_parts[empty[0]][0]}: the file is empty; give text")
            print(f"{args.data[0]}: its train, valid and test files are taken as they are, without cleaning")
        else:
            parts = split_files(inputs, languages, args.split, args.keep_markup or bool(args.tokenized))
        for doubt in find_doubts(parts["train"], languages):
            print(f"warning: {doubt}")
        for part in ["test"] if files_of_parts else PARTS:
            write_rows(texts_of(new / "raw" / part, *languages), parts[part])
        if model is None:
            number, preparation = prepare(parts, languages, new, **settings)
            plan, joined = plan_training(number), preparation.subwords is not None
            is_lower = preparation.lowercase
        else:
            plan, joined = plan_adaptation(prepare_as(model, parts, new, terms)), False
            is_lower = model.text.preparations[1].lowercase
        if args.terms is not None:
            shutil.copyfile(args.terms, new / TERMS_FILE)
        if model is not None and model.usage.description:
            before = f"Trained further by `rnnsearch prepare --from`. The model before:\n\n{model.usage.description}"
            (new / CARD).write_text(before, encoding="utf-8")
        script = make_script(languages, plan, joined, model, args.terms is not None, is_lower)
        (new / SCRIPT).write_text(script, encoding="utf-8")
    print(f"\nWhat to expect: {plan.updates:,} updates of {plan.batch} pairs; train.sh says how long they take.")
    enough, cure = (1000, "go on from a trained one (--from MODEL)") if model is None else (100, "take more of them")
    if plan.pairs < enough:
        print(f"warning: {plan.pairs:,} pairs teach a model little; {cure}")
    print(f"\nTo train, translate the test set and score it: bash {shlex.quote(str(args.out / SCRIPT))}")


def _load_base(path: str, languages: Pair) -> Member:
    """Load the model of ``--from``."""
    members = load_members(path)
    if len(members) > 1 or members[0].kind != "rnnsearch":
        raise InputError(f"--from {path}: give one RNNsearch; tree models and ensembles are trained anew")
    if members[0].text.languages != languages:
        theirs = " and ".join(members[0].text.languages)
        raise InputError(f"--from {path}: its languages are {theirs}; give them as -s and -t, or another model")
    return members[0]


def _find_files_of_parts(args: Namespace, languages: Pair) -> dict[str, tuple[Path, ...]]:
    """The files of each part, if options name them or a folder is given that holds one of them."""
    files = {part: texts_of(args.data[0] / (getattr(args, part) or part), *languages) for part in PARTS}
    is_folder = len(args.data) == 1 and any(map(os.path.exists, chain(*files.values())))
    if not (is_folder or args.train or args.valid or args.test):
        return {}
    if args.data[1:]:
        raise InputError("--train, --valid and --test name files in one folder; give that folder alone")
    if args.split or args.keep_markup:
        cure = "leave out --split and --keep-markup"
        raise InputError(f"{args.data[0]}: its train, valid and test files stay as they are; {cure}")
    return files
