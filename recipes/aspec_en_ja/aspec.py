"""Prepare both sides of the English-Japanese corpus ASPEC-JE: filters from standard input to standard output.

words takes the output of ``enju -xml`` for the text RAW, and gives Enju's words in lower case. Japanese goes as WAT
prescribes, before and after KyTea: normalize takes raw sentences, and join takes the output of ``kytea -out tok``.

  python -m recipes.aspec_en_ja.aspec words raw/train.en < raw/train.xml > words/train.en
"""

# The steps for Japanese are those of WAT's evaluation with KyTea, by the scripts remove-space.sh and
# h2z-utf8-without-space.pl; the second paper prepares ASPEC as WAT 2015 recommends. Source:
# http://lotus.kuee.kyoto-u.ac.jp/WAT/evaluation/automatic_evaluation_systems/automaticEvaluationJA.html

import re
import sys
from pathlib import Path
from xml.etree.ElementTree import ParseError, fromstring

from sacremoses import MosesTokenizer

from rnnsearch_fairseq.command_line import make_parser, program
from rnnsearch_fairseq.text.lines import read_lines

# To full width: ! to ~ have code points that differ by a constant, but for four characters.
FULL_WIDTH = {code: code + 0xFEE0 for code in range(0x21, 0x7F)} | str.maketrans("\"'-~", "”’−〜")
SECTION_MARK = re.compile(r"(?<=.)［[０-９．]+］$")
NO_LETTER_BESIDE = re.compile(r"(?<![A-Za-zＡ-Ｚａ-ｚ]) (?![A-Za-zＡ-Ｚａ-ｚ])")
WITHIN_NUMBER = re.compile(r"(?<=[０-９]) (?=[０-９])")
AROUND_POINT = re.compile(r"([０-９]) ． ([０-９])")
WITHIN_WORD = re.compile(r"(?<=[Ａ-Ｚ]) (?=[Ａ-Ｚａ-ｚ])|(?<=[ａ-ｚ]) (?=[ａ-ｚ])")


def normalize(line: str) -> str:
    """A raw sentence for KyTea.

    A mark such as ［１．２］ at its end goes, and so do spaces between characters that are not Latin letters; the other
    characters of ASCII, but for spaces, become full width.
    """
    line = SECTION_MARK.sub("", line)
    return NO_LETTER_BESIDE.sub("", re.sub("[ 　]+", " ", line)).translate(FULL_WIDTH)


def join(line: str) -> str:
    """KyTea's tokens without spaces inside of numbers and of words in Latin letters."""
    line = re.sub(" +", " ", line.strip(" "))
    return WITHIN_WORD.sub("", AROUND_POINT.sub(r"\1．\2", WITHIN_NUMBER.sub("", line)))


def read_words(parse: str, raw: str, tokenizer: MosesTokenizer) -> str:
    """Enju's words of a sentence, parsed or not, lowercased; where it gave none, those of the Moses tokenizer."""
    try:
        words = " ".join(fromstring(parse).itertext()).split()  # leaves, and the punctuation outside the tree
    except ParseError:
        words = []
    return " ".join(words or tokenizer.tokenize(raw, escape=False)).lower()


@program
def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("filter", choices=("words", "normalize", "join"))
    parser.add_argument("raw", nargs="?", type=Path, help="words only: the English text that Enju parsed")
    args = parser.parse_args()
    lines = (line.removesuffix("\n") for line in open(sys.stdin.fileno(), encoding="utf-8", newline="\n"))
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    if args.filter == "words":
        tokenizer = MosesTokenizer("en")
        converted = (read_words(parse, raw, tokenizer) for parse, raw in zip(lines, read_lines(args.raw), strict=True))
    else:
        converted = map(normalize if args.filter == "normalize" else join, lines)
    sys.stdout.writelines(f"{line}\n" for line in converted)
