"""The gated hidden unit of Cho et al. (2014a), Appendix A.1.1 of the paper."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class GatedHiddenUnit(nn.Module):
    """One step of the recurrent network f of Appendix A.1.1, used in the encoder (A.2.1) and the decoder (A.2.2)::

        s_i  = (1 - z_i) ∘ s_{i-1} + z_i ∘ s~_i
        s~_i = tanh(W x_i + U [r_i ∘ s_{i-1}] + C c_i + b)
        z_i  = σ(W_z x_i + U_z s_{i-1} + C_z c_i)        update gate
        r_i  = σ(W_r x_i + U_r s_{i-1} + C_r c_i)        reset gate

    The reset gate is applied *before* the recurrent matrix U, so this is not ``torch.nn.GRU``. Only the candidate
    s~_i has a bias, as in the original code. The encoder has no context: ``context_size`` is 0, and there are no C's.

    Matrices that multiply the same vector are stored as one parameter, so that they take one product. The rows of
    ``from_input.weight`` ``(3n, m)`` are W, W_z, W_r; of ``from_state.weight`` ``(2n, n)`` U_z, U_r; of
    ``from_context.weight`` ``(3n, context_size)`` C, C_z, C_r. ``from_reset_state.weight`` ``(n, n)`` is U, and
    ``bias`` ``(n,)`` is b.
    """

    def __init__(self, input_size: int, hidden_size: int, context_size: int = 0) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.from_input = nn.Linear(input_size, 3 * hidden_size, bias=False)
        self.from_state = nn.Linear(hidden_size, 2 * hidden_size, bias=False)
        self.from_reset_state = nn.Linear(hidden_size, hidden_size, bias=False)
        self.from_context = nn.Linear(context_size, 3 * hidden_size, bias=False) if context_size else None
        self.bias = nn.Parameter(torch.zeros(hidden_size))

    def project_input(self, inputs: Tensor) -> Tensor:
        """[W x + b; W_z x; W_r x] ``(..., 3n)`` of inputs ``(..., m)``; independent of the state."""
        return F.linear(inputs, self.from_input.weight, F.pad(self.bias, (0, 2 * self.hidden_size)))

    def forward(self, projected: Tensor, state: Tensor) -> Tensor:
        """s_i ``(batch, n)`` from s_{i-1} ``(batch, n)`` and ``projected`` ``(batch, 3n)``.

        ``projected`` is :meth:`project_input` of x_i, plus ``from_context(c_i)`` in a decoder.
        """
        n = self.hidden_size
        for_candidate, for_gates = projected.split([n, 2 * n], dim=-1)
        update, reset = torch.sigmoid(for_gates + self.from_state(state)).chunk(2, dim=-1)
        candidate = torch.tanh(for_candidate + self.from_reset_state(reset * state))
        return state + update * (candidate - state)  # (1 - z) ∘ s_{i-1} + z ∘ s~_i
