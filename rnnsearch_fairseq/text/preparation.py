"""How text of a language is prepared, so that typed text can be prepared as the training text was.

On disk it is ``preparation.json``, an object that maps each language to its options, and beside it ``bpe.codes``
(subword-nmt's merges) or ``sentencepiece.model``. A language that does not share them has ``bpe.en.codes`` or
``sentencepiece.en.model``. ``rnnsearch prepare`` writes these files; for text that other programs prepared, write them
by hand: ``{"en": {"tokenizer": "moses", "lowercase": true, "subwords": "bpe"}, "ja": {}}``. A training looks for them
in its data folder and then in the folder above, and keeps what they hold in its checkpoints.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from rnnsearch_fairseq.errors import InputError, in_short
from rnnsearch_fairseq.output import open_output
from rnnsearch_fairseq.text.lines import open_bytes

RECORD = "preparation.json"
SUBWORDS = {"bpe": "bpe.codes", "sentencepiece": "sentencepiece.model"}  # the file of each kind
CURE = "write it with rnnsearch prepare"


@dataclass(frozen=True)
class Preparation:
    """How text of one language is prepared: split by the tokenizer, then lowercased, then split into subwords.

    Attributes:
        tokenizer: "moses", or None: the text is already words with blanks between, or sentencepiece splits it.
        moses_no_escape: the tokenizer leaves & | < > ' " [ ] as they are.
        moses_no_dash_splits: the tokenizer leaves words with hyphens whole.
        markup: symbols stand for markup (:mod:`~rnnsearch_fairseq.text.markup`) while the model translates.
        bpe: the text of subword-nmt's file of merges.
        sentencepiece: the content of sentencepiece's file of a model.
    """

    tokenizer: str | None = None
    moses_no_escape: bool = False
    moses_no_dash_splits: bool = False
    lowercase: bool = False
    markup: bool = False
    bpe: str | None = field(default=None, repr=False)
    sentencepiece: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.tokenizer not in (None, "moses"):
            raise ValueError("the tokenizer is moses or null")

    @property
    def subwords(self) -> str | None:
        """The kind of subwords: "bpe", "sentencepiece" or None."""
        return next((kind for kind in SUBWORDS if getattr(self, kind) is not None), None)

    def options(self) -> dict[str, Any]:
        """The entry of a record: plain values for JSON, with the kind of subwords in place of their files' contents."""
        values = {name: value for name, value in asdict(self).items() if name not in SUBWORDS}
        return {**values, "subwords": self.subwords}


# Moses tokens without escapes, and with hyphens inside words.
PLAIN_MOSES = Preparation("moses", moses_no_escape=True, moses_no_dash_splits=True)


def write_preparations(folder: Path, preparations: Mapping[str, Preparation]) -> None:
    """Write ``FOLDER/preparation.json`` and the files of subwords, in place of older ones."""
    write_subwords(folder, preparations)
    record = {language: one.options() for language, one in preparations.items()}
    with open_output(folder / RECORD) as out:
        out.write(f"{json.dumps(record, indent=2, ensure_ascii=False)}\n".encode())


def write_subwords(folder: Path, preparations: Mapping[str, Preparation]) -> None:
    """Write the files of subwords that :func:`read_preparation` reads; older ones are removed."""
    for kind, name in SUBWORDS.items():
        contents = {language: content for language, one in preparations.items() if (content := getattr(one, kind))}
        shared = len(set(contents.values())) == 1
        for path in (folder / name, *(_separate_file(folder, name, language) for language in preparations)):
            path.unlink(missing_ok=True)
        for language, content in contents.items():
            with open_output(folder / name if shared else _separate_file(folder, name, language)) as out:
                out.write(content.encode() if isinstance(content, str) else content)


def read_preparations(folder: Path) -> dict[str, Preparation] | None:
    """Read the preparation of each language from ``FOLDER/preparation.json``; None if there is no such file."""
    path = folder / RECORD
    if not os.path.lexists(path):
        return None
    try:
        with open_bytes(path) as file:
            record = json.load(file).items()
    except (json.JSONDecodeError, UnicodeDecodeError, AttributeError) as error:
        raise InputError(f"{path}: not a record of a preparation ({in_short(error)}); {CURE}") from error
    return {language: read_preparation(options, language, folder, str(path)) for language, options in record}


def read_preparation(options: Any, language: str, folder: Path, where: str) -> Preparation:
    """Read a preparation whose ``options`` are an entry of a record, and its subwords from ``folder``.

    Raises:
        InputError: an option, in the file ``where``, is unknown or has a wrong value, or the subwords are missing.
    """
    try:
        kind = options.get("subwords")
        preparation = Preparation(**{name: value for name, value in options.items() if name != "subwords"})
        if kind is None:
            return preparation
        separate, shared = _separate_file(folder, SUBWORDS[kind], language), folder / SUBWORDS[kind]
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise InputError(f"{where}: options of {in_short(language)!r} are wrong ({in_short(error)}); {CURE}") from error
    path = separate if os.path.exists(separate) else shared
    with open_bytes(path) as file:
        content = file.read()
    try:
        return replace(preparation, **{kind: content.decode() if kind == "bpe" else content})
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8; give the file that split the training text") from error


def find_preparations(data: Path, languages: Sequence[str]) -> list[Preparation] | None:
    """The preparations of these languages, from the folder of the binarized text or the folder above it, or None."""
    for folder in (data, data.absolute().parent):
        if (preparations := read_preparations(folder)) is None:
            continue
        if missing := [language for language in languages if language not in preparations]:
            raise InputError(f"{folder / RECORD}: does not say how the text in {missing[0]} was prepared; {CURE}")
        return [preparations[language] for language in languages]
    return None


def _separate_file(folder: Path, name: str, language: str) -> Path:
    """``bpe.en.codes`` for ``bpe.codes``."""
    stem, _, ending = name.partition(".")
    return folder / f"{stem}.{language}.{ending}"
