"""Convert text to the words or subwords that a model reads, and back."""

import contextlib
import io
import re
from collections.abc import Callable, Sequence
from functools import partial

from rnnsearch_fairseq.errors import InputError, quote
from rnnsearch_fairseq.text.preparation import Preparation
from rnnsearch_fairseq.text.vocabulary import Vocabulary

BPE_MARK = "@@"  # subword-nmt writes it at the end of a piece if the next piece continues the word
WORD_MARK = "▁"  # sentencepiece writes it at the beginning of a word
END = "</s>"
INVISIBLE = re.compile("[\ufeff\u00ad]")  # byte order marks and soft hyphens


class TextCodec:
    """Converts text of one language with sacremoses, subword-nmt and sentencepiece.

    With a vocabulary, a word is read in lower case if the vocabulary has all subwords only of its lower-case form.
    """

    def __init__(self, preparation: Preparation, language: str, vocabulary: Vocabulary | None = None) -> None:
        self.preparation = preparation
        self.vocabulary = vocabulary
        self._tokenize, self._detokenize = _moses(preparation, language)
        try:
            self._split, self._join = _subwords(preparation)
        except (Exception, SystemExit) as error:  # subword-nmt exits at a damaged line
            raise InputError(
                f"the {preparation.subwords} of {language!r} cannot split words ({quote(error)}); "
                "give the file that split the training text"
            ) from error

    def encode(self, text: str, cut: int = 0) -> list[str]:
        """The words or subwords of a text; ``cut``: the number of sentencepiece's segmentation, the likeliest is 0."""
        text = self._tokenize(" ".join(INVISIBLE.sub("", text).split()))
        if self.preparation.lowercase:
            text = text.lower()
        words = self._split(text, cut)
        return words if self._knows(words) else self._split(" ".join(map(self._as_known, text.split())))

    def decode(self, words: Sequence[str]) -> str:
        """The text of words or subwords."""
        return self._detokenize(self._join(words))

    def _knows(self, words: Sequence[str]) -> bool:
        return self.vocabulary is None or all(word in self.vocabulary for word in words)

    def _as_known(self, word: str) -> str:
        lower = word.lower()
        known_in_lower_case = not self._knows(self._split(word)) and self._knows(self._split(lower))
        return lower if known_in_lower_case else word


def _moses(preparation: Preparation, language: str) -> tuple[Callable[[str], str], Callable[[list[str]], str]]:
    """Functions that tokenize text, and make text of tokens."""
    if preparation.tokenizer is None:
        return str, " ".join
    from sacremoses import MosesDetokenizer, MosesTokenizer

    moses = MosesTokenizer(language)
    moses.islower = frozenset(moses.IsLower).issuperset  # sacremoses makes this set anew at each word that ends in "."
    tokenize = partial(
        moses.tokenize,
        aggressive_dash_splits=not preparation.moses_no_dash_splits,
        escape=not preparation.moses_no_escape,
        return_str=True,
    )
    return tokenize, MosesDetokenizer(language).detokenize


def _subwords(preparation: Preparation) -> tuple[Callable[..., list[str]], Callable[[Sequence[str]], list[str]]]:
    """Functions that split text into subwords, and join subwords to words; any exception means damage."""
    if preparation.bpe is not None:
        from subword_nmt.apply_bpe import BPE

        with contextlib.redirect_stderr(io.StringIO()):  # subword-nmt prints what it refuses as it stands
            bpe = BPE(io.StringIO(preparation.bpe, newline="\n"), separator=BPE_MARK)

        def split(text: str, cut: int = 0) -> list[str]:
            return bpe.segment(" ".join(text.split())).split()

        return split, lambda words: f"{' '.join(words)} ".replace(f"{BPE_MARK} ", "").split()
    if preparation.sentencepiece is not None:
        from sentencepiece import SentencePieceProcessor

        processor = SentencePieceProcessor(model_proto=preparation.sentencepiece)

        def encode(text: str, cut: int = 0) -> list[str]:
            try:
                pieces = processor.nbest_encode(text, nbest_size=cut + 1, out_type=str)[-1] if cut else None
                return " ".join(pieces or processor.encode(text, out_type=str)).split()
            except (UnicodeError, RuntimeError) as error:  # half of a character, or damage that shows only now
                raise InputError(f"sentencepiece cannot split the text ({quote(error)}); mend the text") from error

        return encode, lambda words: "".join(words).replace(WORD_MARK, " ").split()
    return lambda text, cut=0: text.split(), list


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
