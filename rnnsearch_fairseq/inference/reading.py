"""Text as a model reads it, and other ways to read it if the translation has a fault."""

import math
import re
from collections.abc import Collection
from typing import NamedTuple

from torch import Tensor

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference.aligned_pairs import AlignedPair
from rnnsearch_fairseq.modules.forest import Tree
from rnnsearch_fairseq.modules.symbols import UNK
from rnnsearch_fairseq.text.codec import TextCodec
from rnnsearch_fairseq.text.markup import LETTER
from rnnsearch_fairseq.text.piece import BEGINNING, NEW_WORD, TITLE_WORD, Piece
from rnnsearch_fairseq.text.preparation import WORD
from rnnsearch_fairseq.text.vocabulary import Vocabulary

NAME = re.compile(r"[A-Z][\w-]*")
MAX_SENTENCE_WORDS = 1_023  # in a sentence, or in a word that no blank divides


class Source(NamedTuple):
    """A sentence, or a piece of a text, as the model reads it.

    ``words`` are the model's, ``ids`` ``(S,)`` their ids with end-of-sentence, and ``tree`` is the parse or None.
    ``piece`` is the text; None: the user gave words, and a translation is words separated by spaces. ``in_capitals``:
    the text is in capitals. It is read in lower case, which needs fewer subwords, and its translation is written in
    capitals. ``counted`` is the same piece with numbers (``has_numbers``) in place of some placeholders.
    """

    words: list[str]
    ids: Tensor
    tree: Tree | None = None
    piece: Piece | None = None
    in_capitals: bool = False
    has_numbers: bool = False
    counted: "Source | None" = None


def check_length(words: list[str], where: str) -> list[str]:
    if len(words) > MAX_SENTENCE_WORDS:
        raise InputError(f"{where} has {len(words):,} words, and at most {MAX_SENTENCE_WORDS:,} are read; split it")
    return words


def find_lost_names(translation: AlignedPair) -> list[str]:
    """The names of the source for which the model wrote symbols of markup that the source lacks, by its attention."""
    if not translation.blocks or not any("⟦" in word and word not in translation.source for word in translation.target):
        return []
    source, target, weights = translation.by_word()
    places = [place for place, word in enumerate(target) if "⟦" in word and word not in source]
    words = (source[weights[place, : len(source) - 1].argmax()] for place in places)
    return [name[0] for name in map(NAME.search, words) if name]


class PieceReader:
    """Reads text for a model. ``words`` are the words of the training text in small letters. None: they are unknown."""

    def __init__(self, codec: TextCodec, vocabulary: Vocabulary, words: Collection[str] | None) -> None:
        self._codec, self._vocabulary, self._words = codec, vocabulary, words

    def read(self, piece: Piece, where: str = "the text", has_parse: bool = False, cut: int = 0) -> Source:
        """Split a piece into the model's words; ``cut``: the number of the segmentation, the likeliest one is 0.

        In a title, only the first word and names keep their capitals, unless a parse has the words as they are.
        """
        is_title = piece.is_title and not has_parse
        source = self._encode(self._without_capitals(piece.masked) if is_title else piece.masked, piece, where, cut)
        if piece.counted is None:
            return source
        return source._replace(counted=self._encode(piece.counted, piece, where, cut)._replace(has_numbers=True))

    def read_otherwise(self, source: Source, translation: AlignedPair) -> tuple[str, list[Source]]:
        """The first word that the translation keeps, if any, and other readings of the source.

        If there is such a word, one reading has it with a small letter. If the translation has a fault that another
        search may mend, one reading has other subwords, and one is the source itself, for a wider beam. If the
        likeliest translation has lost names, one reading keeps them.
        """
        if source.piece is None or source.tree is not None:
            return "", []
        may_be_mended = any(not fault.startswith(NEW_WORD) for fault in translation.faults)
        others = [self.read(source.piece, cut=1), source] if may_be_mended else []
        if translation.lost_names:
            others.append(self.read(source.piece.with_names(translation.lost_names)))
        if word := self._kept_first_word(source, translation.text):
            before, _, after = source.piece.masked.partition(word)
            text = before + word.lower() + after
            text = self._without_capitals(text) if source.piece.is_title else text
            others.insert(0, self._encode(text, source.piece, "the text", 0))
        return word, [other for other in others if other is source or other.words != source.words]

    def _kept_first_word(self, source: Source, translation: str) -> str:
        """The first word of a source, if the translation keeps it. It may have its capital only because it is the first
        word.

        With a small letter, the word has fewer pieces or, if it is the whole text, at most as many.
        """
        masked = source.piece.masked
        word = TITLE_WORD.match(masked, BEGINNING.match(masked).end(1))
        if source.in_capitals or not word or word[0] not in WORD.findall(translation):
            return ""
        small, large = self._count_pieces(word[0].lower()), self._count_pieces(word[0])
        return word[0] * (small < large or (small == large < math.inf and word[0] == masked))

    def _encode(self, text: str, piece: Piece, where: str, cut: int) -> Source:
        words = check_length(self._codec.encode(text, cut), where)
        lower = self._codec.encode(text.capitalize(), cut) if text.isupper() else words
        in_capitals = len(lower) < len(words)
        words = lower if in_capitals else words
        return Source(words, self._vocabulary.encode(words), None, piece, in_capitals)

    def _without_capitals(self, title: str) -> str:
        """A title in small letters, except for its first word and for names. A name is a word that has fewer pieces
        with a capital than without."""

        def lower(found: re.Match[str]) -> str:
            word, small = found[0], self._count_pieces(found[0].lower())
            is_common = small == 1 or small < self._count_pieces(word)
            return word.lower() if is_common and LETTER.search(title).start() < found.start() else word

        return TITLE_WORD.sub(lower, title)

    def _count_pieces(self, word: str) -> float:
        """How many pieces a word has; infinitely many if it is unknown."""
        pieces = self._codec.encode(word)
        is_unknown = self._words is not None and WORD.fullmatch(word) and word.lower() not in self._words
        return math.inf if is_unknown or UNK in self._vocabulary.encode(pieces).tolist() else len(pieces)
