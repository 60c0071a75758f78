"""Sizes and options of a network: plain dataclasses, which the command line, Hydra and checkpoints fill in."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import Enum
from typing import Any, TypeVar

from rnnsearch_fairseq.errors import InputError, in_short

Config = TypeVar("Config", bound="NetworkConfig")


class Choice(str, Enum):
    """The base of the types of options that are one of some words, each named as it is written."""

    __str__ = str.__str__


@dataclass
class NetworkConfig:
    """The options of the networks of both papers that neither paper has; they are off by default.

    A subclass has its own, and in ``output_width`` the name of the one that is the width of the output matrix.
    Shared matrices: Press and Wolf (2017), *Using the Output Embedding to Improve Language Models*; named as in
    fairseq's own models. Word dropout: see :class:`~rnnsearch_fairseq.modules.embedding.WordEmbedding`.
    """

    share_decoder_input_output_embed: bool = field(
        default=False, metadata={"help": "use the target embeddings as the output matrix; they must be equally wide"}
    )
    share_all_embeddings: bool = field(
        default=False,
        metadata={
            "help": "use one matrix as source embeddings, target embeddings and output matrix; needs a dictionary of "
            "both languages (fairseq-preprocess --joined-dictionary)"
        },
    )
    word_dropout: float = field(
        default=0.0, metadata={"help": "probability that training replaces a word, source or previous, by <unk>"}
    )

    @classmethod
    def of(cls: type[Config], values: Mapping[str, Any]) -> Config:
        """The configuration with these values, defaults for missing ones; other names are passed over.

        Raises:
            InputError: a value has the wrong type or is not one of the choices, or values clash.
        """
        names = {option.name: option.type for option in fields(cls)}
        config = cls(**{name: _read(name, names[name], value) for name, value in values.items() if name in names})
        config.check()
        return config

    def values(self) -> dict[str, Any]:
        """The options as plain data, from which :meth:`of` makes the same configuration."""
        return {name: value.value if isinstance(value, Enum) else value for name, value in asdict(self).items()}

    def check(self) -> None:
        """Raise an InputError unless each value is what it must be, and they go together."""
        for name, value in asdict(self).items():
            if name.endswith(("_size", "_pool")) and value < 1:
                raise InputError(f"{option(name)} is {value}, but a size must be at least 1")
            if name.endswith("dropout") and not 0 <= value < 1:
                raise InputError(f"{option(name)} is {value}, but it must be at least 0 and below 1")
        shared = [name for name in ("share_all_embeddings", "share_decoder_input_output_embed") if getattr(self, name)]
        width, embedding = getattr(self, self.output_width), self.embedding_size  # type: ignore[attr-defined]
        if shared and width != embedding:
            raise InputError(
                f"{option(shared[0])} needs an output matrix as wide as the embeddings, but "
                f"{option(self.output_width)} is {width} and --embedding-size is {embedding}: make them equal"
            )


def option(name: str) -> str:
    """The option of the command line for a field."""
    return "--" + name.replace("_", "-")


def _read(name: str, kind: Any, value: Any) -> Any:
    wrong = InputError(f"{option(name)} cannot be {in_short(repr(value))}: see fairseq-train --help for its values")
    if issubclass(kind, Enum):
        try:
            return kind(str(value))
        except ValueError:
            raise wrong from None
    fits = {bool: bool, int: int, float: (int, float)}[kind]
    if not isinstance(value, fits) or (isinstance(value, bool) and kind is not bool) or not math.isfinite(value):
        raise wrong
    return kind(value)
