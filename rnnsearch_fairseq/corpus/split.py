"""Drop the pairs that cannot be translations, and split the other pairs into training, development and test sets."""

import hashlib
import html
import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from rnnsearch_fairseq.corpus.pairs import MAX_CHARACTERS, Pair, read_files
from rnnsearch_fairseq.corpus.rows import Rows, map_blocks
from rnnsearch_fairseq.documents.formats import is_document
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.text.sentences import count_words

PARTS = ("train", "valid", "test")
TRAIN, VALID, TEST, LEFT_OUT = range(4)
MAX_WORDS = 100  # of a side of a pair
MAX_RATIO = 9  # the default of the Moses script clean-corpus-n.perl
SEED = 1  # of the split
MIN_FILES = 20  # from so many on, whole files are drawn for the development and test sets
CONTROL = re.compile("[\0-\x08\x0e-\x1b\x7f\ufeff]")  # and the byte order mark of some editors
TAG = re.compile(
    r"</?(?:(?P<inline>a|abbr|b|big|cite|code|del|em|font|i|ins|kbd|mark|q|s|small|span|strike|strong|sub|sup|tt|u|var)|"
    r"blockquote|br|center|div|h[1-6]|hr|img|li|ol|p|pre|table|tbody|td|th|thead|tr|ul)(?:\s[^<>=]*=[^<>]*|\s*/?)>",
    re.IGNORECASE,
)
ENTITY = re.compile(r"&#?\w+;")  # without ";" it may be a part of an address: ?a=1&copy=2


def clean_pair(pair: Pair, dropped: Counter[str], keep_markup: bool = False, keep_equal: bool = False) -> Pair | None:
    """Clean a pair; if it cannot be a translation, count the reason and return None."""
    if max(map(len, pair)) > MAX_CHARACTERS:
        dropped[f"of more than {MAX_CHARACTERS:,} characters on a side"] += 1
        return None
    source, target = (_clean_sentence(side, keep_markup) for side in pair)
    fewer, more = sorted((count_words(source), count_words(target)))
    if not fewer:
        dropped["without a sentence on a side"] += 1
    elif more > MAX_WORDS:
        dropped[f"of more than {MAX_WORDS} words on a side"] += 1
    elif more > MAX_RATIO * fewer:
        dropped[f"with over {MAX_RATIO} times as many words on one side as on the other"] += 1
    elif source == target and not keep_equal:
        dropped["with equal sides"] += 1
    else:
        return source, target
    return None


def clean_block(keep_markup: bool, pairs: Iterable[tuple[int, Pair]]) -> tuple[list[Pair], array, array, Counter[str]]:
    """Clean pairs: the pairs that stay, their sentences' hashes, the numbers of their files, and what was dropped."""
    cleaned, hashes, numbers, dropped = list[Pair](), array("Q"), array("L"), Counter[str]()
    for number, raw in pairs:
        if (pair := clean_pair(raw, dropped, keep_markup)) is not None:
            cleaned.append(pair)
            hashes.extend(map(hash_sentence, pair))
            numbers.append(number)
    return cleaned, hashes, numbers, dropped


def _clean_sentence(text: str, keep_markup: bool) -> str:
    text = CONTROL.sub("", text)
    if not keep_markup:
        text = TAG.sub(lambda tag: "" if tag["inline"] else " ", text)
        text = ENTITY.sub(lambda entity: html.unescape(entity[0]), text)
    return " ".join(text.split())


def hash_sentence(sentence: str) -> int:
    """A hash of 64 bits, without regard to case and forms of characters (NFKC)."""
    plain = " ".join(unicodedata.normalize("NFKC", sentence).casefold().split())
    return int.from_bytes(hashlib.blake2b(plain.encode(), digest_size=8).digest(), "big")


def group_pairs(hashes: np.ndarray) -> np.ndarray:
    """The group of each pair, ``(pairs,)``: pairs with a common source or target, directly or through further pairs."""
    # Pairs are the edges of a graph of sentences, and groups are its components.
    sources, targets = (np.unique(side, return_inverse=True)[1] for side in hashes.T)
    nodes = sources.max() + targets.max() + 2
    edges = coo_matrix((np.ones(len(hashes)), (sources, sources.max() + 1 + targets)), shape=(nodes, nodes))
    components = connected_components(edges, directed=False)[1][sources]
    _, first, numbers = np.unique(components, return_index=True, return_inverse=True)
    return first[numbers]


