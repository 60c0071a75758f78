"""How text of a language is prepared, so that typed text can be prepared as the training text was.

On disk it is ``preparation.json``, an object that maps each language to its options. The options ``bpe``,
``sentencepiece`` and ``words`` name a file beside it: subword-nmt's merges, sentencepiece's model, or the words of the
training text, one a line. ``rnnsearch prepare`` writes these files. For text that other programs prepared, write them
by hand: ``{"en": {"tokenizer": "moses", "lowercase": true, "bpe": "bpe.codes"}, "ja": {}}``. A training looks for them
in its data folder and then in the folder above, and its checkpoints contain them.
"""

import base64
import gzip
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

from rnnsearch_fairseq.command_line import check_fields
from rnnsearch_fairseq.errors import InputError, quote
from rnnsearch_fairseq.output import open_output
from rnnsearch_fairseq.text.lines import open_bytes

RECORD = "preparation.json"
SUBWORDS = ("bpe", "sentencepiece")
FILES = {"bpe": "codes", "sentencepiece": "model", "words": "gz"}  # the endings of the files
WORD = re.compile(r"[^\W\d_]{4,}")  # shorter ones are not checked
KNOWN_WORDS = 200_000  # the number of words that are stored, the most frequent words
MAX_WORDS_BYTES = 1 << 24
PREPARE = "write it with rnnsearch prepare"


@dataclass(frozen=True)
class Preparation:
    """How text of one language is prepared: split by the tokenizer, then lowercased, then split into subwords.

    Attributes:
        tokenizer: "moses", or None: the text is already words separated by spaces, or sentencepiece splits it.
        moses_no_escape: the tokenizer leaves & | < > ' " [ ] as they are.
        moses_no_dash_splits: the tokenizer leaves words with hyphens whole.
        markup: symbols stand for markup (:mod:`~rnnsearch_fairseq.text.markup`) while the model translates.
        bpe: the text of subword-nmt's file of merges.
        sentencepiece: the content of sentencepiece's file of a model.
        words: the words of the training text in small letters, as `list_words` writes them. A model of subwords
            sometimes writes words that do not exist, and changes names that are new to it; the lists of both languages
            show which.
    """

    tokenizer: str | None = field(default=None, metadata={"choices": (None, "moses")})
    moses_no_escape: bool = False
    moses_no_dash_splits: bool = False
    lowercase: bool = False
    markup: bool = False
    bpe: str | None = field(default=None, repr=False)
    sentencepiece: bytes | None = field(default=None, repr=False)
    words: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_fields(self, str)

    @property
    def subwords(self) -> str | None:
        """The kind of subwords: "bpe", "sentencepiece" or None."""
        return next((kind for kind in SUBWORDS if getattr(self, kind) is not None), None)

    def known_words(self) -> frozenset[str] | None:
        """The words of the training text; None: they are not known."""
        return None if self.words is None else frozenset(self.words.split())

    def to_record(self) -> dict[str, Any]:
        """All options as values for JSON: sentencepiece's model, and the words packed by gzip, in Base64."""
        record, words = {**vars(self)}, self.words and gzip.compress(self.words.encode(), mtime=0)
        contents = {"sentencepiece": self.sentencepiece, "words": words}
        return record | {name: content and base64.b64encode(content).decode() for name, content in contents.items()}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "Preparation":
        """The inverse of :meth:`to_record`; any error if an option is unknown, or its value wrong or damaged."""
        options = {**record}
        for name in ("sentencepiece", "words"):
            if (packed := options.get(name)) is not None:
                options[name] = base64.b64decode(packed, validate=True)
        if options.get("words") is not None:
            options["words"] = gzip.open(BytesIO(options["words"])).read(MAX_WORDS_BYTES).decode()
        return cls(**options)


def list_words(lines: Iterable[str], more: Iterable[str] = ()) -> str:
    """The most frequent words of a text, and ``more``, one a line, for `Preparation.words`."""
    counts = Counter(word for line in lines for word in WORD.findall(line.lower()))
    words = {*more, *(word for word, _ in counts.most_common(KNOWN_WORDS))}
    return "\n".join(sorted(words))


def write_preparations(folder: Path, preparations: Mapping[str, Preparation]) -> None:
    """Write ``FOLDER/preparation.json`` and the files that it names; languages can share a file."""
    record = {language: {**vars(preparation)} for language, preparation in preparations.items()}
    for kind, ending in FILES.items():
        contents = {language: options[kind] for language, options in record.items() if options[kind] is not None}
        for language, content in contents.items():
            name = f"{kind}.{ending}" if len({*contents.values()}) == 1 else f"{kind}.{language}.{ending}"
            record[language][kind] = name
            with open_output(folder / name) as out:
                out.write(content.encode() if isinstance(content, str) else content)
    with open_output(folder / RECORD) as out:
        out.write(f"{json.dumps(record, indent=2, ensure_ascii=False)}\n".encode())


def read_preparations(folder: Path) -> dict[str, Preparation] | None:
    """Read the preparation of each language from ``FOLDER/preparation.json``; None if there is no such file.

    Raises:
        InputError: an option is unknown or has a wrong value, or the subwords are missing.
    """
    path = folder / RECORD
    if not os.path.lexists(path):
        return None
    try:
        with open_bytes(path) as file:
            record = json.load(file)
        return {language: _read_preparation(folder, options) for language, options in record.items()}
    except (ValueError, TypeError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: not a record of a preparation ({quote(error)}); {PREPARE}") from error


def _read_preparation(folder: Path, options: Mapping[str, Any]) -> Preparation:
    contents: dict[str, Any] = {}
    for kind in FILES:
        if (name := options.get(kind)) is not None:
            with open_bytes(folder / name) as file:
                contents[kind] = file.read() if kind == "sentencepiece" else file.read().decode()
    return Preparation(**{**options, **contents})


def find_preparations(data: Path, languages: Sequence[str]) -> tuple[Preparation, ...] | None:
    """The preparations of these languages, from the folder of the binarized text or the folder above it, or None."""
    for folder in (data, data.absolute().parent):
        if (preparations := read_preparations(folder)) is None:
            continue
        if missing := [language for language in languages if language not in preparations]:
            raise InputError(f"{folder / RECORD}: does not say how the text in {missing[0]} was prepared; {PREPARE}")
        return tuple(preparations[language] for language in languages)
    return None
