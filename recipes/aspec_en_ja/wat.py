"""Japanese text as the Workshop on Asian Translation (WAT) prepares it, before and after KyTea splits it into words.

WAT publishes these steps for evaluation with KyTea (its model is jp-0.4.2-utf8-1.mod), with the scripts remove-space.sh
and h2z-utf8-without-space.pl; the second paper prepares ASPEC as WAT 2015 recommends. Source:
http://lotus.kuee.kyoto-u.ac.jp/WAT/evaluation/automatic_evaluation_systems/automaticEvaluationJA.html
"""

import re

# To full width: ! to ~ have code points that differ by a constant, but for four characters.
FULL_WIDTH = {code: code + 0xFEE0 for code in range(0x21, 0x7F)} | str.maketrans("\"'-~", "”’−〜")
SECTION_MARK = re.compile(r"(?<=.)［[０-９．]+］$")
NO_LETTER_BESIDE = re.compile(r"(?<![A-Za-zＡ-Ｚａ-ｚ]) (?![A-Za-zＡ-Ｚａ-ｚ])")
WITHIN_NUMBER = re.compile(r"(?<=[０-９]) (?=[０-９])")
AROUND_POINT = re.compile(r"([０-９]) ． ([０-９])")
WITHIN_WORD = re.compile(r"(?<=[Ａ-Ｚ]) (?=[Ａ-Ｚａ-ｚ])|(?<=[ａ-ｚ]) (?=[ａ-ｚ])")


def normalize(line: str) -> str:
    """A raw sentence for KyTea.

    A mark such as ［１．２］ at its end goes, and so do spaces between characters that are not Latin letters; the rest
    of ASCII, but for spaces, becomes full width.
    """
    line = SECTION_MARK.sub("", line)
    return NO_LETTER_BESIDE.sub("", re.sub("[ 　]+", " ", line)).translate(FULL_WIDTH)


def join(line: str) -> str:
    """KyTea's tokens without spaces inside of numbers and of words in Latin letters."""
    line = re.sub(" +", " ", line.strip(" "))
    return WITHIN_WORD.sub("", AROUND_POINT.sub(r"\1．\2", WITHIN_NUMBER.sub("", line)))
