"""Join subwords of BPE or sentencepiece to words."""

from collections.abc import Sequence

from rnnsearch_fairseq.text.lines import BPE_MARK

END = "</s>"
WORD_MARK = "▁"  # sentencepiece writes it at the beginning of a word


def merge_pieces(pieces: Sequence[str]) -> tuple[list[str], list[int]]:
    """Join pieces of BPE (``hel@@ lo``) or sentencepiece (``▁hel lo``) to words; end-of-sentence is a word.

    Returns:
        The words, and for each piece the index of its word.
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
