"""Write sentence pairs of PHP's manual, English and Japanese, tokenised, in three parts.

TABLE has messages, English TAB Japanese, page after page. A message is cut into sentences where both sides have as
many. Names such as CODEA stand for code and other markup; a pair with other markup on one side is left out. English is
split by Moses and has 8 to 40 words; Japanese is split by MeCab with the dictionary IPADIC. Of 40 blocks of 200
messages three are for the test and one for development; training has no near copy of their English sentences.
OUT gets {train,valid,test}.{en,ja}, English in small letters, and {train,valid,test}.cased, English for the parser.

  python -m recipes.php_en_ja.pairs php.en-ja.tsv text      # after: pip install "sacrebleu[ja]"
"""

import re
import sys
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

from sacrebleu.tokenizers.tokenizer_ja_mecab import TokenizerJaMecab

from recipes.docs_en_fr.passages import are_near_copies
from rnnsearch_fairseq.command_line import program
from rnnsearch_fairseq.corpus.pairs import Pair, read_tsv
from rnnsearch_fairseq.corpus.rows import texts_of, write_rows
from rnnsearch_fairseq.text.codec import TextCodec
from rnnsearch_fairseq.text.markup import mask_pair, scan
from rnnsearch_fairseq.text.preparation import Preparation
from rnnsearch_fairseq.text.sentences import SENTENCE_END

SYMBOL = re.compile(r"⟦(\d+)⟧")
SHORTEST, LONGEST = 8, 40  # English words
MAX_NAMES = 4  # of markup in a sentence
BLOCK = 200  # messages
PARTS = {0: "test", 13: "test", 27: "test", 20: "valid"}  # of 40 blocks; the others are for training
MOSES = Preparation(tokenizer="moses", moses_no_escape=True, moses_no_dash_splits=True)


def cut(text: str) -> list[str]:
    """The sentences of a message."""
    ends = (end.end() for end in SENTENCE_END.finditer(scan(text).hidden))
    return [text[start:end].strip() for start, end in pairwise([0, *ends, len(text)])]


def name_markup(pair: Pair) -> Pair | None:
    """The pair with names for its markup; None if a side has markup that the other has not, or too much."""
    sides = mask_pair(*pair)
    names = [set(SYMBOL.findall(side)) for side in sides]
    has_more = any(len(scan(side).spans) != len(SYMBOL.findall(side)) for side in sides)
    if has_more or names[0] != names[1] or len(names[0]) > MAX_NAMES:
        return None
    source, target = (SYMBOL.sub(lambda symbol: f" CODE{chr(64 + int(symbol[1]))}", side).strip() for side in sides)
    return source, target


def read_sentences(messages: Iterable[Pair]) -> Iterator[Pair]:
    """The tokenised pairs of sentences."""
    split_english, split_japanese = TextCodec(MOSES, "en").encode, TokenizerJaMecab()
    for sides in (tuple(map(cut, message)) for message in messages):
        for pair in map(name_markup, zip(*sides)) if len(sides[0]) == len(sides[1]) else ():
            if pair is not None and SHORTEST <= len(words := split_english(pair[0])) <= LONGEST:
                yield " ".join(words), split_japanese(pair[1])


@program
def main() -> None:
    table, out = map(Path, sys.argv[1:])
    messages = [*read_tsv(table)]
    blocks: dict[str, list[Pair]] = {"test": [], "valid": [], "train": []}
    for start in range(0, len(messages), BLOCK):
        blocks[PARTS.get(start // BLOCK % 40, "train")] += messages[start : start + BLOCK]
    out.mkdir(parents=True)
    held_out: dict[str, str] = {}
    for part, texts in blocks.items():
        pairs = {source: target for source, target in read_sentences(texts) if source not in held_out}
        copies = are_near_copies([*pairs], [*held_out]) if part == "train" else [False] * len(pairs)
        kept = [pair for pair, is_copy in zip(pairs.items(), copies, strict=True) if not is_copy]
        rows = ((source.lower(), target, source) for source, target in kept)
        write_rows(texts_of(out / part, "en", "ja", "cased"), rows)
        print(f"{part}: {len(kept):,} pairs; left out as near copies: {len(pairs) - len(kept):,}")
        held_out |= kept
