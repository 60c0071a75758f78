"""The LSTM of Eriguchi, Hashimoto and Tsuruoka (2016), Section 2: without peepholes."""

import torch
from torch import Tensor, nn


class LSTM(nn.Module):
    """One step of the LSTM without peepholes::

        i, f, o = σ(W x + U h + b)                  each with its own W, U and b
        u       = tanh(W x + U h + b)
        c' = i ∘ u + f ∘ c
        h' = o ∘ tanh(c')

    Parameters: ``from_input`` ``(4d, m)``, with the bias, and ``from_state`` ``(4d, d)`` have the rows i, f, o, u.
    ``torch.nn.LSTM`` does not return the c of every word, which the leaves of a tree need.
    """

    def __init__(self, input_size: int, size: int) -> None:
        super().__init__()
        self.size = size
        self.from_input = nn.Linear(input_size, 4 * size)
        self.from_state = nn.Linear(size, 4 * size, bias=False)

    def forward(self, projected: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """(h', c'), ``(batch, d)`` each, from ``from_input`` of x ``(batch, 4d)`` and (h, c)."""
        gates, candidate = (projected + self.from_state(hidden)).split([3 * self.size, self.size], dim=-1)
        in_gate, forget_gate, out_gate = torch.sigmoid(gates).chunk(3, dim=-1)
        cell = in_gate * torch.tanh(candidate) + forget_gate * cell
        return out_gate * torch.tanh(cell), cell
