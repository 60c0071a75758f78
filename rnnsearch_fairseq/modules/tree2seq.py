"""Tree-to-sequence translation (Eriguchi, Hashimoto and Tsuruoka, ACL 2016): the whole network and its options."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from torch import Tensor, nn

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.modules.config import Choice, NetworkConfig
from rnnsearch_fairseq.modules.fused.tree import FusedTreeDecoder, FusedTreeEncoder
from rnnsearch_fairseq.modules.symbols import PAD
from rnnsearch_fairseq.modules.tree_lstm import Forest

# What the encoder encodes. A member's name must be the word on the command line, so this is no class.
Encodes = Enum("Encodes", {word: word for word in ("phrases", "words", "phrases-only")}, type=Choice)  # type: ignore[misc]


@dataclass
class Tree2SeqConfig(NetworkConfig):
    """Sizes and options; the defaults are the paper's model with d = 512."""

    embedding_size: int = field(default=512, metadata={"help": "width of the word embeddings, source and target"})
    hidden_size: int = field(default=512, metadata={"help": "d: units of every LSTM and Tree-LSTM"})
    constituents: Encodes = field(
        default=Encodes["phrases"],
        metadata={
            "help": "the encoder: 'phrases' is an LSTM over the words and a Tree-LSTM over their phrases "
            "(tree-to-sequence), 'words' is the LSTM alone (the sequential baseline, ANMT), 'phrases-only' is the "
            "Tree-LSTM over word embeddings (the ablation of Table 5; --embedding-size must equal --hidden-size)"
        },
    )
    reverse_source: bool = field(
        default=False, metadata={"help": "read the source from the last word to the first (--constituents words only)"}
    )

    output_width = "hidden_size"  # the option that is the width of the output matrix

    @property
    def parses(self) -> bool:
        """Whether the encoder reads trees."""
        return self.constituents != "words"

    def check(self) -> None:
        """As in the base class."""
        super().check()
        if self.constituents == "phrases-only" and self.embedding_size != self.hidden_size:
            raise InputError(
                f"--constituents phrases-only composes word embeddings: --embedding-size {self.embedding_size} and "
                f"--hidden-size {self.hidden_size} must be equal"
            )
        if self.reverse_source and self.parses:
            raise InputError("--reverse-source needs --constituents words: a tree fixes the order of its words")


ARCHITECTURES: dict[str, dict[str, Any]] = {
    "tree2seq_512": {},
    "tree2seq_768": {"hidden_size": 768},
    "tree2seq_1024": {"hidden_size": 1024},
    "tree2seq_small": {"embedding_size": 256, "hidden_size": 256},
    "anmt": {"constituents": "words"},
    "anmt_small": {"embedding_size": 256, "hidden_size": 256, "constituents": "words"},
}


class Tree2Seq(nn.Module):
    """The model of Section 3, its sequential baseline, and its ablation.

    Its parameters have PyTorch's own initial values; :func:`~rnnsearch_fairseq.modules.init.initialize_uniform` gives
    them the paper's.
    """

    def __init__(self, config: Tree2SeqConfig, source_size: int, target_size: int) -> None:
        super().__init__()
        sizes = (config.embedding_size, config.hidden_size)
        self.encoder = FusedTreeEncoder(
            source_size,
            *sizes,
            parses=config.parses,
            sequential=config.constituents != "phrases-only",
            reverse=config.reverse_source,
            word_dropout=config.word_dropout,
        )
        self.decoder = FusedTreeDecoder(target_size, *sizes, parses=config.parses, word_dropout=config.word_dropout)
        target = self.decoder.embedding
        if config.share_all_embeddings:
            self.encoder.embedding.weight = target.weight
        if config.share_all_embeddings or config.share_decoder_input_output_embed:
            self.decoder.to_vocabulary.weight = target.weight

    def forward(self, source: Tensor, previous_words: Tensor, forest: Forest | None = None) -> tuple[Tensor, Tensor]:
        """Score every next word.

        Args:
            source: x, ``(batch, src_len)``, each sentence ended by end-of-sentence, padded left or right.
            previous_words: y_{j-1}, ``(batch, tgt_len)``; the first column is ignored.
            forest: the trees of the batch; None in the sequential baseline.

        Returns:
            Unnormalised log-probabilities ``(batch, tgt_len, K_y)``, and alpha of words and phrases ``(batch, tgt_len,
            src_len + most_phrases)``.
        """
        encoded = self.encoder(source, source.eq(PAD), forest)
        features, weights = self.decoder.scan(previous_words, encoded)
        return self.decoder.to_vocabulary(features), weights
