"""Word embeddings with a bias, as in the original code."""

import torch
from torch import Tensor, nn


class BiasedEmbedding(nn.Module):
    """E x_j + b: the embedding of a word, plus one bias vector shared by all words.

    The paper (Appendix A) leaves its biases out "for readability"; the original code trains this one.

    Parameters: ``table.weight`` is E, stored ``(vocabulary, m)``, with zeros for padding; ``bias`` is ``(m,)``.
    """

    def __init__(self, vocabulary_size: int, embedding_size: int, padding_idx: int) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary_size, embedding_size, padding_idx=padding_idx)
        self.bias = nn.Parameter(torch.zeros(embedding_size))

    def forward(self, words: Tensor) -> Tensor:
        """Embed ``words`` (int64, any shape ``(...)``) as ``(..., m)``."""
        return self.table(words) + self.bias
