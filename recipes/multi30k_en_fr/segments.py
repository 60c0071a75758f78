"""How much attention stays inside the right caption, on passages of several captions."""

import itertools
import re
from pathlib import Path

import numpy as np

from recipes.reproduce.alignment_error import in_parallel
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.text.lines import read_parallel

ITEM = re.compile(r"([1-9][0-9]{0,8})-([1-9][0-9]{0,8})")
Captions = list[tuple[int, int]]  # source and target tokens of each, in order


def read_segments(path: Path) -> list[Captions]:
    """The captions of each line: ``12-13 9-10`` are two, of 12 and 9 source tokens, and of 13 and 10 target tokens.

    Raises:
        InputError: the file is bad.
    """
    captions = []
    for number, line in enumerate(read_parallel(path)[0], 1):
        items = [ITEM.fullmatch(item) for item in line.split()]
        if not items or None in items:
            raise InputError(
                f"{path}, line {number}: no captions; write SOURCE_WORDS-TARGET_WORDS of each, as 12-13 9-10"
            )
        captions.append([(int(item[1]), int(item[2])) for item in items])
    return captions


def attention_inside(path: Path, segments: list[Captions], segments_path: Path) -> tuple[float, float, int] | None:
    """The mean weight on the right caption, the mean if all weights were equal, and the number of target tokens.

    Means are over the target tokens of passages of two captions or more; None if there is no such passage.
    End-of-sentence is no token; the weight on it is outside of every caption, and equal weights have it, too.

    Raises:
        InputError: the file is bad, or the two are not of the same sentences.
    """
    inside, equal, tokens = 0.0, 0.0, 0
    for number, (pair, captions) in enumerate(in_parallel(path, segments, segments_path), 1):
        ends = np.cumsum([(0, 0), *captions], axis=0)
        words = (len(pair.source) - 1, len(pair.target) - 1)
        if tuple(ends[-1]) != words:
            raise InputError(
                f"{segments_path}, line {number}: {ends[-1][0]} source and {ends[-1][1]} target words, but {path} has "
                f"{words[0]} and {words[1]} there; give the segments of this text, counted in its tokens"
            )
        if len(captions) > 1:
            tokens += words[1]
            for (source, target), (source_end, target_end) in itertools.pairwise(ends):
                inside += pair.alignment[target:target_end, source:source_end].sum().item()
                equal += (target_end - target) * (source_end - source) / len(pair.source)
    return (inside / tokens, equal / tokens, tokens) if tokens else None
