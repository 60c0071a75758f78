"""RNNsearch and RNNencdec (Bahdanau, Cho and Bengio, ICLR 2015): the whole network and its options."""

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.modules.config import Choice, NetworkConfig
from rnnsearch_fairseq.modules.decoder import Decoder
from rnnsearch_fairseq.modules.encoder import Encoder
from rnnsearch_fairseq.modules.fused.rnn import FusedDecoder, FusedEncoder
from rnnsearch_fairseq.modules.symbols import PAD


class Context(Choice):
    """Where the context c_i comes from."""

    attention = "attention"
    last = "last"


class Position(Choice):
    """A position i, or the one before."""

    previous = "previous"
    current = "current"


class Scan(Choice):
    """An implementation of the loops over time."""

    fused = "fused"
    reference = "reference"


@dataclass
class RNNsearchConfig(NetworkConfig):
    """Sizes and options, named as in the paper (Appendix A.2.3); the defaults are the paper's RNNsearch."""

    embedding_size: int = field(default=620, metadata={"help": "m: width of the word embeddings, source and target"})
    hidden_size: int = field(default=1000, metadata={"help": "n: units of the decoder and of each encoder direction"})
    alignment_size: int = field(
        default=1000, metadata={"help": "n': units of the alignment model (no effect with --context last)"}
    )
    maxout_size: int = field(default=500, metadata={"help": "l: units of the maxout layer, after the maximum"})
    maxout_pool: int = field(default=2, metadata={"help": "units per maximum in the maxout layer"})
    context: Context = field(
        default=Context.attention,
        metadata={
            "help": "the context c_i: 'attention' weights the annotations of a bidirectional encoder (RNNsearch); "
            "'last' is always the last state of a forward encoder (RNNencdec)"
        },
    )
    readout_state: Position = field(
        default=Position.previous,
        metadata={"help": "decoder state that the readout takes: 'previous' s_{i-1} (A.2.2) or 'current' s_i (Eq. 4)"},
    )
    update_word: Position = field(
        default=Position.previous,
        metadata={
            "help": "word that the update to s_i consumes: 'previous' y_{i-1} (Appendix A), or 'current' y_i, which "
            "s_{i-1} predicts (the original code; the first readout sees no previous word)"
        },
    )
    output_rank: int = field(
        default=0,
        metadata={
            "help": "width of a linear layer between maxout and vocabulary, which makes W_o a product of two matrices "
            "(the original code: 620); 0 for no such layer (Appendix A)"
        },
    )
    dropout: float = field(default=0.0, metadata={"help": "dropout on the source and target embeddings"})
    readout_dropout: float = field(default=0.0, metadata={"help": "dropout on the maxout layer"})
    scan: Scan = field(
        default=Scan.fused,
        metadata={
            "help": "implementation of the loops over time: 'fused' has hand-written gradients and is faster, "
            "'reference' follows the paper's equations; the results are equal up to rounding"
        },
    )

    @property
    def output_width(self) -> str:
        """The name of the option that is the width of the output matrix."""
        return "output_rank" if self.output_rank else "maxout_size"

    def check(self) -> None:
        """As in the base class."""
        super().check()
        if self.output_rank < 0:
            raise InputError(f"--output-rank is {self.output_rank}, but it must be a size, or 0 for no such layer")
        if self.update_word == self.readout_state == Position.current:
            raise InputError(
                "--update-word current and --readout-state current exclude each other: s_i would already have consumed "
                "the word y_i that it predicts; leave one of them at 'previous'"
            )


ARCHITECTURES: dict[str, dict[str, Any]] = {
    "bahdanau_gru": {},
    "rnnencdec": {"context": "last"},
    "groundhog_search": {"update_word": "current", "output_rank": 620},
    "groundhog_encdec": {"update_word": "current", "output_rank": 620, "context": "last"},
    "bahdanau_gru_small": {"embedding_size": 256, "hidden_size": 256, "alignment_size": 256, "maxout_size": 256},
}


class RNNsearch(nn.Module):
    """The model of Section 3: an encoder that annotates the source, and a decoder that attends to the annotations.

    Its parameters have PyTorch's own initial values; :func:`~rnnsearch_fairseq.modules.init.initialize` gives them the
    paper's.
    """

    def __init__(self, config: RNNsearchConfig, source_size: int, target_size: int) -> None:
        super().__init__()
        encoder, decoder = (FusedEncoder, FusedDecoder) if config.scan == Scan.fused else (Encoder, Decoder)
        self.encoder = encoder(
            source_size,
            config.embedding_size,
            config.hidden_size,
            bidirectional=config.context == Context.attention,
            dropout=config.dropout,
            word_dropout=config.word_dropout,
        )
        self.decoder = decoder(
            target_size,
            config.embedding_size,
            config.hidden_size,
            self.encoder.annotation_size,
            config.alignment_size if config.context == Context.attention else 0,
            config.maxout_size,
            config.maxout_pool,
            reads_current_state=config.readout_state == Position.current,
            updates_with_current_word=config.update_word == Position.current,
            output_rank=config.output_rank,
            dropout=config.dropout,
            readout_dropout=config.readout_dropout,
            word_dropout=config.word_dropout,
        )
        target = self.decoder.embedding.table
        if config.share_all_embeddings:
            self.encoder.embedding.table.weight = target.weight
        if config.share_all_embeddings or config.share_decoder_input_output_embed:
            self.decoder.to_vocabulary.weight = target.weight

    def forward(self, source: Tensor, previous_words: Tensor, forest: None = None) -> tuple[Tensor, Tensor | None]:
        """Score every next word.

        Args:
            source: x, ``(batch, src_len)``, each sentence ended by end-of-sentence, padded left or right.
            previous_words: y_{i-1}, ``(batch, tgt_len)``, beginning with end-of-sentence as y_0.

        Returns:
            Unnormalised log-probabilities ``(batch, tgt_len, K_y)``, and alpha ``(batch, tgt_len, src_len)`` or None.
        """
        padding_mask = source.eq(PAD)
        annotations, summary = self.encoder(source, padding_mask)
        memory = self.decoder.attention.encode_keys(annotations, padding_mask)
        output = self.decoder(previous_words, self.decoder.initial_state(summary), memory)
        return self.decoder.to_vocabulary(output.features), output.weights
