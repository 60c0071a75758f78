"""Join the pieces of BPE or sentencepiece to words, and the weights between pieces to weights between words."""

import numpy as np

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.text.lines import BPE_MARK
from rnnsearch_fairseq.text.scores import AlignedPair

WORD_MARK = "▁"  # sentencepiece's, at the start of a piece that starts a word


def words_of(pieces: list[str]) -> tuple[list[str], list[int]]:
    """Join pieces of BPE (``hel@@ lo``) or sentencepiece (``▁hel lo``) to words, and say which word each went into."""
    words: list[str] = []
    owner = []
    if any(piece.startswith(WORD_MARK) for piece in pieces):
        for piece in pieces:
            if piece.startswith(WORD_MARK) or not words:
                words.append("")
            words[-1] += piece.removeprefix(WORD_MARK)
            owner.append(len(words) - 1)
        return words, owner
    continues = False
    for piece in pieces:
        if continues:
            words[-1] += piece.removesuffix(BPE_MARK)
        else:
            words.append(piece.removesuffix(BPE_MARK))
        owner.append(len(words) - 1)
        continues = piece.endswith(BPE_MARK)
    return words, owner


def join_pieces(line: str) -> str:
    """The words of a line of pieces."""
    return " ".join(words_of(line.split())[0])


def word_alignment(pair: AlignedPair) -> tuple[list[str], list[str], np.ndarray]:
    """Source words, target words, and the weights between them, ``(target words, source words)``.

    End-of-sentence is the last of both. The weights of a source word's pieces are added (they share one unit of
    attention); those of a target word's are averaged (each has a unit of its own). So every row still sums to one.

    Raises:
        InputError: the pair has no alignment, or one of another size.
    """
    if pair.weights is None:
        raise InputError(f"sentence {pair.number} has no alignment; give what rnnsearch score wrote")
    (source, source_owner), (target, target_owner) = map(_words_and_end, (pair.source, pair.target))
    expected = (len(target_owner), len(source_owner))
    if pair.weights.shape != expected:
        raise InputError(
            f"sentence {pair.number}: its alignment is {tuple(pair.weights.shape)}, its words say {expected}; "
            "give what rnnsearch score wrote, or fairseq-generate without --tokenizer, --bpe and --post-process"
        )
    by_word = np.zeros((len(target), len(source)))
    np.add.at(by_word, (np.array(target_owner)[:, None], np.array(source_owner)[None]), pair.weights.numpy())
    return source, target, by_word / np.bincount(target_owner)[:, None]


def _words_and_end(pieces: list[str]) -> tuple[list[str], list[int]]:
    """:func:`words_of` of all but the last piece, end-of-sentence, which stays a word of its own."""
    words, owner = words_of(pieces[:-1])
    return [*words, pieces[-1]], [*owner, len(words)]
