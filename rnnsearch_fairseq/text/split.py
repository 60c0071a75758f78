"""Split a corpus into training, development and test sets, without the pairs that cannot be translations.

Text is streamed. Memory is needed for hashes of the sentences and for groups of pairs: about 100 bytes a pair.
"""

import hashlib
import unicodedata
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.output import check_not_input, open_output
from rnnsearch_fairseq.text.pairs import UNFINISHED, UNTRANSLATED, Pair, read_corpus, read_files
from rnnsearch_fairseq.text.scripts import count_words

PARTS = ("train", "valid", "test")
MOST_WORDS = 100
MANY_FILES = 20  # from so many on, whole files are drawn for the development and test sets
MOST_RATIO = 9  # the default of the Moses script clean-corpus-n.perl
EMPTY = "without a sentence on a side"
LONG = f"of more than {MOST_WORDS} words on a side"
UNEQUAL = f"with over {MOST_RATIO} times as many words on one side as on the other"


def clean(pairs: Iterable[Pair], dropped: Counter[str]) -> Iterator[Pair]:
    """Yield the pairs that may be translations, with single blanks between words, and count the others by reason.

    A character of a script without blanks counts as half a word.
    """
    for pair in pairs:
        # U+FEFF is the byte order mark that some editors put before a file's first line.
        source, target = (" ".join(side.replace("\ufeff", "").split()) for side in pair)
        short, long = sorted((count_words(source), count_words(target)))
        if not short:
            dropped[EMPTY] += 1
        elif long > MOST_WORDS:
            dropped[LONG] += 1
        elif long > MOST_RATIO * short:
            dropped[UNEQUAL] += 1
        else:
            yield source, target


def hash_sentence(sentence: str) -> int:
    """A hash of 64 bits, without regard to case, blanks and forms of characters (NFKC)."""
    plain = "".join(unicodedata.normalize("NFKC", sentence).casefold().split())
    return int.from_bytes(hashlib.blake2b(plain.encode(), digest_size=8).digest(), "big")


def group(hashes: np.ndarray) -> np.ndarray:
    """Group the pairs that have a source or a target in common, with each other or through further pairs.

    From hashes ``(pairs, 2)`` to the number of each pair's group's first pair, ``(pairs,)``.
    """
    # Pairs are the edges of a graph of sentences, and groups are its components.
    sources, targets = (np.unique(side, return_inverse=True)[1] for side in hashes.T)
    nodes = sources.max() + targets.max() + 2
    edges = coo_matrix((np.ones(len(hashes)), (sources, sources.max() + 1 + targets)), shape=(nodes, nodes))
    components = connected_components(edges, directed=False)[1][sources]
    _, first, numbers = np.unique(components, return_index=True, return_inverse=True)
    return first[numbers]


def choose(groups: np.ndarray, sizes: tuple[int, int], seed: int) -> np.ndarray:
    """Choose whole groups at random for the development set and then for the test set, up to these sizes.

    From the group of each pair to the index of its part in `PARTS`, both ``(pairs,)``.
    """
    _, group_of_pair, counts = np.unique(groups, return_inverse=True, return_counts=True)
    part_of_group = np.zeros(len(counts), np.int8)
    left = [0, *sizes]
    for number in np.random.RandomState(seed).permutation(len(counts)):
        part = next((part for part in (1, 2) if counts[number] <= left[part]), 0)
        part_of_group[number] = part
        left[part] -= counts[number]
        if not any(left[1:]):
            break
    return part_of_group[group_of_pair]


def split_corpus(
    data: Sequence[Path], languages: Pair, out: Path, sizes: tuple[int, int] | None = None, seed: int = 1
) -> None:
    """Clean a corpus (`read_corpus`), and write its parts to ``OUT/{train,valid,test}.LANGUAGE`` in the given order.

    Equal sentences are in one part, whatever their translations are, so a development or test set may be somewhat
    smaller than asked. Of 20 files or more, whole files are drawn; their pairs that have a sentence of an earlier part
    are left out, as the development set is a part after the training set, and the test set after both.

    Args:
        sizes: pairs of the development and of the test set; None: 1,000 each, or a 20th of the corpus if that is less.
        seed: of the random choice.

    Raises:
        InputError: the corpus is refused by `read_corpus`, or has too few pairs.
    """
    names = " ".join(map(str, data))
    paths = [out / f"{part}.{language}" for part in PARTS for language in languages]
    for path in paths:
        check_not_input(path, data)
    dropped: Counter[str] = Counter()
    hashes, files = array("Q"), array("Q")
    for number, pairs in enumerate(read_files(data, languages, dropped)):
        for pair in clean(pairs, dropped):
            hashes.extend(map(hash_sentence, pair))
            files.append(number)
    kept = len(files)
    reasons = ", ".join(f"{dropped[reason]:,} {reason}" for reason in (EMPTY, LONG, UNEQUAL))
    reasons += "".join(f", {dropped[reason]:,} {reason}" for reason in (UNTRANSLATED, UNFINISHED) if dropped[reason])
    print(f"read {kept + dropped.total():,} pairs of {names}; dropped {dropped.total():,}: {reasons}", flush=True)
    sizes = sizes or (min(1000, kept // 20),) * 2
    parts, whole = np.zeros(0, np.int8), len(set(files)) >= MANY_FILES
    if kept:
        sentences = np.frombuffer(hashes, np.uint64).reshape(-1, 2)
        parts = choose(np.array(files) if whole else group(sentences), sizes, seed)
        for part in (1, 2):
            source, target = (np.isin(side, side[parts < part]) for side in sentences.T)
            parts[(parts == part) & (source | target)] = len(PARTS)
    *counts, known = np.bincount(parts, minlength=len(PARTS) + 1)
    if not all(counts):
        listing = ", ".join(f"{part} {count}" for part, count in zip(PARTS, counts))
        raise InputError(
            f"{names}: {kept} pairs are too few to split ({listing}; equal sentences stay in one part); "
            "give more text, or other sizes by --split DEV,TEST"
        )
    out.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        outputs = [stack.enter_context(open_output(path)) for path in paths]
        for part, pair in zip(parts, clean(read_corpus(data, languages), Counter())):
            for output, sentence in zip(outputs[2 * part :], pair):
                output.write(f"{sentence}\n".encode())
    listing = ", ".join(f"{part} {count:,}" for part, count in zip(PARTS, counts))
    listing += f", left out {known:,} (whole files are drawn; a sentence is in one part)" if whole else ""
    print(f"split {kept:,} pairs (seed {seed}): {listing} -> {out}", flush=True)
