"""What a model knows about its text: languages, vocabularies and preparations."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rnnsearch_fairseq.text.preparation import Preparation
from rnnsearch_fairseq.text.vocabulary import Vocabulary

LANGUAGE = re.compile(r"\w[\w@.+-]{0,30}")


def pack_record(record: Mapping[str, Any]) -> Tensor:
    """A record of values for JSON as a tensor of its bytes.

    fairseq takes all that a checkpoint's model holds for parameters, and averages it. So the bytes are float32.
    """
    return torch.frombuffer(bytearray(json.dumps(record).encode()), dtype=torch.uint8).float()


def unpack_record(packed: Tensor) -> Any:
    """The inverse of :func:`pack_record`, also for the mean of equal tensors."""
    return json.loads(packed.round().to(torch.uint8).numpy().tobytes())


@dataclass(frozen=True)
class TextSettings:
    """The languages, vocabularies and preparations of source and target text; preparations are None if not known."""

    languages: tuple[str, str]
    vocabularies: tuple[Vocabulary, Vocabulary]
    preparations: tuple[Preparation, Preparation] | None

    def to_record(self) -> dict[str, Any]:
        """Values for JSON, which checkpoints and exported folders keep."""
        return {
            "languages": [*self.languages],
            "vocabularies": [vocabulary.symbols for vocabulary in self.vocabularies],
            "preparations": self.preparations and [preparation.to_record() for preparation in self.preparations],
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "TextSettings":
        """The inverse of :meth:`to_record`; a ValueError, TypeError, LookupError or AttributeError for what is none."""
        source, target = record["languages"]
        vocabularies = tuple(map(Vocabulary, record["vocabularies"]))
        preparations = tuple(map(Preparation.from_record, record["preparations"] or ())) or None
        if source == target or not LANGUAGE.fullmatch(source) or not LANGUAGE.fullmatch(target):
            raise ValueError(f"the languages cannot be {source!r} and {target!r}")
        if {len(vocabularies), len(preparations or vocabularies)} != {2}:
            raise ValueError("there are not two vocabularies and two preparations")
        return cls((source, target), vocabularies, preparations)
