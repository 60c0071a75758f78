"""Sizes and options of a network: plain dataclasses, which the command line, Hydra and checkpoints fill in."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from rnnsearch_fairseq.command_line import option
from rnnsearch_fairseq.errors import InputError, quote

Config = TypeVar("Config", bound="NetworkConfig")
MAX_SIZE = 100_000  # of a layer, so that products of sizes do not overflow


def described(default: Any, text: str, **more: Any) -> Any:
    """A field of a configuration: its default, the help that the command line prints, and ``more`` about the option."""
    return field(default=default, metadata={"help": text, **more})


@dataclass
class NetworkConfig:
    """The options of both networks that are in neither paper, off by default.

    A subclass adds its own; ``output_width`` names the one that is the width of the output matrix.
    Shared matrices: Press and Wolf (2017), *Using the Output Embedding to Improve Language Models*; named as in
    fairseq's own models. Word dropout: see :class:`~rnnsearch_fairseq.modules.embedding.WordEmbedding`.
    """

    share_decoder_input_output_embed: bool = described(
        False, "use the target embeddings as the output matrix; they must be equally wide"
    )
    share_all_embeddings: bool = described(
        False,
        "use one matrix as source embeddings, target embeddings and output matrix; needs a dictionary of "
        "both languages (fairseq-preprocess --joined-dictionary)",
    )
    word_dropout: float = described(0.0, "probability that training replaces a word, source or previous, by <unk>")
    scan: str = described(
        "fused",
        "implementation of the loops over time: 'fused' has hand-written gradients and is faster, "
        "'reference' follows the paper's equations; the results are equal up to rounding",
        choices=("fused", "reference"),
    )

    @classmethod
    def of(cls: type[Config], values: Mapping[str, Any]) -> Config:
        """The configuration with these values, and defaults for missing ones; other names are passed over.

        Raises:
            InputError: a value is not one that its option takes, or values clash.
        """
        config = cls(**{known.name: values[known.name] for known in fields(cls) if known.name in values})
        config.check()
        return config

    def check(self) -> None:
        """Raise an InputError unless each value is one that its option takes, and the values go together."""
        for known in fields(self):
            value = getattr(self, known.name)
            if known.type is str:
                choices = known.metadata["choices"]
                fits, expected = value in choices, f"one of {', '.join(choices)}"
            elif known.type is int:
                least = min(known.default, 1)  # 0 is a default only where it means that there is no such layer
                fits = type(value) is int and least <= value <= MAX_SIZE
                expected = f"a whole number from {least} to {MAX_SIZE:,}"
            elif known.type is float:
                fits, expected = type(value) in (int, float) and 0 <= value < 1, "a number of at least 0 and below 1"
            else:
                fits, expected = type(value) is bool, "true or false"
            if not fits:
                raise InputError(f"{option(known.name)} cannot be {quote(repr(value))}: give {expected}")
        shared = [name for name in ("share_all_embeddings", "share_decoder_input_output_embed") if getattr(self, name)]
        if shared and getattr(self, self.output_width) != self.embedding_size:  # type: ignore[attr-defined]
            width = option(self.output_width)  # type: ignore[attr-defined]
            raise InputError(f"{option(shared[0])} needs {width} and --embedding-size to be equal")


@dataclass
class RNNsearchConfig(NetworkConfig):
    """Sizes and options, named as in the paper (Appendix A.2.3); the defaults are the paper's RNNsearch."""

    embedding_size: int = described(620, "m: width of the word embeddings, source and target")
    hidden_size: int = described(1000, "n: units of the decoder and of each encoder direction")
    alignment_size: int = described(1000, "n': units of the alignment model (no effect with --context last)")
    maxout_size: int = described(500, "l: units of the maxout layer, after the maximum")
    maxout_pool: int = described(2, "units per maximum in the maxout layer")
    context: str = described(
        "attention",
        "the context c_i: 'attention' weights the annotations of a bidirectional encoder (RNNsearch); "
        "'last' is always the last state of a forward encoder (RNNencdec)",
        choices=("attention", "last"),
    )
    readout_state: str = described(
        "previous",
        "decoder state that the readout takes: 'previous' s_{i-1} (A.2.2) or 'current' s_i (Eq. 4)",
        choices=("previous", "current"),
    )
    update_word: str = described(
        "previous",
        "word that the update to s_i consumes: 'previous' y_{i-1} (Appendix A), or 'current' y_i, which "
        "s_{i-1} predicts (the original code; the first readout sees no previous word)",
        choices=("previous", "current"),
    )
    output_rank: int = described(
        0,
        "width of a linear layer between maxout and vocabulary, which makes W_o a product of two matrices "
        "(the original code: 620); 0 for no such layer (Appendix A)",
    )
    dropout: float = described(0.0, "dropout on the source and target embeddings")
    readout_dropout: float = described(0.0, "dropout on the maxout layer")

    @property
    def annotation_size(self) -> int:
        """The width of an annotation h_j, and of a context."""
        return 2 * self.hidden_size if self.context == "attention" else self.hidden_size

    @property
    def output_width(self) -> str:
        """The name of the option that is the width of the output matrix."""
        return "output_rank" if self.output_rank else "maxout_size"

    def check(self) -> None:
        super().check()
        if self.update_word == self.readout_state == "current":
            raise InputError("--update-word current excludes --readout-state current: s_i would have consumed y_i")


@dataclass
class Tree2SeqConfig(NetworkConfig):
    """Sizes and options; the defaults are the paper's model with d = 512."""

    embedding_size: int = described(512, "width of the word embeddings, source and target")
    hidden_size: int = described(512, "d: units of every LSTM and Tree-LSTM")
    constituents: str = described(
        "phrases",
        "the encoder: 'phrases' is an LSTM over the words and a Tree-LSTM over their phrases "
        "(tree-to-sequence), 'words' is the LSTM alone (the sequential baseline, ANMT), 'phrases-only' is the "
        "Tree-LSTM over word embeddings (the ablation of Table 5; --embedding-size must equal --hidden-size)",
        choices=("phrases", "words", "phrases-only"),
    )
    reverse_source: bool = described(False, "read the source from the last word to the first (--constituents words)")

    output_width = "hidden_size"  # the option that is the width of the output matrix

    def check(self) -> None:
        super().check()
        if self.constituents == "phrases-only" and self.embedding_size != self.hidden_size:
            raise InputError("--constituents phrases-only needs --embedding-size and --hidden-size to be equal")
        if self.reverse_source and self.constituents != "words":
            raise InputError("--reverse-source needs --constituents words: a tree fixes the order of its words")
