"""Turn messages and their translations into what the model reads and writes of them, as ``translate`` cuts and masks.

``python -m recipes.docs_en_fr.passages TEXT OUT``

TEXT is what ``pairs.py`` wrote; OUT gets ``{train,valid,test}.{en,fr}``. A message is cut where both sides are cut
alike, numbers stand for placeholders of counts and stars for tags of emphasis, a label has no accelerator, and blanks
and apostrophes of the French side follow one rule. Of an ICU message with forms, OUT has the singular and the plural.
Left out are pairs whose translation has other tags or links and, in training, near copies of what is held out.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer

from rnnsearch_fairseq.command_line import program
from rnnsearch_fairseq.corpus.pairs import Pair
from rnnsearch_fairseq.corpus.rows import BLOCK, map_blocks, texts_of, write_rows
from rnnsearch_fairseq.corpus.split import PARTS
from rnnsearch_fairseq.documents.markdown import read_markdown
from rnnsearch_fairseq.text.habits import HABITS
from rnnsearch_fairseq.text.lines import read_lines, read_pairs
from rnnsearch_fairseq.text.markup import mask, scan, unmask
from rnnsearch_fairseq.text.passage import Passage
from rnnsearch_fairseq.text.piece import STARS, Piece, Reader

NEAR = 0.6  # of the strings of four characters in two texts that both have
FORMS = re.compile(r"\{\s*\w+\s*,\s*plural\s*,((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}")
FORM = re.compile(r"(=?\w+)\s*\{((?:[^{}]|\{[^{}]*\})*)\}")
# What aligned pages have on one side only: anchors and underlines of headings; and marks that nobody sees.
STRAY = re.compile(r"""<(a|span) (?:name|id)="[^"]*"></\1>|\[\[[a-z\d-]+]]$|\s[-=~]{4,}$|[\u00ad\u200b\u200e\u200f]""")
ENGLISH, FRENCH = Reader(("en", "fr")), Reader(("fr", "fr"))


def read_block(pairs: Iterable[Pair]) -> list[Pair]:
    """The pairs of pieces of these messages."""
    forms = [[expand_forms(STRAY.sub("", side).strip()) for side in pair] for pair in pairs]
    messages = chain.from_iterable(zip(*sides) for sides in forms if len(sides[0]) == len(sides[1]))
    return [put_numbers(*piece) for message in messages for piece in read_pieces(*message)]


def read_pieces(source: str, target: str) -> dict[Pair, None]:
    """The pieces of a message, as a text and as a page, with elements in their sentences and without."""
    found: dict[Pair, None] = {}
    for english, french in dict.fromkeys([(source, target), (show(source), show(target))]):
        given = give_tags(english, french)
        for inline in (True, False) if given is not None else ():
            sides = Passage(english, inline=inline), Passage(given, inline=inline)
            found |= dict.fromkeys(cut_alike(*sides))
            if not any(side.has_inline for side in sides):
                break
    return found


def show(text: str) -> str:
    """A text with a link of Markdown as it is translated on a page; any other text as it is."""
    units = read_markdown(text.encode()).units if "](" in text and "\n" not in text else ()
    return units[0].sources[0] if len(units) == 1 else text


def expand_forms(text: str) -> list[str]:
    """The singular and the plural of an ICU message with forms for numbers; any other text as it is."""

    def choose(message: re.Match[str], name: str, number: str) -> str:
        forms = dict(FORM.findall(message[1]))
        return forms.get(name, forms.get(f"={number}", forms.get("other", ""))).replace("#", number)

    if not FORMS.search(text):
        return [text]
    singular, plural = partial(choose, name="one", number="1"), partial(choose, name="other", number="{count}")
    return [FORMS.sub(singular, text), FORMS.sub(plural, text)]


def give_tags(source: str, target: str) -> str | None:
    """A translation with its source's tags and addresses of links, as of pages in English; None if it has others."""
    tags, given = (
        Counter(side[start:end] for name, start, end in scan(side).constructs if name in ("tag", "address"))
        for side in (source, target)
    )
    lacking, added = [*(tags - given).elements()], [*(given - tags).elements()]
    if added and len(added) != len(lacking):
        return None
    for tag, own in zip(added, lacking):
        target = target.replace(tag, own, 1)
    return target


def cut_alike(source: Passage, target: Passage) -> Iterable[Pair]:
    """The pieces of both sides, or the whole sides if they are cut otherwise."""
    alike = len(source.pieces) == len(target.pieces) and source.join(target.pieces).split() == target.text.split()
    return zip(source.pieces, target.pieces) if alike else [(source.text, target.text)]


def put_numbers(source: str, target: str) -> Pair:
    """A piece and its translation as the model reads and writes them, but for masked markup."""
    piece, translated = Piece(source, ENGLISH), Piece(target, FRENCH)
    masked, wanted = piece.masked, unmask(translated.masked, translated.spans)
    found = mask(wanted, piece.spans)
    signs = {symbol: number for number, symbol in piece.counts.items()}
    are_alike = all(text.count(symbol) == 1 for symbol in signs for text in (masked, found))
    if piece.counted and are_alike and all(masked.count(tag) == found.count(tag) for tag in piece.emphasis):
        masked = piece.counted
        for symbol, sign in (signs | dict.fromkeys(piece.emphasis, STARS)).items():
            found = found.replace(symbol, sign)
        wanted = unmask(found, piece.spans)
    typeset = HABITS["fr"].typeset(re.sub(r"(?<=\w)’(?=\w)", "'", wanted))
    return unmask(masked, piece.spans), " ".join(typeset.split())


def are_near_copies(texts: Sequence[str], others: Sequence[str]) -> Iterator[bool]:
    """Whether each text is much like one of the others."""
    vectorizer = CountVectorizer(analyzer="char", ngram_range=(4, 4), binary=True)
    columns = vectorizer.fit_transform(others)
    analyze, sizes = vectorizer.build_analyzer(), columns.sum(axis=1).A1
    for start in range(0, len(texts), BLOCK):
        block = texts[start : start + BLOCK]
        common = (vectorizer.transform(block) @ columns.T).tocoo()
        lengths = np.array([len({*analyze(text)}) for text in block])
        shares = common.data / (lengths[common.row] + sizes[common.col] - common.data)
        yield from np.isin(np.arange(len(block)), common.row[shares >= NEAR])


@program
def main() -> None:
    text, out = map(Path, sys.argv[1:])
    held_out = [line for path in text.glob("*.en") if path.stem != "train" for line in read_lines(path)]
    out.mkdir(parents=True)
    for part in PARTS:
        pairs = [*read_pairs(*texts_of(text / part, "en", "fr"))]
        if part == "train":
            near = are_near_copies([source for source, _ in pairs], held_out)
            pairs = [pair for pair, is_near in zip(pairs, near) if not is_near]
        pieces = chain.from_iterable(map_blocks(read_block, pairs, part))
        written = [pair for pair in pieces if all(any(map(str.isalpha, side)) for side in pair)]
        write_rows(texts_of(out / part, "en", "fr"), written)
        print(f"{part}: {len(written):,} pieces of {len(pairs):,} messages")
