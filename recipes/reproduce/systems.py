"""A test set and systems' translations of it, from outputs of ``fairseq-generate`` or plain text."""

import re
from argparse import ArgumentParser
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from pathlib import Path

from recipes.reproduce.bleu import AS_THEY_ARE
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.plots.command import NamedFiles
from rnnsearch_fairseq.plots.words import join_pieces, words_of
from rnnsearch_fairseq.text.generated import generated_in_order
from rnnsearch_fairseq.text.lines import read_parallel

TRANSLATION = re.compile(rb"^H-\d+\t", re.MULTILINE)
Translations = Mapping[str, Sequence[str]]  # by the system's name


@dataclass(frozen=True)
class TestSet:
    """Sentences and their reference translations, each a line of tokens, in pieces where the models read pieces."""

    __test__ = False  # pytest would collect it

    source: Sequence[str]
    reference: Sequence[str]

    def __len__(self) -> int:
        return len(self.source)

    @cached_property
    def reference_words(self) -> list[str]:
        """The references, their pieces joined."""
        return [join_pieces(line) for line in self.reference]

    @cached_property
    def lengths(self) -> list[int]:
        """The words of each source, with punctuation and without end-of-sentence; an empty source counts as one."""
        return [max(1, len(words_of(line.split())[0])) for line in self.source]

    def of_length(self, least: int, most: float = inf) -> list[int]:
        """The numbers of the sentences of ``least`` to ``most`` source words."""
        return [number for number, length in enumerate(self.lengths) if least <= length <= most]


def is_generate_output(path: Path) -> bool:
    """Whether ``fairseq-generate`` printed the file; if not, it has one translation a line."""
    try:
        return TRANSLATION.search(path.read_bytes()) is not None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path") from error


def read_system(path: Path, tokenize: str = AS_THEY_ARE) -> list[str]:
    """A system's translations, in the order of the test set, pieces joined to words.

    From an output of ``fairseq-generate`` tokens are taken from its lines H, text to tokenise from its lines D, which
    --tokenizer and --bpe have detokenised.

    Raises:
        InputError: the file is bad.
    """
    if not is_generate_output(path):
        return [join_pieces(line) if tokenize == AS_THEY_ARE else line for line in read_parallel(path)[0]]
    pairs = generated_in_order(path)
    if tokenize == AS_THEY_ARE:
        return [" ".join(words_of(pair.target[:-1])[0]) for pair in pairs]
    return [pair.detokenised for pair in pairs]


def add_test_set(parser: ArgumentParser) -> None:
    """The options that :func:`read_test_set` needs."""
    parser.add_argument("--source", type=Path, metavar="FILE", help="test set, one sentence a line; see above")
    parser.add_argument("--reference", type=Path, metavar="FILE", help="its reference translations, line by line")


def add_systems(parser: ArgumentParser, name: str, nargs: str, what: str) -> None:
    """An argument or option of words NAME=FILE."""
    parser.add_argument(name, action=NamedFiles, nargs=nargs, default={}, metavar="NAME=FILE", help=what)


def read_test_set(source: Path | None, reference: Path | None, systems: Iterable[Path]) -> TestSet:
    """The test set, from two files or, without them, from the first output of ``fairseq-generate``, which repeats it.

    Raises:
        InputError: a file is bad, only one is given, or there is no such output.
    """
    if source is not None and reference is not None:
        return TestSet(*read_parallel(source, reference))
    if source is not None or reference is not None:
        raise InputError("--source and --reference belong together; give both or neither")
    path = next(filter(is_generate_output, systems), None)
    if path is None:
        raise InputError("no output of fairseq-generate, which would tell the test set; give --source and --reference")
    pairs = generated_in_order(path)
    without = next((pair.number for pair in pairs if pair.reference is None), None)
    if without is not None:
        raise InputError(f"{path}: sentence {without} has no reference (T-{without}); give --source and --reference")
    references = [" ".join(pair.reference or []) for pair in pairs]
    return TestSet([" ".join(pair.source[:-1]) for pair in pairs], references)


def check_size(path: Path, translations: Sequence[str], test: TestSet) -> None:
    """Check that there is one translation for each sentence.

    Raises:
        InputError: there is not.
    """
    if len(translations) != len(test):
        raise InputError(
            f"{path}: {len(translations)} translations, but the test set has {len(test)} sentences; "
            "give those of the same test set"
        )


def read_systems(named: Mapping[str, Path], test: TestSet, tokenize: str = AS_THEY_ARE) -> dict[str, list[str]]:
    """The translations of each system.

    Raises:
        InputError: a file is bad, or not of this test set.
    """
    systems = {}
    for name, path in named.items():
        systems[name] = read_system(path, tokenize)
        check_size(path, systems[name], test)
    return systems
