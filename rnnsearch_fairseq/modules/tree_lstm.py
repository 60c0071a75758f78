"""The binary Tree-LSTM of Eriguchi, Hashimoto and Tsuruoka (2016), Section 3.1: all phrases of one height at once."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


class Forest(NamedTuple):
    """The trees of a batch, as rows of one table of states: first all words, padding included, then all phrases.

    Word j of sentence b is row ``b · src_len + j``. Phrases follow in the order of their heights, so that the children
    of a phrase stand in rows before those of all phrases of its height.

    ``left`` and ``right`` are the rows of each phrase's children, ``(phrases,)``; ``height_sizes`` says how many
    phrases there are of each height, from 1 up. ``phrases`` ``(batch, most_phrases)`` are the rows of each sentence's
    phrases in pre-order: the root first, then its left subtree, then its right; row 0 where a sentence has fewer, and
    ``phrase_padding`` is true there. ``roots`` ``(batch,)`` are the rows of the roots (that of a word, if a tree is one
    leaf); ``unparsed`` ``(batch,)`` is true where there is no tree, and the root means nothing.
    """

    left: Tensor
    right: Tensor
    height_sizes: tuple[int, ...]
    phrases: Tensor
    phrase_padding: Tensor
    roots: Tensor
    unparsed: Tensor


class TreeLSTM(nn.Module):
    """A phrase from its two children (Section 3.1)::

        i, f_l, f_r, o = σ(U_l h_l + U_r h_r + b)       each with its own U_l, U_r and b
        c~             = tanh(U_l h_l + U_r h_r + b)
        c = i ∘ c~ + f_l ∘ c_l + f_r ∘ c_r
        h = o ∘ tanh(c)

    Both forget gates see both children. Parameters: ``from_children.weight`` ``(5d, 2d)`` has the rows i, f_l, f_r, o,
    c~ and the columns U_l, U_r; ``from_children.bias`` is ``(5d,)``.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.from_children = nn.Linear(2 * size, 5 * size)

    def forward(self, left: tuple[Tensor, Tensor], right: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """(h, c) of phrases, ``(..., d)`` each, from (h, c) of their left and right children."""
        gates = self.from_children(torch.cat([left[0], right[0]], dim=-1))
        opened, candidate = gates.split([4 * self.size, self.size], dim=-1)
        in_gate, left_gate, right_gate, out_gate = torch.sigmoid(opened).chunk(4, dim=-1)
        memory = in_gate * torch.tanh(candidate) + left_gate * left[1] + right_gate * right[1]
        return out_gate * torch.tanh(memory), memory

    def encode(self, hidden: Tensor, memory: Tensor, forest: Forest) -> tuple[Tensor, Tensor]:
        """(h, c) of all words and phrases, ``(words + phrases, d)`` each.

        Args:
            hidden, memory: (h, c) of the words, ``(words, d)``.
        """
        weight, bias = self.from_children.weight, self.from_children.bias
        children = torch.stack([forest.left, forest.right], dim=1).flatten()
        return _Composition.apply(weight, bias, hidden, memory, children, forest.height_sizes)


class _Composition(torch.autograd.Function):
    """All phrases of a batch, height by height, with their gradient.

    Autograd would keep a copy of the growing table of states for every height, and fill another with zeros for its
    gradient. Here each table is written once, and the gradient of the weights is one product over all phrases.
    ``children`` ``(2 phrases,)`` are the rows of each phrase's left and right child.
    """

    @staticmethod
    def forward(
        ctx: Any,
        weight: Tensor,
        bias: Tensor,
        hidden: Tensor,
        memory: Tensor,
        children: Tensor,
        height_sizes: tuple[int, ...],
    ) -> tuple[Tensor, Tensor]:
        words, phrases = len(hidden), len(children) // 2
        hiddens = torch.cat([hidden, hidden.new_empty(phrases, hidden.size(1))])
        memories = torch.cat([memory, memory.new_empty(phrases, memory.size(1))])
        gates = hidden.new_empty(phrases, len(weight))
        end = 0
        for size in height_sizes:
            begin, end = end, end + size
            rows = children[2 * begin : 2 * end]
            torch.addmm(bias, hiddens.index_select(0, rows).view(size, -1), weight.T, out=gates[begin:end])
            new = slice(words + begin, words + end)
            below = memories.index_select(0, rows).view(size, -1)
            _open_gates(gates[begin:end], below, hiddens[new], memories[new])
        ctx.save_for_backward(weight, hiddens, memories, gates, children)
        ctx.height_sizes = height_sizes
        return hiddens, memories

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_hiddens: Tensor, grad_memories: Tensor) -> tuple[Tensor | None, ...]:
        weight, hiddens, memories, gates, children = ctx.saved_tensors
        phrases, size = len(gates), hiddens.size(1)
        words = len(hiddens) - phrases
        child_memories = memories.index_select(0, children).view(phrases, 2 * size)
        grad_gates = torch.empty_like(gates)
        # Of a node's states, what comes from its only parent: one row for each child of each phrase, and a last one,
        # zero, for the nodes without a parent.
        from_parent = children.new_full((len(hiddens),), 2 * phrases)
        from_parent[children] = torch.arange(2 * phrases, device=children.device)
        to_hiddens, to_memories = (hiddens.new_zeros(2 * phrases + 1, size) for _ in range(2))
        begin = phrases
        for count in reversed(ctx.height_sizes):
            begin, end = begin - count, begin
            rows, below = slice(words + begin, words + end), slice(2 * begin, 2 * end)
            to_memories[below] = _open_gates_backward(
                gates[begin:end],
                child_memories[begin:end],
                memories[rows],
                grad_hiddens[rows] + to_hiddens.index_select(0, from_parent[rows]),
                grad_memories[rows] + to_memories.index_select(0, from_parent[rows]),
                grad_gates[begin:end],
            ).view(-1, size)
            torch.mm(grad_gates[begin:end], weight, out=to_hiddens[below].view(count, -1))
        return (
            grad_gates.T @ hiddens.index_select(0, children).view(phrases, 2 * size),
            grad_gates.sum(dim=0),
            grad_hiddens[:words] + to_hiddens.index_select(0, from_parent[:words]),
            grad_memories[:words] + to_memories.index_select(0, from_parent[:words]),
            *(None, None),
        )


