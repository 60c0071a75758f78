"""Record how a corpus was prepared, so that typed text can be prepared in the same way.

``rnnsearch record FOLDER LANGUAGE [OPTIONS]``

writes how the text of one language was prepared to FOLDER/preparation.json, and keeps the entries of other languages.
The options are those of fairseq-interactive; without any, the text is already words with blanks between. FOLDER holds
the text that fairseq-preprocess will read, or a checkpoint without a record. ``rnnsearch prepare`` and the recipes
write the record themselves; fairseq-preprocess copies it to the binarized data, and fairseq-train copies it from there
to the checkpoints.

The file is a JSON object that maps each language to an object with the fields of :class:`Preparation`.
"""

import argparse
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from rnnsearch_fairseq.errors import InputError, in_short
from rnnsearch_fairseq.output import open_output

RECORD = "preparation.json"
CODES = "bpe.codes"
PIECES = "sentencepiece.model"
MOST_BYTES = 100_000  # of a record
FLAGS = ("moses_no_escape", "moses_no_dash_splits", "lowercase")
FILES = ("bpe_codes", "sentencepiece_model")


@dataclass(frozen=True)
class Preparation:
    """How text of one language is prepared: split by the tokenizer, then lowercased, then split into subwords.

    Attributes:
        tokenizer: "moses", or None: the text is already words with blanks between, or sentencepiece splits it.
        moses_no_escape: the tokenizer leaves & | < > ' " [ ] as they are.
        moses_no_dash_splits: the tokenizer leaves words with hyphens whole.
        lowercase: all of the text is in lower case.
        bpe_codes: the file of subword-nmt's merges, in the record's folder; None: whole words.
        sentencepiece_model: the file of sentencepiece's model, in the record's folder.
    """

    tokenizer: str | None = None
    moses_no_escape: bool = False
    moses_no_dash_splits: bool = False
    lowercase: bool = False
    bpe_codes: str | None = None
    sentencepiece_model: str | None = None

    @property
    def files(self) -> list[str]:
        """The names of the files that the record needs in its folder."""
        return [name for name in (self.bpe_codes, self.sentencepiece_model) if name is not None]

    def describe(self) -> str:
        """Describe the preparation in words, for a message."""
        words = "words with blanks between" if self.sentencepiece_model is None else "text"
        steps = [words if self.tokenizer is None else "tokens of the Moses tokenizer"]
        return ", ".join([*steps, *["in lower case"] * self.lowercase, *(f"split by {name}" for name in self.files)])

    def options(self, folder: Path) -> dict[str, Any]:
        """fairseq's options ``tokenizer`` and ``bpe``, and their own options; there is none for lower case."""
        options: dict[str, Any] = {}
        if self.tokenizer is not None:
            options |= {"tokenizer": self.tokenizer}
            options |= {name: getattr(self, name) for name in ("moses_no_escape", "moses_no_dash_splits")}
        if self.bpe_codes is not None:
            options |= {"bpe": "subword_nmt", "bpe_codes": str(folder / self.bpe_codes)}
        if self.sentencepiece_model is not None:
            options |= {"bpe": "sentencepiece", "sentencepiece_model": str(folder / self.sentencepiece_model)}
        return options


# Moses tokens without escapes, and with hyphens inside words.
PLAIN_MOSES = Preparation("moses", moses_no_escape=True, moses_no_dash_splits=True)


def write_record(folder: Path, record: Mapping[str, Preparation]) -> None:
    """Write ``FOLDER/preparation.json``, in place of any older one.

    Raises:
        InputError: it cannot be written.
    """
    text = json.dumps({language: asdict(one) for language, one in record.items()}, indent=2, ensure_ascii=False)
    with open_output(folder / RECORD) as out:
        out.write(f"{text}\n".encode())


def read_record(folder: Path) -> dict[str, Preparation] | None:
    """Read the preparation of each language from ``FOLDER/preparation.json``; None if there is no such file.

    Raises:
        InputError: the file is damaged, or names a file that is not a plain file in its folder.
    """
    path = folder / RECORD
    if not os.path.lexists(path):
        return None
    if not path.is_file():
        raise InputError(f"{path}: not a plain file; remove it, or put the record there")
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); repair or remove it") from error
    try:
        if len(content) > MOST_BYTES:
            raise ValueError(f"it has more than {MOST_BYTES:,} bytes")
        record = json.loads(content)
        if not isinstance(record, dict):
            raise ValueError("it holds no object")
        return {language: _preparation(one, language, folder) for language, one in record.items()}
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{path}: not a record of a preparation ({in_short(error)}); copy it from the prepared text, or "
            "write it with rnnsearch record"
        ) from error


def copy_record(source: Path, target: Path) -> None:
    """Copy a folder's record, if it has one, and the files that the record names, to another folder.

    Raises:
        InputError: the record is damaged, or a file cannot be written.
    """
    record = read_record(source)
    if record is None or source.resolve() == target.resolve():
        return
    # The record comes last, after the files that it names.
    for name in (*sorted({name for one in record.values() for name in one.files}), RECORD):
        content, copy = (source / name).read_bytes(), target / name
        # A resumed training must not need disk space for files that it has already.
        if not (copy.is_file() and copy.read_bytes() == content):
            with open_output(copy) as out:
                out.write(content)


def _preparation(fields_of_one: Any, language: str, folder: Path) -> Preparation:
    """Read the preparation of one language from its fields.

    Raises:
        ValueError: a field is unknown, has a wrong value, or names a file that is not there.
    """
    names = {field.name for field in fields(Preparation)}
    if not isinstance(fields_of_one, dict) or not names.issuperset(fields_of_one):
        raise ValueError(f"{language!r} is no object of {', '.join(sorted(names))}")
    one = Preparation(**fields_of_one)
    if one.tokenizer not in (None, "moses"):
        raise ValueError(f"the tokenizer of {language!r} is {one.tokenizer!r}, not moses or null")
    for flag in FLAGS:
        if type(getattr(one, flag)) is not bool:
            raise ValueError(f"{flag} of {language!r} is {getattr(one, flag)!r}, not true or false")
    for name in one.files:
        if not isinstance(name, str) or name != Path(name).name or "\0" in name:
            raise ValueError(f"{name!r} is no plain file name")
        if not (folder / name).is_file():
            raise ValueError(f"it names {name}, and there is no such file beside it")
    if len(one.files) > 1:
        raise ValueError(f"{language!r} has both bpe_codes and a sentencepiece_model")
    return one


def main() -> None:
    """The command line of this module."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, help="folder of the text or of a checkpoint; must be there")
    parser.add_argument("language", help="language code: en for train.en")
    parser.add_argument("--tokenizer", choices=("moses",), help="the tokenizer of the text (default: none)")
    parser.add_argument("--moses-no-escape", action="store_true", help="leave & | < > ' \" [ ] as they are")
    parser.add_argument("--moses-no-dash-splits", action="store_true", help="leave words with hyphens whole")
    parser.add_argument("--lowercase", action="store_true", help="all of the text is in lower case")
    parser.add_argument("--bpe-codes", metavar="NAME", help="file of subword-nmt's merges, in FOLDER")
    parser.add_argument("--sentencepiece-model", metavar="NAME", help="file of sentencepiece's model, in FOLDER")
    options = vars(parser.parse_args())
    folder, language = options.pop("folder"), options.pop("language")
    try:
        written = _preparation(options, language, folder)
    except ValueError as error:
        raise InputError(f"{folder}: {error}; give the names of files in that folder") from error
    write_record(folder, {**(read_record(folder) or {}), language: written})
    print(f"{language} -> {folder / RECORD}")