def draw_groups(groups: np.ndarray, sizes: tuple[int, int]) -> np.ndarray:
    """Draw whole groups for the development and the test set, up to these sizes: each pair's part, ``(pairs,)``."""
    _, group_of_pair, counts = np.unique(groups, return_inverse=True, return_counts=True)
    part_of_group = np.zeros(len(counts), np.int8)
    room = [0, *sizes]
    for number in np.random.RandomState(SEED).permutation(len(counts)):
        part = next((part for part in (VALID, TEST) if counts[number] <= room[part]), TRAIN)
        part_of_group[number] = part
        room[part] -= counts[number]
        if not any(room[VALID:]):
            break
    return part_of_group[group_of_pair]


def assign_parts(sentences: np.ndarray, files: np.ndarray, sizes: tuple[int, int]) -> np.ndarray:
    """The number of each pair's part in `PARTS`, or `LEFT_OUT`: ``(pairs,)``. No sentence is in two parts.

    Draws groups of pairs that share sentences; with at least `MIN_FILES` files, draws whole files instead, if enough of
    them are small. Then leaves out each pair that shares a sentence with an earlier part.

    Args:
        sentences: hashes of each pair's source and target, ``(pairs, 2)``.
        files: number of each pair's file, ``(pairs,)``.
        sizes: pairs of the development and of the test set.
    """
    parts = np.full(len(files), TRAIN, np.int8)
    if len(files) and all(sizes):
        counts = np.unique(files, return_counts=True)[1]
        whole_files = len(counts) >= MIN_FILES and counts[counts <= min(sizes)].sum() >= 2 * sum(sizes)
        parts = draw_groups(files if whole_files else group_pairs(sentences), sizes)
    for part in (VALID, TEST):
        sources, targets = (np.isin(side, side[parts < part]) for side in sentences.T)
        parts[(parts == part) & (sources | targets)] = LEFT_OUT
    return parts


def split_files(
    files: Sequence[Path], languages: Pair, sizes: tuple[int, int] | None = None, keep_markup: bool = False
) -> dict[str, Rows]:
    """Read and clean a corpus (`read_files`); return the pairs of each part (`assign_parts`) in the files' order.

    Args:
        sizes: pairs of the development and of the test set; None: 1,000 each, or a 20th of the corpus if that is less.
        keep_markup: keep tags and entities, as is always done in PO and XLIFF.
    """
    names = " and ".join(map(str, files)) if len(files) < 3 else f"{files[0]} and {len(files) - 1} other files"
    dropped: Counter[str] = Counter()
    keep_markup |= any(map(is_document, files))  # of programs' messages and documentation
    hashes, file_numbers = array("Q"), array("L")

    def clean() -> Iterator[Pair]:
        numbered = ((number, pair) for number, file in enumerate(readers) for pair in file)
        for cleaned, *of_block, dropped_of_block in map_blocks(partial(clean_block, keep_markup), numbered, "read"):
            for values, new_values in zip((hashes, file_numbers), of_block):
                values.extend(new_values)
            dropped.update(dropped_of_block)
            yield from cleaned

    readers = read_files(files, languages, dropped)
    pairs = Rows(clean())
    sentences = np.array(hashes, np.uint64).reshape(-1, 2)
    unique = np.sort(np.unique(sentences, axis=0, return_index=True)[1])
    dropped["that are duplicates"] = len(pairs) - len(unique)
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in dropped.items() if count)
    left_out = f"; dropped {dropped.total():,} ({reasons})" if reasons else ""
    print(f"read {len(unique) + dropped.total():,} pairs of {names}{left_out}")
    print(f"tags and entities such as &amp; are {'kept' if keep_markup else 'taken out (--keep-markup keeps them)'}")
    sizes = sizes or (min(1000, len(unique) // 20),) * 2
    parts = assign_parts(sentences[unique], np.array(file_numbers)[unique], sizes)
    counts = np.bincount(parts, minlength=len(PARTS) + 1)
    listing = ", ".join(f"{part} {count:,}" for part, count in zip((*PARTS, "left out"), counts))
    if not len(unique):
        sides = " and ".join(languages)
        raise InputError(f"{names}: no pair is left ({reasons or 'there was none'}); give text in {sides}")
    if not all(counts[:LEFT_OUT]):
        few = f"too few pairs to split ({listing}; equal sentences stay in one part)"
        raise InputError(f"{names}: {few}; give more text, or other sizes with --split DEV TEST")
    print(f"split {len(unique):,} pairs (seed {SEED}): {listing} (with a sentence of another set)")
    return {part: pairs.select(unique[parts == number]) for number, part in enumerate(PARTS)}