def _open_gates(gates: Tensor, child_memories: Tensor, hidden: Tensor, memory: Tensor) -> None:
    """Write (h, c) into ``hidden`` and ``memory``, ``(phrases, d)``, from [c_l, c_r] ``(phrases, 2d)`` and the sums.

    The sums inside the gates, ``gates`` ``(phrases, 5d)``, become i, f_l, f_r, o, c~ where they are.
    """
    size = memory.size(1)
    gates[:, : 4 * size].sigmoid_()
    gates[:, 4 * size :].tanh_()
    in_gate, left_gate, right_gate, out_gate, candidate = gates.chunk(5, dim=1)
    left, right = child_memories.chunk(2, dim=1)
    torch.mul(in_gate, candidate, out=memory).addcmul_(left_gate, left).addcmul_(right_gate, right)
    torch.tanh(memory, out=hidden).mul_(out_gate)


def _open_gates_backward(
    gates: Tensor, child_memories: Tensor, memory: Tensor, grad_hidden: Tensor, grad_memory: Tensor, grad_gates: Tensor
) -> Tensor:
    """The gradient of :func:`_open_gates`: of the sums into ``grad_gates``; returns that of [c_l, c_r].

    ``grad_memory`` is overwritten.
    """
    size = memory.size(1)
    squashed = torch.tanh(memory)
    grad_memory += torch.ops.aten.tanh_backward(grad_hidden * gates[:, 3 * size : 4 * size], squashed)
    torch.mul(grad_memory, gates[:, 4 * size :], out=grad_gates[:, :size])
    twice = grad_memory.repeat(1, 2)
    torch.mul(twice, child_memories, out=grad_gates[:, size : 3 * size])
    torch.mul(grad_hidden, squashed, out=grad_gates[:, 3 * size : 4 * size])
    torch.mul(grad_memory, gates[:, :size], out=grad_gates[:, 4 * size :])
    sums, opened = (tensor[:, : 4 * size] for tensor in (grad_gates, gates))
    torch.ops.aten.sigmoid_backward.grad_input(sums, opened, grad_input=sums)
    sums, candidate = (tensor[:, 4 * size :] for tensor in (grad_gates, gates))
    torch.ops.aten.tanh_backward.grad_input(sums, candidate, grad_input=sums)
    return twice * gates[:, size : 3 * size]
