"""The words of a padded batch without its padding, for loops that compute only the sentences that go on.

``torch.nn.utils.rnn.pack_padded_sequence`` takes padding on the right only, and fairseq pads sources on the left.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor


class Packing(NamedTuple):
    """The words of a batch ``(batch, columns)`` in the order of a loop: all first words, then all second words, ...

    ``sentences`` ``(batch,)`` are sorted by length, longest first, and the k-th words stand in this order: ``counts``
    are the numbers of first words, second words and so on. ``places`` ``(words,)`` are the words' places in the
    flattened batch. ``previous`` ``(words - counts[0],)`` has, for each word but the first ones, the packed row of the
    word before it. ``shape`` is ``(batch, columns)``.
    """

    sentences: Tensor
    places: Tensor
    counts: list[int]
    previous: Tensor
    shape: torch.Size

    def pack(self, padded: Tensor) -> Tensor:
        """The rows of ``padded`` ``(batch, columns, ...)`` that are words: ``(words, ...)``."""
        return padded.flatten(0, 1).index_select(0, self.places)

    def unpack(self, packed: Tensor) -> Tensor:
        """``packed`` ``(words, ...)`` in the batch, zero at padding: ``(batch, columns, ...)``."""
        padded = packed.new_zeros(self.shape.numel(), *packed.shape[1:])
        return padded.index_copy_(0, self.places, packed).unflatten(0, self.shape)

    def split(self, *packed: Tensor, begin: int = 0) -> Iterator[tuple[Tensor, ...]]:
        """Split each of ``packed`` into views, one for each position from ``begin`` on."""
        return (tensor.split(self.counts[begin:]) for tensor in packed)


def packing(is_word: Tensor, device: torch.device) -> Packing:
    """The packing of a batch on ``device``. ``is_word`` ``(batch, columns)`` is false at padding, not between words."""
    is_word = is_word.cpu()  # the host waits for a GPU once
    lengths, firsts = is_word.sum(dim=1), is_word.long().argmax(dim=1)
    sentences = lengths.argsort(descending=True, stable=True)
    position = torch.arange(is_word.size(1)).unsqueeze(1)
    has_word = position < lengths[sentences]
    places = (sentences * is_word.size(1) + firsts[sentences] + position)[has_word]
    counts = has_word.sum(dim=1)
    counts = counts[counts > 0]
    distances = counts[:-1].repeat_interleave(counts[1:])
    previous = torch.arange(len(distances)) + int(counts[0]) - distances
    return Packing(
        *(tensor.to(device) for tensor in (sentences, places)), counts.tolist(), previous.to(device), is_word.shape
    )
