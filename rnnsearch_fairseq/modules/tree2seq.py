"""Tree-to-sequence translation (Eriguchi, Hashimoto and Tsuruoka, ACL 2016): the whole network."""

from typing import Any

from torch import Tensor, nn

from rnnsearch_fairseq.modules.config import Tree2SeqConfig
from rnnsearch_fairseq.modules.embedding import share_embeddings
from rnnsearch_fairseq.modules.fused.tree import FusedTreeDecoder, FusedTreeEncoder
from rnnsearch_fairseq.modules.tree_decoder import TreeDecoder
from rnnsearch_fairseq.modules.tree_encoder import TreeEncoder
from rnnsearch_fairseq.modules.tree_lstm import Forest

ARCHITECTURES: dict[str, dict[str, Any]] = {
    "tree2seq_512": {},
    "tree2seq_768": {"hidden_size": 768},
    "tree2seq_1024": {"hidden_size": 1024},
    "tree2seq_small": {"embedding_size": 256, "hidden_size": 256},
    "anmt": {"constituents": "words"},
    "anmt_small": {"embedding_size": 256, "hidden_size": 256, "constituents": "words"},
}


class Tree2Seq(nn.Module):
    """The model of Section 3, its sequential baseline, and its ablation; `initialize_uniform` gives initial values."""

    def __init__(self, config: Tree2SeqConfig, source_size: int, target_size: int) -> None:
        super().__init__()
        fused = FusedTreeEncoder, FusedTreeDecoder
        encoder, decoder = fused if config.scan == "fused" else (TreeEncoder, TreeDecoder)
        self.encoder, self.decoder = encoder(config, source_size), decoder(config, target_size)
        share_embeddings(config, self.encoder.embedding, self.decoder.embedding, self.decoder.to_vocabulary)

    def forward(self, source: Tensor, previous_words: Tensor, forest: Forest | None = None) -> tuple[Tensor, Tensor]:
        """Unnormalised log-probabilities ``(batch, tgt_len, K_y)``, alpha ``(batch, tgt_len, src_len + most_phrases)``.

        The ``source`` is ``(batch, src_len)``, each sentence ended by end-of-sentence, padded left or right. Of the
        ``previous_words`` y_{j-1} ``(batch, tgt_len)`` the first column is ignored. ``forest`` has the trees of the
        batch; None in the sequential baseline.
        """
        features, weights, _ = self.decoder(previous_words, *self.decoder.begin(self.encoder(source, forest)))
        return self.decoder.to_vocabulary(features), weights
