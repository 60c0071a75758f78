"""Turn raw parallel text into what ``fairseq-preprocess`` takes: Moses tokens, whole or split into subwords (BPE).

It calls the encoders that fairseq itself uses, so ``fairseq-interactive --tokenizer moses --bpe subword_nmt --bpe-codes
OUT/bpe.codes`` splits a typed sentence exactly as the training text was split.
"""

import argparse
import sys
from pathlib import Path

from fairseq.data.encoders.moses_tokenizer import MosesTokenizer, MosesTokenizerConfig
from fairseq.data.encoders.subword_nmt_bpe import SubwordNMTBPE, SubwordNMTBPEConfig
from subword_nmt.learn_bpe import learn_bpe

from rnnsearch_fairseq.data.text_files import check_parallel
from rnnsearch_fairseq.errors import InputError

CODES = "bpe.codes"


def tokenize(raw: Path, tokens: Path, language: str) -> None:
    """Write the Moses tokens of every line of ``raw`` (text in ``language``) to ``tokens``."""
    tokenizer = MosesTokenizer(MosesTokenizerConfig(source_lang=language))
    with raw.open(encoding="utf-8", newline="\n") as lines, tokens.open("w", encoding="utf-8", newline="\n") as out:
        out.writelines(tokenizer.encode(line.rstrip("\r\n")) + "\n" for line in lines)


def learn_codes(texts: list[Path], codes: Path, merges: int) -> None:
    """Learn ``merges`` byte-pair merges from all of ``texts`` together and write them to ``codes``."""
    lines = (line for text in texts for line in text.open(encoding="utf-8", newline="\n"))
    with codes.open("w", encoding="utf-8", newline="\n") as out:
        learn_bpe(lines, out, merges)


def split_subwords(tokens: Path, codes: Path) -> None:
    """Split the words of ``tokens`` into subwords by ``codes``, in place."""
    bpe = SubwordNMTBPE(SubwordNMTBPEConfig(bpe_codes=str(codes)))
    lines = tokens.read_text(encoding="utf-8").split("\n")[:-1]
    with tokens.open("w", encoding="utf-8", newline="\n") as out:
        out.writelines(bpe.encode(line) + "\n" for line in lines)


def prepare(data: Path, splits: dict[str, str], languages: tuple[str, str], out: Path, merges: int) -> None:
    """Write ``OUT/{train,valid,test}.LANGUAGE`` for the raw files ``DATA/{splits' values}.LANGUAGE``.

    Args:
        splits: from the names ``train``, ``valid``, ``test`` to file names without language: ``test_2016_flickr``.
        merges: BPE merges, learnt from both sides of the training text, kept in ``OUT/bpe.codes``; 0 for words.

    Raises:
        InputError: if a file is missing, empty or not UTF-8, or if two sides differ in their number of lines.
    """
    if merges < 0:
        raise InputError(f"--bpe is {merges}, but a number of merges is at least 0 (0: whole words)")
    sources = {split: [data / f"{name}.{language}" for language in languages] for split, name in splits.items()}
    counts = {split: check_parallel(paths) for split, paths in sources.items()}
    out.mkdir(parents=True, exist_ok=True)
    (out / CODES).unlink(missing_ok=True)  # of an earlier run: whole words must not be split by them later
    for split, paths in sources.items():
        for raw, language in zip(paths, languages):
            tokenize(raw, out / f"{split}.{language}", language)
        print(
            f"tokenised {counts[split]:,} pairs of {splits[split]} -> {out / split}.{{{','.join(languages)}}}",
            flush=True,
        )
    if merges:
        learn_codes([out / f"train.{language}" for language in languages], out / CODES, merges)
        for split in splits:
            for language in languages:
                split_subwords(out / f"{split}.{language}", out / CODES)
        print(f"split words by {merges:,} BPE merges learnt from both languages -> {out / CODES}", flush=True)


def main() -> None:
    """The command line of this module."""
    parser = argparse.ArgumentParser(prog="python -m rnnsearch_fairseq.data.prepare", description=__doc__)
    parser.add_argument("data", type=Path, help="folder of the raw text, one sentence a line")
    parser.add_argument("out", type=Path, help="folder to write; made if it is not there")
    parser.add_argument("-s", "--source-lang", required=True, help="ending of the source files, a language code: en")
    parser.add_argument("-t", "--target-lang", required=True, help="ending of the target files: fr")
    parser.add_argument("--train", default="train", help="name of the training files, without the language")
    parser.add_argument("--valid", default="valid", help="name of the development files")
    parser.add_argument("--test", default="test", help="name of the test files")
    parser.add_argument("--bpe", type=int, default=0, metavar="N", help="BPE merges, both languages together; 0: words")
    args = parser.parse_args()
    splits = {"train": args.train, "valid": args.valid, "test": args.test}
    prepare(args.data, splits, (args.source_lang, args.target_lang), args.out, args.bpe)


if __name__ == "__main__":
    sys.exit(main())
