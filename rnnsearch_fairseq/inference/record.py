"""The record of a preparation as inference/text.py reads it: names of files in a folder. It goes with that module."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rnnsearch_fairseq.output import open_output
from rnnsearch_fairseq.text.preparation import CODES, PIECES, RECORD, read_preparations, write_preparations
from rnnsearch_fairseq.text.preparation import Preparation as Prepared


@dataclass(frozen=True)
class Preparation:
    """The options of `rnnsearch_fairseq.text.preparation.Preparation`, with names of files in place of contents."""

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


PLAIN_MOSES = Preparation("moses", moses_no_escape=True, moses_no_dash_splits=True)


def write_record(folder: Path, record: Mapping[str, Preparation]) -> None:
    """Write a record; the files that it names are in the folder already."""
    prepared = {}
    for language, one in record.items():
        bpe = (folder / one.bpe_codes).read_text(encoding="utf-8") if one.bpe_codes else None
        pieces = (folder / one.sentencepiece_model).read_bytes() if one.sentencepiece_model else None
        flags = (one.moses_no_escape, one.moses_no_dash_splits, one.lowercase)
        prepared[language] = Prepared(one.tokenizer, *flags, bpe, pieces)
    write_preparations(folder, prepared)


def read_record(folder: Path) -> dict[str, Preparation] | None:
    """Read the record of a folder; None if there is none."""
    prepared = read_preparations(folder)
    if prepared is None:
        return None
    record = {}
    for language, one in prepared.items():
        flags = (one.moses_no_escape, one.moses_no_dash_splits, one.lowercase)
        kinds = (CODES if one.bpe is not None else None, PIECES if one.sentencepiece is not None else None)
        record[language] = Preparation(one.tokenizer, *flags, *kinds)
    return record


def copy_record(source: Path, target: Path) -> None:
    """Copy a folder's record, if it has one, and its files, to another folder."""
    record = read_record(source)
    if record is None or source.resolve() == target.resolve():
        return
    for name in (*sorted({name for one in record.values() for name in one.files}), RECORD):
        content, copy = (source / name).read_bytes(), target / name
        if not (copy.is_file() and copy.read_bytes() == content):
            with open_output(copy) as out:
                out.write(content)
