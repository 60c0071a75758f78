"""Word embeddings: with word dropout, and with a bias, as in the original code."""

import torch
from torch import Tensor, nn

from rnnsearch_fairseq.modules.config import NetworkConfig
from rnnsearch_fairseq.modules.symbols import EOS, PAD, UNK


class WordEmbedding(nn.Embedding):
    """E x_j, with zeros for padding; training replaces words by <unk> with probability ``word_dropout``.

    Sennrich, Haddow and Birch (2016), *Edinburgh Neural Machine Translation Systems for WMT 16*, drop whole words on
    both sides, and replace the embedding by zero. Bowman et al. (2016), *Generating Sentences from a Continuous Space*,
    replace the word by <unk>, whose embedding the model learns. End-of-sentence is never replaced.
    """

    def __init__(self, vocabulary_size: int, embedding_size: int, word_dropout: float = 0.0) -> None:
        super().__init__(vocabulary_size, embedding_size, padding_idx=PAD)
        self.word_dropout = word_dropout

    def forward(self, words: Tensor) -> Tensor:
        """Embed ``words`` (int64, any shape ``(...)``) as ``(..., m)``."""
        if self.training and self.word_dropout:
            dropped = torch.rand(words.shape, device=words.device) < self.word_dropout
            words = words.masked_fill(dropped & words.ne(PAD) & words.ne(EOS), UNK)
        return super().forward(words)


def share_embeddings(config: NetworkConfig, source: nn.Embedding, target: nn.Embedding, output: nn.Linear) -> None:
    """Make one matrix of source embeddings, target embeddings and output layer, as far as ``config`` shares them."""
    if config.share_all_embeddings:
        source.weight = target.weight
    if config.share_all_embeddings or config.share_decoder_input_output_embed:
        output.weight = target.weight


class BiasedEmbedding(nn.Module):
    """E x_j + b: the embedding of a word, plus one bias vector shared by all words.

    The paper (Appendix A) leaves its biases out "for readability"; the original code trains this one.

    Parameters: ``table.weight`` is E, stored ``(vocabulary, m)``; ``bias`` is ``(m,)``.
    """

    def __init__(self, vocabulary_size: int, embedding_size: int, word_dropout: float = 0.0) -> None:
        super().__init__()
        self.table = WordEmbedding(vocabulary_size, embedding_size, word_dropout)
        self.bias = nn.Parameter(torch.zeros(embedding_size))

    def forward(self, words: Tensor) -> Tensor:
        """Embed ``words`` (int64, any shape ``(...)``) as ``(..., m)``."""
        return self.table(words) + self.bias
