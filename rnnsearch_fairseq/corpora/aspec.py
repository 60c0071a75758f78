"""Take the English-Japanese corpus ASPEC-JE apart, and Enju's words out of its XML.

``rnnsearch aspec extract ASPEC OUT [--pairs N]``

ASPEC is the folder ASPEC-JE as NICT and JST distribute it. OUT gets {train,dev,test}.{en,ja}, raw, one sentence a line;
the training pairs are the first N of train/train-1.txt and train/train-2.txt. Lines are, in train/,
``score ||| document ||| number ||| Japanese ||| English``; in dev/ and test/ they have no score.

``rnnsearch aspec words TEXT XML --output FILE``

XML is what ``enju -xml`` printed for TEXT, one sentence a line. FILE gets Enju's words, lowercased, of which
``rnnsearch trees FILE XML --format enju --lowercase`` makes trees. Punctuation that Enju leaves out
is a word after the sentence, and is dropped within it. A sentence of which Enju gives no words gets those of the Moses
tokenizer; it has no tree.
"""

import argparse
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain, islice
from pathlib import Path

from sacremoses import MosesTokenizer

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.files.output import check_not_input, open_output
from rnnsearch_fairseq.files.text import check_parallel, check_rereadable, check_text_file, read_lines, read_pairs

SEPARATOR = "|||"
# Files of each part, and the fields of their lines; the last two are Japanese and English.
PARTS = {
    "train": (("train/train-1.txt", "train/train-2.txt"), 5),
    "dev": (("dev/dev.txt",), 4),
    "test": (("test/test.txt",), 4),
}


def read_aspec(path: Path, fields: int) -> Iterator[tuple[str, str]]:
    """The English and Japanese sentences of a file of ASPEC-JE.

    Args:
        fields: how many a line has.

    Raises:
        InputError: the file is bad, or a line has not that many fields or no sentence in one of them.
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
        pairs: take at most so many of the training pairs, the first ones.

    Returns:
        The number of pairs of each part.

    Raises:
        InputError: a file is missing or bad.
    """
    if not aspec.is_dir():
        raise InputError(f"{aspec}: no such folder; give the folder ASPEC-JE, which has train, dev and test in it")
    out.mkdir(parents=True, exist_ok=True)
    counts = {}
    for part, (names, fields) in PARTS.items():
        # The second file is opened, and checked, only if the first has too few.
        read = chain.from_iterable(read_aspec(aspec / name, fields) for name in names)
        with ExitStack() as stack:
            sides = [stack.enter_context(open_output(out / f"{part}.{language}")) for language in ("en", "ja")]
            counts[part] = 0
            for pair in islice(read, pairs if part == "train" else None):
                for side, sentence in zip(sides, pair):
                    side.write(f"{sentence}\n".encode())
                counts[part] += 1
    return counts


def enju_words(xml: str) -> list[str]:
    """The words of a sentence as ``enju -xml`` prints it: those of ``tok`` elements, and the text after the tree.

    Returns:
        Words as Enju writes them; none if there are none, or if it is not XML.
    """
    if "<!" in xml:  # as in `rnnsearch_fairseq.data.trees.read_enju`
        return []
    try:
        sentence = ElementTree.fromstring(xml)
    except ElementTree.ParseError:
        return []
    words = []
    for child in sentence:
        for tok in child.iter("tok"):
            words += "".join(tok.itertext()).split()
        words += (child.tail or "").split()
    return words


def write_words(text: Path, xml: Path, output: Path) -> tuple[int, int]:
    """Write Enju's words of every line of ``text``, lowercased.

    Returns:
        The number of sentences, and of those that have the Moses tokenizer's words.

    Raises:
        InputError: a file is bad, or ``xml`` is not that of ``text``.
    """
    check_rereadable(text, xml)
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
            raise InputError(f"{xml}: no line has words of Enju; give what enju -xml printed, one sentence a line")
        if 2 * other > sentences - without:
            raise InputError(
                f"{xml}: {other} of {sentences} sentences are not those of {text}; parse that text, line by line"
            )
    return sentences, without


def _same_sentence(raw: str, words: list[str]) -> bool:
    # Of punctuation, Enju writes some otherwise and leaves some out.
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
    command = commands.add_parser("extract", help="write the sentences of ASPEC-JE")
    command.add_argument("aspec", type=Path, help="folder ASPEC-JE")
    command.add_argument("out", type=Path, help="folder to write; made if it is not there")
    command.add_argument("--pairs", type=int, metavar="N", help="take the first N training pairs (default: all)")
    command = commands.add_parser("words", help="write Enju's words")
    command.add_argument("text", type=Path, help="text that Enju parsed")
    command.add_argument("xml", type=Path, help="what enju -xml printed for it")
    command.add_argument("--output", type=Path, metavar="FILE", required=True, help="file of words to write")
    args = parser.parse_args()
    if args.command == "words":
        sentences, without = write_words(args.text, args.xml, args.output)
        print(f"{sentences:,} sentences, {without:,} of them without words of Enju -> {args.output}")
        return
    if args.pairs is not None and args.pairs < 1:
        raise InputError(f"--pairs is {args.pairs}; give at least 1")
    counts = extract(args.aspec, args.out, args.pairs)
    print(f"{', '.join(f'{part}: {count:,} pairs' for part, count in counts.items())} -> {args.out}")
