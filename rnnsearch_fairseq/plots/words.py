"""Join the pieces of BPE or sentencepiece to words, and the weights between pieces to weights between words."""

import numpy as np

from rnnsearch_fairseq.text.lines import BPE_MARK
from rnnsearch_fairseq.text.scores import END, AlignedPair

WORD_MARK = "▁"  # sentencepiece's, at the start of a piece that starts a word


def words_of(pieces: list[str]) -> tuple[list[str], list[int]]:
    """Join pieces of BPE (``hel@@ lo``) or sentencepiece (``▁hel lo``) to words, and say which word each went into.

    End-of-sentence is a word of its own.
    """
    words: list[str] = []
    owner = []
    is_sentencepiece = any(piece.startswith(WORD_MARK) for piece in pieces)
    for piece, before in zip(pieces, ["", *pieces]):
        begins = piece.startswith(WORD_MARK) if is_sentencepiece else not before.endswith(BPE_MARK)
        if begins or not words or piece == END:
            words.append("")
        words[-1] += piece.removeprefix(WORD_MARK) if is_sentencepiece else piece.removesuffix(BPE_MARK)
        owner.append(len(words) - 1)
    return words, owner


def word_alignment(pair: AlignedPair) -> tuple[list[str], list[str], np.ndarray]:
    """Source words, target words, and the weights between them, ``(target words, source words)``.

    End-of-sentence is the last of both. The weights of a source word's pieces are added (they share one unit of
    attention); those of a target word's are averaged (each has a unit of its own). So every row still sums to one.
    """
    (source, source_owner), (target, target_owner) = map(words_of, (pair.source, pair.target))
    by_word = np.zeros((len(target), len(source)))
    np.add.at(by_word, (np.array(target_owner)[:, None], np.array(source_owner)[None]), pair.weights.numpy())
    return source, target, by_word / np.bincount(target_owner)[:, None]
