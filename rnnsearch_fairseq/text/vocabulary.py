"""The vocabulary of one language: its symbols and their ids, in the format of fairseq's dict.txt."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from rnnsearch_fairseq.errors import InputError, quote
from rnnsearch_fairseq.modules.symbols import EOS, UNK
from rnnsearch_fairseq.output import open_output
from rnnsearch_fairseq.text.lines import read_lines

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")  # in the order of BOS, PAD, EOS, UNK
LINE = re.compile(r"(.+) [+-]?[0-9]{1,18}( #fairseq:overwrite)?")
MAX_SYMBOL = 1_000  # characters
SURROGATE = re.compile("[\ud800-\udfff]")


class Vocabulary:
    """Symbols in the order of their ids; the first four are :data:`SPECIAL`."""

    def __init__(self, symbols: Sequence[str], where: str = "the vocabulary") -> None:
        if tuple(symbols[: len(SPECIAL)]) != SPECIAL:
            raise InputError(f"{where}: does not begin with {' '.join(SPECIAL)}; export or train the model again")
        for symbol in symbols:  # one of these would break a line of a translation, or could not be written
            if symbol.splitlines() != [symbol] or len(symbol) > MAX_SYMBOL or SURROGATE.search(symbol):
                fault = "is empty or too long, or holds a line end or half of a character"
                raise InputError(f"{where}: {quote(repr(symbol))} {fault}; train the model again without it")
        self.symbols = list(symbols)
        self._ids = {symbol: number for number, symbol in enumerate(symbols) if number >= len(SPECIAL)}

    @classmethod
    def read(cls, path: Path) -> "Vocabulary":
        """Read fairseq-preprocess's ``dict.LANGUAGE.txt``, whose lines are a word and its count."""
        symbols = [*SPECIAL]
        known = {*symbols}
        for number, line in enumerate(read_lines(path), 1):
            match = LINE.fullmatch(line.rstrip())
            if match is None:
                raise InputError(f"{path}, line {number}: not a word and its count; give what fairseq-preprocess wrote")
            word, overwrites = match.groups()
            if word in known and not overwrites:
                raise InputError(f"{path}, line {number}: {quote(repr(word))} stands here again; delete the line")
            known.add(word)
            symbols.append(word)
        return cls(symbols, str(path))

    def write(self, path: Path) -> None:
        """Write a file for :meth:`read` and for fairseq; all counts are 1."""
        with open_output(path) as out:
            for symbol in self.symbols[len(SPECIAL) :]:  # a word may be spelt as one of fairseq's symbols
                out.write(f"{symbol} 1{' #fairseq:overwrite' * (symbol in SPECIAL)}\n".encode())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.symbols == other.symbols

    def __len__(self) -> int:
        return len(self.symbols)

    def __contains__(self, word: str) -> bool:
        """Whether the word has an id of its own. In text, ``<s>``, ``<pad>``, ``</s>`` and ``<unk>`` are unknown."""
        return word in self._ids

    def encode(self, words: Iterable[str]) -> Tensor:
        """The ids of words and of end-of-sentence: int64, ``(words + 1,)``. An unknown word has the id of ``<unk>``."""
        return torch.tensor([*(self._ids.get(word, UNK) for word in words), EOS])

    def words(self, ids: Iterable[int]) -> list[str]:
        """The symbols of ids."""
        return [self.symbols[number] for number in ids]
