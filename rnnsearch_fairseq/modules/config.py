"""Sizes and options of a network: plain dataclasses, which the command line, Hydra and checkpoints fill in."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from rnnsearch_fairseq.command_line import check_fields, described, option
from rnnsearch_fairseq.errors import InputError

Config = TypeVar("Config", bound="NetworkConfig")
SIZE = {"least": 1, "most": 100_000}  # of a layer, so that products of sizes do not overflow


@dataclass
class NetworkConfig:
    """The options of both networks that are in neither paper, off by default.

    A subclass adds the network's own options. Shared matrices: Press and Wolf (2017), *Using the Output Embedding to
    Improve Language Models*; named as in fairseq's own models. Word dropout: see
    :class:`~rnnsearch_fairseq.modules.embedding.WordEmbedding`.
    """

    share_decoder_input_output_embed: bool = described(
        False, "use the target embeddings as the output matrix; they must be equally wide"
    )
    share_all_embeddings: bool = described(
        False,
        "use one matrix as source embeddings, target embeddings and output matrix; needs a dictionary of "
        "both languages (fairseq-preprocess --joined-dictionary)",
    )
    word_dropout: float = described(
        0.0, "probability that training replaces a source word or a previous target word with <unk>", most=0.999999
    )
    scan: str = described(
        "fused",
        "implementation of the loops over time: 'fused' has hand-written gradients and is faster, "
        "'reference' follows the paper's equations; the results are equal up to rounding",
        choices=("fused", "reference"),
    )

    @classmethod
    def from_values(cls: type[Config], values: Mapping[str, Any]) -> Config:
        """The configuration with these values, and defaults for missing options; unknown names are ignored.

        Raises:
            InputError: a value does not fit its option, or values do not fit together.
        """
        config = cls(**{known.name: values[known.name] for known in fields(cls) if known.name in values})
        config.check()
        return config

    def check(self) -> None:
        """Raise an InputError unless each value fits its option, and the values fit together."""
        check_fields(self)

    def check_sharing(self, width: str) -> None:
        """Raise an InputError if the output matrix is shared, and its width, the option ``width``, differs."""
        for name in ("share_all_embeddings", "share_decoder_input_output_embed"):
            if getattr(self, name) and getattr(self, width) != self.embedding_size:  # type: ignore[attr-defined]
                raise InputError(f"{option(name)} needs {option(width)} and --embedding-size to be equal")


@dataclass
class RNNsearchConfig(NetworkConfig):
    """Sizes and options, named as in the paper (Appendix A.2.3); the defaults are the paper's RNNsearch."""

    embedding_size: int = described(620, "m: width of the word embeddings, source and target", **SIZE)
    hidden_size: int = described(1000, "n: units of the decoder and of each encoder direction", **SIZE)
    alignment_size: int = described(1000, "n': units of the alignment model (no effect with --context last)", **SIZE)
    maxout_size: int = described(500, "l: units of the maxout layer, after the maximum", **SIZE)
    maxout_pool: int = described(2, "units per maximum in the maxout layer", **SIZE)
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
        "word that the update to s_i reads: 'previous' y_{i-1} (Appendix A), or 'current' y_i (the original code, "
        "which predicts the first word before it reads any)",
        choices=("previous", "current"),
    )
    output_rank: int = described(
        0,
        "width of a linear layer between maxout and vocabulary, which makes W_o a product of two matrices "
        "(the original code: 620); 0 for no such layer (Appendix A)",
        most=SIZE["most"],
    )
    dropout: float = described(0.0, "dropout on the source and target embeddings", most=0.999999)
    readout_dropout: float = described(0.0, "dropout on the maxout layer", most=0.999999)

    @property
    def annotation_size(self) -> int:
        """The width of an annotation h_j, and of a context."""
        return 2 * self.hidden_size if self.context == "attention" else self.hidden_size

    def check(self) -> None:
        super().check()
        self.check_sharing("output_rank" if self.output_rank else "maxout_size")
        if self.update_word == self.readout_state == "current":
            raise InputError("--update-word current excludes --readout-state current: s_i would have consumed y_i")


@dataclass
class Tree2SeqConfig(NetworkConfig):
    """Sizes and options; the defaults are the paper's model with d = 512."""

    embedding_size: int = described(512, "width of the word embeddings, source and target", **SIZE)
    hidden_size: int = described(512, "d: units of every LSTM and Tree-LSTM", **SIZE)
    constituents: str = described(
        "phrases",
        "the encoder: 'phrases' is an LSTM over the words and a Tree-LSTM over their phrases "
        "(tree-to-sequence), 'words' is the LSTM alone (the sequential baseline, ANMT), 'phrases-only' is the "
        "Tree-LSTM over word embeddings (the ablation of Table 5; --embedding-size must equal --hidden-size)",
        choices=("phrases", "words", "phrases-only"),
    )
    reverse_source: bool = described(False, "read the source from the last word to the first (--constituents words)")

    def check(self) -> None:
        super().check()
        self.check_sharing("hidden_size")
        if self.constituents == "phrases-only" and self.embedding_size != self.hidden_size:
            raise InputError("--constituents phrases-only needs --embedding-size and --hidden-size to be equal")
        if self.reverse_source and self.constituents != "words":
            raise InputError("--reverse-source needs --constituents words: a tree fixes the order of its words")
