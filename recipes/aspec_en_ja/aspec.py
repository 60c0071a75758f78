"""Extract the sentences of the English-Japanese corpus ASPEC-JE, and prepare both sides of it.

``python -m recipes.aspec_en_ja.aspec extract ASPEC OUT [--pairs N]``

ASPEC is the folder ASPEC-JE as NICT and JST distribute it. Raw sentences are written to OUT/{train,dev,test}.{en,ja},
one a line; the training pairs are the first N of train/train-1.txt and train/train-2.txt. A line in train/ is
``score ||| document ||| number ||| Japanese ||| English``; lines in dev/ and test/ have no score.

``python -m recipes.aspec_en_ja.aspec words TEXT XML --output FILE``

XML is the output of ``enju -xml`` for TEXT, one sentence a line. Enju's words are written to FILE in lower case;
``rnnsearch trees FILE XML --format enju --lowercase`` then makes the trees. Punctuation that Enju leaves out of the
tree becomes a word at the end of the sentence, and is dropped inside it. A sentence without words from Enju gets the
Moses tokenizer's words, and has no tree.

``python -m recipes.aspec_en_ja.aspec normalize TEXT --output FILE``
``python -m recipes.aspec_en_ja.aspec join TOKENS --output FILE``

The first prepares Japanese sentences for KyTea as WAT does, the second joins what KyTea splits inside of numbers and of
words in Latin letters.
"""

import argparse
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain, islice
from pathlib import Path

from sacremoses import MosesTokenizer

from recipes.aspec_en_ja import wat
from rnnsearch_fairseq.errors import Count, InputError, print_without_traceback
from rnnsearch_fairseq.output import check_not_input, open_output
from rnnsearch_fairseq.text.lines import check_parallel, check_text_file, read_lines, read_pairs
from rnnsearch_fairseq.text.trees import enju_words

SEPARATOR = "|||"
# The files of each part, and the number of fields in a line; the last two are Japanese and English.
PARTS = {
    "train": (("train/train-1.txt", "train/train-2.txt"), 5),
    "dev": (("dev/dev.txt",), 4),
    "test": (("test/test.txt",), 4),
}
WAT = {"normalize": wat.normalize, "join": wat.join}


def read_aspec(path: Path, fields: int) -> Iterator[tuple[str, str]]:
    """Yield the English and Japanese sentences of a file of ASPEC-JE.

    Args:
        fields: the number of fields in a line.

    Raises:
        InputError: the file cannot be read, or a line has another number of fields or an empty sentence.
    """
    check_text_file(path)
    for number, line in enumerate(read_lines(path), 1):
        split = [part.strip() for part in line.split(SEPARATOR)]
        if len(split) != fields:
            raise InputError(
                f"{path}, line {number}: {len(split)} fields between {SEPARATOR} instead of {fields}; "
                "give the folder ASPEC-JE as it is distributed"
            )
        *_, japanese, english = split
        if not japanese or not english:
            missing = "English" if japanese else "Japanese"
            raise InputError(f"{path}, line {number}: the {missing} sentence is empty; delete the line")
        yield english, japanese


def extract(aspec: Path, out: Path, pairs: int | None) -> dict[str, int]:
    """Write ``OUT/{train,dev,test}.{en,ja}``.

    Args:
        aspec: the folder ASPEC-JE.
        pairs: the most training pairs to take, from the first on; None: all.

    Returns:
        The number of pairs of each part.

    Raises:
        InputError: a file is missing or damaged.
    """
    if not aspec.is_dir():
        raise InputError(f"{aspec}: no such folder; give the folder ASPEC-JE, which has train, dev and test in it")
    out.mkdir(parents=True, exist_ok=True)
    counts = {}
    for part, (names, fields) in PARTS.items():
        # The second file is opened only if the first has too few pairs.
        read = chain.from_iterable(read_aspec(aspec / name, fields) for name in names)
        with ExitStack() as stack:
            sides = [stack.enter_context(open_output(out / f"{part}.{language}")) for language in ("en", "ja")]
            counts[part] = 0
            for pair in islice(read, pairs if part == "train" else None):
                for side, sentence in zip(sides, pair):
                    side.write(f"{sentence}\n".encode())
                counts[part] += 1
    return counts


def write_words(text: Path, xml: Path, output: Path) -> tuple[int, int]:
    """Write Enju's words for each line of ``text``, lowercased.

    Returns:
        The number of sentences, and the number of sentences with the Moses tokenizer's words.

    Raises:
        InputError: a file is damaged, or ``xml`` belongs to another text.
    """
    sentences = check_parallel([text, xml])
    check_not_input(output, (text, xml))
    moses = MosesTokenizer("en")
    without = other = 0
    with open_output(output) as out:
        for raw, parse in read_pairs(text, xml):
            words = enju_words(parse)
            if words:
                other += not _same_sentence(raw, words)
            else:
                words = moses.tokenize(raw, escape=False)
                without += 1
            out.write(f"{' '.join(words).lower()}\n".encode())
        if without == sentences:
            raise InputError(f"{xml}: no line has words from Enju; give the output of enju -xml, one sentence a line")
        if 2 * other > sentences - without:
            raise InputError(
                f"{xml}: {other} of {sentences} sentences differ from {text}; parse that text, line by line"
            )
    return sentences, without


def _same_sentence(raw: str, words: list[str]) -> bool:
    # Enju changes some punctuation and leaves some out.
    return _letters(raw) == _letters("".join(words))


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.lower()))


def main() -> None:
    """The command line of this module."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("extract", help="write the raw sentences of ASPEC-JE")
    command.add_argument("aspec", type=Path, help="folder ASPEC-JE")
    command.add_argument("out", type=Path, help="folder to write; made if it is not there")
    command.add_argument("--pairs", action=Count, help="take the first N training pairs (default: all)")
    command = commands.add_parser("words", help="write Enju's words")
    command.add_argument("text", type=Path, help="text that Enju parsed")
    command.add_argument("xml", type=Path, help="output of enju -xml for it")
    command.add_argument("--output", type=Path, metavar="FILE", required=True, help="file of words to write")
    for name, change in WAT.items():
        command = commands.add_parser(name, help=change.__doc__.partition("\n")[0])
        command.add_argument("text", type=Path, help="Japanese text, one sentence a line")
        command.add_argument("--output", type=Path, metavar="FILE", required=True, help="file to write")
    args = parser.parse_args()
    if args.command in WAT:
        check_not_input(args.output, [args.text])
        check_text_file(args.text)
        with open_output(args.output) as out:
            out.writelines(
                f"{WAT[args.command](line.removesuffix(chr(10)))}\n".encode() for line in read_lines(args.text)
            )
        return
    if args.command == "words":
        sentences, without = write_words(args.text, args.xml, args.output)
        print(f"{sentences:,} sentences, {without:,} of them without words from Enju -> {args.output}")
        return
    counts = extract(args.aspec, args.out, args.pairs)
    print(f"{', '.join(f'{part}: {count:,} pairs' for part, count in counts.items())} -> {args.out}")


if __name__ == "__main__":
    print_without_traceback()
    main()
