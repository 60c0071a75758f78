"""The LSTM of Eriguchi, Hashimoto and Tsuruoka (2016), Section 2: without peepholes."""

import torch
from torch import Tensor, nn


class LSTM(nn.Module):
    """One step, and a whole sentence, of::

        i, f, o = σ(W x + U h + b)                  each with its own W, U and b
        u       = tanh(W x + U h + b)
        c' = i ∘ u + f ∘ c
        h' = o ∘ tanh(c')

    Parameters: ``from_input`` ``(4d, m)`` with the bias, and ``from_state`` ``(4d, d)``, have the rows i, f, o, u.
    ``torch.nn.LSTM`` does not give the c of every word, which the leaves of a tree need.
    """

    def __init__(self, input_size: int, size: int) -> None:
        super().__init__()
        self.size = size
        self.from_input = nn.Linear(input_size, 4 * size)
        self.from_state = nn.Linear(size, 4 * size, bias=False)

    def forward(self, projected: Tensor, hidden: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        """(h', c'), ``(batch, d)`` each, from ``from_input`` of x ``(batch, 4d)`` and (h, c)."""
        opened, candidate = (projected + self.from_state(hidden)).split([3 * self.size, self.size], dim=-1)
        in_gate, forget_gate, out_gate = torch.sigmoid(opened).chunk(3, dim=-1)
        memory = in_gate * torch.tanh(candidate) + forget_gate * memory
        return out_gate * torch.tanh(memory), memory

    def scan(self, inputs: Tensor, padding_mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """h and c of every word, ``(batch, src_len, d)`` each, from zero states.

        Args:
            inputs: embedded words, ``(batch, src_len, m)``.
            padding_mask: ``(batch, src_len)``, true at padding, where the state is carried unchanged: so the last
                column is the state after the last word, on whichever side the padding lies.
        """
        projected = self.from_input(inputs).unbind(dim=1)
        padded = None if padding_mask is None else padding_mask.unsqueeze(-1).unbind(dim=1)
        hidden = memory = inputs.new_zeros(len(inputs), self.size)
        states = []
        for j, word in enumerate(projected):
            updated = self(word, hidden, memory)
            if padded is not None:
                updated = tuple(torch.where(padded[j], old, new) for old, new in zip((hidden, memory), updated))
            hidden, memory = updated
            states.append(updated)
        hiddens, memories = zip(*states)
        return torch.stack(hiddens, dim=1), torch.stack(memories, dim=1)
