"""RNNsearch and RNNencdec (Bahdanau, Cho and Bengio, ICLR 2015): the whole network."""

from typing import Any

from torch import Tensor, nn

from rnnsearch_fairseq.modules.config import RNNsearchConfig
from rnnsearch_fairseq.modules.decoder import Decoder
from rnnsearch_fairseq.modules.embedding import share_embeddings
from rnnsearch_fairseq.modules.encoder import Encoder
from rnnsearch_fairseq.modules.fused.rnn import FusedDecoder, FusedEncoder
from rnnsearch_fairseq.modules.tree_lstm import Forest

ARCHITECTURES: dict[str, dict[str, Any]] = {
    "bahdanau_gru": {},
    "rnnencdec": {"context": "last"},
    "groundhog_search": {"update_word": "current", "output_rank": 620},
    "groundhog_encdec": {"update_word": "current", "output_rank": 620, "context": "last"},
    "bahdanau_gru_small": {"embedding_size": 256, "hidden_size": 256, "alignment_size": 256, "maxout_size": 256},
}


class RNNsearch(nn.Module):
    """The model of Section 3: an encoder that annotates the source, and a decoder that attends to the annotations.

    :func:`~rnnsearch_fairseq.modules.init.initialize` gives its parameters the paper's initial values.
    """

    def __init__(self, config: RNNsearchConfig, source_size: int, target_size: int) -> None:
        super().__init__()
        encoder, decoder = (FusedEncoder, FusedDecoder) if config.scan == "fused" else (Encoder, Decoder)
        self.encoder, self.decoder = encoder(config, source_size), decoder(config, target_size)
        source, target = self.encoder.embedding.table, self.decoder.embedding.table
        share_embeddings(config, source, target, self.decoder.to_vocabulary)

    def forward(
        self, source: Tensor, previous_words: Tensor, forest: Forest | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Unnormalised log-probabilities ``(batch, tgt_len, K_y)``, and alpha ``(batch, tgt_len, src_len)`` or None.

        The ``source`` is ``(batch, src_len)``, each sentence ended by end-of-sentence, padded left or right. The
        ``previous_words`` y_{i-1} ``(batch, tgt_len)`` begin with end-of-sentence as y_0. A ``forest`` is not read.
        """
        features, weights, _ = self.decoder(previous_words, *self.decoder.begin(self.encoder(source)))
        return self.decoder.to_vocabulary(features), weights
