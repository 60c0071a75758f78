"""The LSTM of Eriguchi, Hashimoto and Tsuruoka (2016), Section 2: without peepholes."""

from typing import Any

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
        """h and c of every word, ``(batch, src_len, d)`` each, from zero states; zero at padding, on either side.

        Args:
            inputs: embedded words, ``(batch, src_len, m)``.
            padding_mask: ``(batch, src_len)``, true at padding.
        """
        projected = self.from_input(inputs.transpose(0, 1))
        kept = None if padding_mask is None else (~padding_mask).T.unsqueeze(2).to(inputs.dtype)
        hiddens, memories = _Scan.apply(projected, self.from_state.weight, kept)
        return hiddens.transpose(0, 1), memories.transpose(0, 1)


def open_gates(gates: Tensor, memory_before: Tensor, hidden: Tensor, memory: Tensor) -> None:
    """Write (h', c') into ``hidden`` and ``memory``, ``(batch, d)`` each, from c and the sums inside the gates.

    The sums, ``gates`` ``(batch, 4d)``, become i, f, o, u where they are.
    """
    size = memory.size(1)
    gates[:, : 3 * size].sigmoid_()
    gates[:, 3 * size :].tanh_()
    in_gate, forget_gate, out_gate, candidate = gates.chunk(4, dim=1)
    torch.mul(forget_gate, memory_before, out=memory).addcmul_(in_gate, candidate)
    torch.tanh(memory, out=hidden).mul_(out_gate)


def open_gates_backward(
    gates: Tensor, memory_before: Tensor, memory: Tensor, grad_hidden: Tensor, grad_memory: Tensor, grad_gates: Tensor
) -> Tensor:
    """The gradient of :func:`open_gates`: of the gates' sums into ``grad_gates``; returns that of c ``(batch, d)``.

    Args:
        gates: i, f, o, u, ``(batch, 4d)``.
        memory_before, memory: c and c'.
        grad_hidden, grad_memory: the gradients of h' and c'; the second is overwritten.
    """
    in_gate, forget_gate, out_gate, candidate = gates.chunk(4, dim=1)
    to_in, to_forget, to_out, to_candidate = grad_gates.chunk(4, dim=1)
    squashed = torch.tanh(memory)
    grad_memory += torch.ops.aten.tanh_backward(grad_hidden * out_gate, squashed)
    torch.mul(grad_memory, candidate, out=to_in)
    torch.mul(grad_memory, memory_before, out=to_forget)
    torch.mul(grad_hidden, squashed, out=to_out)
    torch.mul(grad_memory, in_gate, out=to_candidate)
    sums, opened = (tensor[:, : 3 * memory.size(1)] for tensor in (grad_gates, gates))
    torch.ops.aten.sigmoid_backward.grad_input(sums, opened, grad_input=sums)
    torch.ops.aten.tanh_backward.grad_input(to_candidate, candidate, grad_input=to_candidate)
    return grad_memory * forget_gate


class _Scan(torch.autograd.Function):
    """All steps, with their gradient. Autograd would make one product for the weights' gradient at every step.

    Everything is time first: ``projected`` ``(src_len, batch, 4d)``, ``kept`` ``(src_len, batch, 1)``, zero at padding.
    """

    @staticmethod
    def forward(ctx: Any, projected: Tensor, weight: Tensor, kept: Tensor | None) -> tuple[Tensor, Tensor]:
        steps, batch, _ = projected.shape
        hiddens, memories = (projected.new_empty(steps, batch, weight.size(1)) for _ in range(2))
        gates = torch.empty_like(projected, memory_format=torch.contiguous_format)
        hidden = memory = projected.new_zeros(batch, weight.size(1))
        for j in range(steps):
            torch.addmm(projected[j], hidden, weight.T, out=gates[j])
            open_gates(gates[j], memory, hiddens[j], memories[j])
            hidden, memory = hiddens[j], memories[j]
            if kept is not None:
                hidden *= kept[j]
                memory *= kept[j]
        ctx.save_for_backward(weight, kept, gates, hiddens, memories)
        return hiddens, memories

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_hiddens: Tensor, grad_memories: Tensor) -> tuple[Tensor | None, ...]:
        weight, kept, gates, hiddens, memories = ctx.saved_tensors
        grad_gates = torch.empty_like(gates)
        zero = torch.zeros_like(memories[0])
        to_hidden, to_memory = zero, zero
        for j in reversed(range(len(gates))):
            grad_hidden, grad_memory = grad_hiddens[j] + to_hidden, grad_memories[j] + to_memory
            if kept is not None:
                grad_hidden, grad_memory = grad_hidden * kept[j], grad_memory * kept[j]
            before = memories[j - 1] if j else zero
            to_memory = open_gates_backward(gates[j], before, memories[j], grad_hidden, grad_memory, grad_gates[j])
            to_hidden = grad_gates[j] @ weight
        grad_weight = grad_gates[1:].flatten(0, 1).T @ hiddens[:-1].flatten(0, 1)
        return grad_gates, grad_weight, None
