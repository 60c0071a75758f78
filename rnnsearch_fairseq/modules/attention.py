"""The decoder's context vector c_i: from the alignment model (Eq. 5 and 6), or RNNencdec's fixed vector.

An attention is a module with the two methods ``encode_keys`` and ``forward``. README.md shows how to add your own.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn


class Memory(NamedTuple):
    """The encoded source of a batch, from which the context vectors are computed.

    ``annotations`` are the h_j, ``(batch, src_len, 2n)``, or for RNNencdec the one vector →h_Tx, ``(batch, n)``.
    ``keys`` are the U_a h_j, ``(batch, src_len, n')``; None for RNNencdec. ``padding_mask`` ``(batch, src_len)`` is
    true at padding; None if no sentence is padded.
    """

    annotations: Tensor
    keys: Tensor | None
    padding_mask: Tensor | None


class AlignmentModel(nn.Module):
    """The soft alignment of Section 3.1 with the alignment model a of Appendix A.1.2::

        e_ij     = v_a^T tanh(W_a s_{i-1} + U_a h_j)
        alpha_ij = exp(e_ij) / sum_k exp(e_ik)               (Eq. 6)
        c_i      = sum_j alpha_ij h_j                        (Eq. 5)

    Parameters: ``from_state`` is W_a ``(n', n)``, ``from_annotation`` U_a ``(n', 2n)``, ``energy`` v_a ``(1, n')``.
    """

    def __init__(self, state_size: int, annotation_size: int, alignment_size: int) -> None:
        super().__init__()
        self.from_state = nn.Linear(state_size, alignment_size, bias=False)
        self.from_annotation = nn.Linear(annotation_size, alignment_size, bias=False)
        self.energy = nn.Linear(alignment_size, 1, bias=False)

    def encode_keys(self, annotations: Tensor, padding_mask: Tensor | None) -> Memory:
        """The memory of annotations ``(batch, src_len, 2n)``, computed once for all target positions."""
        return Memory(annotations, self.from_annotation(annotations), padding_mask)

    def forward(self, state: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """c_i ``(batch, 2n)`` and alpha_i ``(batch, src_len)`` for s_{i-1} ``(batch, n)``. Padding has weight zero."""
        aligned = (self.from_state(state).unsqueeze(1) + memory.keys).tanh_()
        return average_annotations(self.energy(aligned).mT, memory)


def average_annotations(energies: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
    """c_i ``(batch · k, 2n)`` and alpha_i ``(batch · k, src_len)`` for the e_ij of k states, ``(batch, k, src_len)``.

    k is 1, but for the fast form of a beam search, where it is the number of hypotheses of a sentence.
    """
    if memory.padding_mask is not None:
        energies = energies.masked_fill(memory.padding_mask.unsqueeze(1), float("-inf"))
    # At least float32: in half precision a softmax over a long sentence loses its small weights.
    weights = torch.softmax(energies, dim=-1, dtype=torch.promote_types(energies.dtype, torch.float32))
    context = torch.bmm(weights.to(memory.annotations.dtype), memory.annotations)
    return context.flatten(0, 1), weights.flatten(0, 1)


class FixedContext(nn.Module):
    """RNNencdec's context, →h_Tx at every step ("if we fix c_i to →h_Tx", A.2.2)."""

    def encode_keys(self, annotations: Tensor, padding_mask: Tensor | None) -> Memory:
        """The memory of →h_Tx: the last of ``(batch, src_len, n)``. Over padding, the encoder repeats its state."""
        return Memory(annotations[:, -1], None, None)

    def forward(self, state: Tensor, memory: Memory) -> tuple[Tensor, None]:
        """c_i ``(batch, n)``, equal at every step, and None for the alignment."""
        return memory.annotations, None
