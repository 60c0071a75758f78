"""Make words of documentation, with names in place of markup, for a system that reads words, and text of its output.

``encode RAW TEXT NAME...`` writes TEXT/{train,valid,test}.{en,fr}: Moses tokens of RAW/train, of RAW/valid, and of all
test sets RAW/NAME, one after the other. ``decode RAW TRANSLATIONS OUT NAME...`` writes the translations of that test
set as text, to one file OUT/NAME.fr for each:

  python -m recipes.docs_en_fr.masked_words encode runs/docs_en_fr/raw words/text test picard wagtail cloudstack
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from rnnsearch_fairseq.corpus.pairs import Pair
from rnnsearch_fairseq.corpus.rows import texts_of, write_rows
from rnnsearch_fairseq.errors import print_without_traceback
from rnnsearch_fairseq.text.codec import TextCodec
from rnnsearch_fairseq.text.lines import read_lines
from rnnsearch_fairseq.text.markup import find_spans, mask, mask_pair, unmask
from rnnsearch_fairseq.text.preparation import Preparation

LANGUAGES = ("en", "fr")
APART = {": :": "::", "* *": "**", " ’ ": "’"}  # what Moses's detokenizer leaves apart
CODECS = [TextCodec(Preparation(tokenizer="moses", moses_no_escape=True), language) for language in LANGUAGES]


def encode_text(text: str, codec: TextCodec) -> str:
    """Moses tokens; the symbol ⟦1⟧ becomes the word SPAN1."""
    return " ".join(codec.encode(re.sub(r"⟦(\d)⟧", r" SPAN\1 ", text)))


def decode_text(words: str, source: str) -> str:
    """The text of words, with the markup of ``source``."""
    text = CODECS[1].decode(words.split())
    for apart, joined in APART.items():
        text = text.replace(apart, joined)
    return unmask(re.sub(r"SPAN(\d)", r"⟦\1⟧", text), find_spans(source))


def read_pairs(raw: Path, name: str) -> list[Pair]:
    """The pairs of a text."""
    return [
        (en.rstrip("\n"), fr.rstrip("\n"))
        for en, fr in zip(*map(read_lines, texts_of(raw / name, *LANGUAGES)), strict=True)
    ]


def encode(raw: Path, text: Path, names: list[str]) -> None:
    """Write the three parts; of the test sets only what a translator may see is masked: the source's own spans."""
    text.mkdir(parents=True, exist_ok=True)
    parts = {part: (mask_pair(*pair) for pair in read_pairs(raw, part)) for part in ("train", "valid")}
    tests = (pair for name in names for pair in read_pairs(raw, name))
    parts["test"] = ((mask(source, find_spans(source)), target) for source, target in tests)
    for part, pairs in parts.items():
        rows = (tuple(map(encode_text, pair, CODECS)) for pair in pairs)
        write_rows(texts_of(text / part, *LANGUAGES), rows)


def decode(raw: Path, translations: Path, out: Path, names: list[str]) -> None:
    """Write the text of the translations of each test set."""
    out.mkdir(parents=True, exist_ok=True)
    lines: Iterator[str] = iter(read_lines(translations))
    for name in names:
        texts = [decode_text(next(lines), source) for source, _ in read_pairs(raw, name)]
        (out / f"{name}.fr").write_text("".join(f"{line}\n" for line in texts), encoding="utf-8")


def main() -> None:
    """The command line of this module."""
    match sys.argv[1:]:
        case ["encode", raw, text, *names] if names:
            encode(Path(raw), Path(text), names)
        case ["decode", raw, translations, out, *names] if names:
            decode(Path(raw), Path(translations), Path(out), names)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    print_without_traceback()
    main()
