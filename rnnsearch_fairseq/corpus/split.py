"""Split a corpus into training, development and test sets, without the pairs that cannot be translations.

Text is streamed. Memory is needed for hashes of the sentences and for groups of pairs: about 100 bytes a pair.
"""

import hashlib
import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from rnnsearch_fairseq.corpus.pairs import Pair, list_files, read_corpus, read_files
from rnnsearch_fairseq.documents.formats import MAX_UNIT_WORDS, is_document
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.output import open_output
from rnnsearch_fairseq.text.lines import unescaped
from rnnsearch_fairseq.text.markup import SPAN
from rnnsearch_fairseq.text.scripts import count_words

PARTS = ("train", "valid", "test")
MANY_FILES = 20  # from so many on, whole files are drawn for the development and test sets
SAMPLE = 1000  # pairs that are examined
MARKUP_SHARE = 0.02  # of these with markup, from which on there is enough to learn from
MOST_RATIO = 9  # the default of the Moses script clean-corpus-n.perl
CONTROL = re.compile("[\0-\x08\x0e-\x1b\x7f]")
TAG = re.compile(
    r"</?(?:(?P<inline>a|abbr|b|big|cite|code|del|em|font|i|ins|kbd|mark|q|s|small|span|strike|strong|sub|sup|tt|u|var)|"
    r"blockquote|br|center|div|h[1-6]|hr|img|li|ol|p|pre|table|tbody|td|th|thead|tr|ul)(?:\s[^<>]*)?/?>",
    re.IGNORECASE,
)


def clean(
    pairs: Iterable[Pair], dropped: Counter[str], changed: Counter[str], keep: Collection[str] = ()
) -> Iterator[Pair]:
    """Yield the pairs that may be translations, cleaned, and count the others and changed sentences by reason.

    A character of a script without blanks counts as half a word. For ``keep``, see `split_corpus`.
    """
    for pair in pairs:
        source, target = (_clean_sentence(side, changed, "markup" in keep) for side in pair)
        short, long = sorted((count_words(source), count_words(target)))
        if not short:
            dropped["without a sentence on a side"] += 1
        elif long > MAX_UNIT_WORDS:
            dropped[f"of more than {MAX_UNIT_WORDS} words on a side"] += 1
        elif long > MOST_RATIO * short:
            dropped[f"with over {MOST_RATIO} times as many words on one side as on the other"] += 1
        elif source == target and "equal" not in keep:
            dropped["with equal sides"] += 1
        else:
            yield source, target


def _clean_sentence(text: str, changed: Counter[str], keep_markup: bool) -> str:
    text = text.replace("\ufeff", "")  # the byte order mark of some editors
    clean = CONTROL.sub("", text)
    changed["with control characters"] += clean != text
    if not keep_markup:
        tagless = TAG.sub(lambda tag: "" if tag["inline"] else " ", clean)
        changed["with tags"] += tagless != clean
        clean = unescaped(tagless)
        changed["with entities"] += clean != tagless
    return " ".join(clean.split())


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
    data: Sequence[Path],
    languages: Pair,
    out: Path,
    sizes: tuple[int, int] | None = None,
    seed: int = 1,
    keep: Collection[str] = (),
) -> None:
    """Clean a corpus (`read_corpus`), and write its parts to ``OUT/{train,valid,test}.LANGUAGE`` in the given order.

    Equal sentences are in one part, whatever their translations are, so a development or test set may be somewhat
    smaller than asked. Of 20 files or more, whole files are drawn. A development pair is then left out if one of its
    sentences is in the training set, and a test pair if one is in either of the others.

    Args:
        sizes: pairs of the development and of the test set; None: 1,000 each, or a 20th of the corpus if that is less.
        seed: of the random choice.
        keep: what would else go: "markup", tags and entities; "equal", pairs with equal sides; "duplicates", pairs that
            came before, without regard to case.

    Raises:
        InputError: the corpus is refused by `read_corpus`, or has too few pairs.
    """
    names = " ".join(map(str, data))
    keep = {*keep, *(["markup"] if _is_documentation(data, languages) else [])}
    dropped, changed = Counter(), Counter()
    hashes, files = array("Q"), array("Q")
    for number, pairs in enumerate(read_files(data, languages, dropped)):
        for pair in clean(pairs, dropped, changed, keep):
            hashes.extend(map(hash_sentence, pair))
            files.append(number)
    sentences = np.array(hashes, np.uint64).reshape(-1, 2)
    first = np.unique(sentences, axis=0, return_index=True)[1]
    chosen = np.arange(len(files)) if "duplicates" in keep else np.sort(first)
    kept = len(chosen)
    dropped["that came before"] = len(files) - kept
    total = dropped.total()
    print(f"read {kept + total:,} pairs of {names}; dropped {total:,}{_reasons(dropped)}")
    if changed.total():
        print(f"cleaned sentences{_reasons(changed)} (--keep markup leaves tags and entities)")
    sentences, sources_of = sentences[chosen], np.array(files)[chosen]
    parts, whole = np.zeros(0, np.int8), len(set(files)) >= MANY_FILES
    if kept:
        sizes = sizes or (min(1000, kept // 20),) * 2
        parts = choose(sources_of if whole else group(sentences), sizes, seed)
        for part in (1, 2):
            source, target = (np.isin(side, side[parts < part]) for side in sentences.T)
            parts[(parts == part) & (source | target)] = len(PARTS)
    *counts, known = np.bincount(parts, minlength=len(PARTS) + 1)
    listing = ", ".join(f"{part} {count:,}" for part, count in zip(PARTS, counts))
    if not all(counts):
        raise InputError(
            f"{names}: {kept} pairs are too few to split ({listing}; equal sentences stay in one part); "
            "give more text, or other sizes by --split DEV,TEST"
        )
    part_of_pair = np.full(len(files), len(PARTS), np.int8)
    part_of_pair[chosen] = parts
    out.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        paths = (out / f"{part}.{language}" for part in PARTS for language in languages)
        outputs = [stack.enter_context(open_output(path)) for path in paths]
        for part, pair in zip(part_of_pair, clean(read_corpus(data, languages), Counter(), Counter(), keep)):
            for output, sentence in zip(outputs[2 * part :], pair):
                output.write(f"{sentence}\n".encode())
    listing += f", left out {known:,} (whole files are drawn; a sentence is in one part)" if whole else ""
    print(f"split {kept:,} pairs (seed {seed}): {listing}", flush=True)


def _is_documentation(data: Sequence[Path], languages: Pair) -> bool:
    """Whether a text is of documentation or messages of programs, with markup that its translation must keep."""
    pairs = [*islice(read_corpus(data, languages), SAMPLE)]
    # Tags, URLs and entities are in text of the web, too.
    marked = (any(span[0] not in "<&hf" for span in SPAN.findall(" ".join(pair))) for pair in pairs)
    return any(map(is_document, list_files(data))) or sum(marked) > MARKUP_SHARE * len(pairs)


def _reasons(counts: Counter[str]) -> str:
    return ": " * bool(counts.total()) + ", ".join(f"{count:,} {reason}" for reason, count in counts.items() if count)
