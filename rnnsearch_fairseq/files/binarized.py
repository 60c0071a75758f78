"""Check the files of `fairseq-preprocess`, which are untrusted, before fairseq maps them into memory.

fairseq trusts the sizes and offsets in an index and looks up every number that it finds, so a damaged file would stop
training in the middle of an epoch. These checks read all numbers once.
"""

import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.files.integrity import open_regular
from rnnsearch_fairseq.text.lines import check_line

CURE = "write it again with fairseq-preprocess"
AT_A_TIME = 1 << 22  # numbers checked together
# The integer types among the type codes of fairseq/data/indexed_dataset.py.
TYPES = {
    **{1: np.uint8, 2: np.int8, 3: np.int16, 4: np.int32},
    **{5: np.int64, 8: np.uint16, 9: np.uint32, 10: np.uint64},
}
OVERWRITE = "#fairseq:overwrite"  # in a dictionary file: this word replaces fairseq's symbol of the same spelling
SYMBOLS = ("<s>", "<pad>", "</s>", "<unk>")


class _Index(NamedTuple):
    """An index: the type of the numbers and, for each sentence, its length and its offset, both in numbers."""

    dtype: np.dtype
    sizes: np.ndarray
    starts: np.ndarray


def check_dictionary(path: Path) -> None:
    """Check a dictionary file: each line holds a word and its count, and no word stands twice.

    Raises:
        InputError: a line has another form or repeats a word.
        OSError: the file cannot be read, or is no regular file.
    """
    words = set(SYMBOLS)
    with open_regular(path) as lines:
        for number, line in enumerate(lines, 1):
            word, space, count = check_line(path, number, line).rstrip().rpartition(" ")
            replaces = count == OVERWRITE
            if replaces:
                word, space, count = word.rpartition(" ")
            try:
                int(count if space else "")
                wrong = "a repeated word" if word in words and not replaces else None
            except ValueError:
                wrong = "not a word and a number"
            if wrong is not None:
                raise InputError(f"{path}, line {number}: {wrong}; give the dictionary that fairseq-preprocess wrote")
            words.add(word)


def check_indexed(prefix: str, words: int | None, legacy: bool) -> None:
    """Check the data in ``PREFIX.idx`` and ``PREFIX.bin``.

    Args:
        words: the size of the dictionary; None if the numbers are not words.
        legacy: the format of ``--dataset-impl lazy`` and ``cached`` instead of ``mmap``.

    Raises:
        InputError: the two files do not match or are damaged, or a number is not in the dictionary.
        OSError: one cannot be read.
    """
    index_path, path = Path(f"{prefix}.idx"), Path(f"{prefix}.bin")
    content = np.memmap(index_path, mode="r") if index_path.stat().st_size else np.zeros(0, np.uint8)
    try:
        index = (_read_legacy_index if legacy else _read_index)(content)
    except (ValueError, KeyError, struct.error):
        raise InputError(f"{index_path}: not an index of binarized data, or damaged; {CURE}") from None
    whole = path.stat().st_size
    if len(index.sizes) == 0 or whole == 0:
        raise InputError(f"{path}: holds no sentence; {CURE}")
    # Each sentence has at least its end-of-sentence. No size may exceed the file's, or the sum could overflow.
    least = 0 if words is None else 1
    starts = np.cumsum(index.sizes, dtype=np.int64) - index.sizes
    end = int(starts[-1] + index.sizes[-1])
    in_range = least <= index.sizes.min() and index.sizes.max() <= whole
    if not in_range or not np.array_equal(index.starts, starts) or whole != end * index.dtype.itemsize:
        raise InputError(f"{index_path}: does not say where the sentences in {path} are; {CURE}")
    if words is None:
        return
    first = int(legacy)  # Lua counts from 1
    numbers = np.memmap(path, index.dtype, mode="r")
    for start in range(0, len(numbers), AT_A_TIME):
        some = numbers[start : start + AT_A_TIME]
        for number in (int(some.min()) - first, int(some.max()) - first):
            if not 0 <= number < words:
                raise InputError(
                    f"{path}: holds the number {number}, and its dictionary has {words:,} words, from 0; give the "
                    "dictionary that was written with it"
                )


def _read_index(content: np.ndarray) -> _Index:
    magic, version, code, sentences = struct.unpack("<9sQBQ", content[:26].tobytes())
    if magic != b"MMIDIDX\0\0" or version != 1 or len(content) != 26 + 12 * sentences:
        raise ValueError
    dtype = np.dtype(TYPES[code])
    sizes, starts = content[26 : 26 + 4 * sentences].view(np.int32), content[26 + 4 * sentences :].view(np.int64)
    if (starts % dtype.itemsize).any():
        raise ValueError
    return _Index(dtype, sizes, starts // dtype.itemsize)


def _read_legacy_index(content: np.ndarray) -> _Index:
    magic, version, code, width, sentences, axes = struct.unpack("<8sQQQQQ", content[:48].tobytes())
    dtype = np.dtype(TYPES[code])
    known = magic == b"TNTIDX\0\0" and version == 1 and width == dtype.itemsize and axes == sentences
    if not known or len(content) != 48 + 8 * (3 * sentences + 2):
        raise ValueError
    numbers = content[48:].view(np.int64)
    of_axes, starts, sizes = np.split(numbers, [sentences + 1, 2 * sentences + 2])
    # Each sentence has one axis; the last offset is the end of the data.
    if not np.array_equal(of_axes, np.arange(sentences + 1)) or starts[-1] != sizes.sum():
        raise ValueError
    return _Index(dtype, sizes, starts[:-1])
