"""The two loops over time, as the paper writes them. Nothing else in the models steps through words.

:mod:`~rnnsearch_fairseq.modules.fused_scan` has the same functions, faster.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from rnnsearch_fairseq.modules.alignment import Memory
from rnnsearch_fairseq.modules.gated_unit import GatedHiddenUnit

if TYPE_CHECKING:
    from rnnsearch_fairseq.modules.decoder import Decoder


def encoder_scan(units: Sequence[GatedHiddenUnit], inputs: Tensor, padding_mask: Tensor | None = None) -> list[Tensor]:
    """All states of the encoder's directions (A.2.1), starting from zero.

    Args:
        units: that which reads from the first word to the last and, if there is one, that which reads backward.
        inputs: embedded words, ``(batch, src_len, m)``.
        padding_mask: ``(batch, src_len)``, true at padding, where the state is carried unchanged: so →h at the last
            position is →h_Tx, and ←h at the first is ←h_1, on whichever side the padding lies.

    Returns:
        Of each direction the states in the order of the words, ``(batch, src_len, n)``.
    """
    return [_direction_scan(unit, inputs, padding_mask, reverse=k == 1) for k, unit in enumerate(units)]


def _direction_scan(unit: GatedHiddenUnit, inputs: Tensor, padding_mask: Tensor | None, reverse: bool) -> Tensor:
    projected = unit.project_input(inputs).unbind(dim=1)
    padded = None if padding_mask is None else padding_mask.unsqueeze(-1).unbind(dim=1)
    state = projected[0].new_zeros(inputs.size(0), unit.hidden_size)
    states = []
    for j in reversed(range(len(projected))) if reverse else range(len(projected)):
        updated = unit(projected[j], state)
        state = updated if padded is None else torch.where(padded[j], state, updated)
        states.append(state)
    return torch.stack(states[::-1] if reverse else states, dim=1)


class DecoderScan(NamedTuple):
    """What the readout needs of all positions: ``read_states`` ``(tgt_len, batch, n)``, s_{i-1} or s_i, and the c_i.

    ``contexts`` are ``(tgt_len, batch, 2n)``; ``weights`` the alpha_ij, ``(tgt_len, batch, src_len)``, None without an
    alignment model; ``state`` is the last, ``(batch, n)``.
    """

    read_states: Tensor
    contexts: Tensor
    weights: Tensor | None
    state: Tensor


def decoder_scan(
    decoder: "Decoder", embedded: Tensor, state: Tensor, context: Tensor | None, memory: Memory
) -> DecoderScan:
    """All states of the decoder (A.2.2) with the previous words given.

    Args:
        embedded: E y_{i-1} for i = 1 ... T_y, or for one i, ``(tgt_len, batch, m)``.
        state: the state before the first of these positions, ``(batch, n)``.
        context: the context before that position, ``(batch, 2n)``; None at the beginning.
        memory: the encoded source.
    """
    steps = []
    for projected in decoder.unit.project_input(embedded):
        steps.append(decoder.step(projected, state, context, memory))
        state, context = steps[-1].state, steps[-1].context
    read_states, _, contexts, weights = zip(*steps)
    return DecoderScan(
        torch.stack(read_states),
        torch.stack(contexts),
        None if weights[0] is None else torch.stack(weights),
        state,
    )
