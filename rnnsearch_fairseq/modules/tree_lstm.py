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
        return compose(gates, left[1], right[1])

    def encode(self, hidden: Tensor, memory: Tensor, forest: Forest) -> tuple[Tensor, Tensor]:
        """(h, c) of all words and phrases, ``(words + phrases, d)`` each.

        Args:
            hidden, memory: (h, c) of the words, ``(words, d)``.
        """
        weight, bias = self.from_children.weight, self.from_children.bias
        return _Composition.apply(weight, bias, hidden, memory, forest.left, forest.right, forest.height_sizes)


def compose(gates: Tensor, left_memory: Tensor, right_memory: Tensor) -> tuple[Tensor, Tensor]:
    """(h, c) from the sums inside the five gates ``(..., 5d)`` and the children's c ``(..., d)``."""
    size = left_memory.size(-1)
    opened, candidate = gates.split([4 * size, size], dim=-1)
    in_gate, left_gate, right_gate, out_gate = torch.sigmoid(opened).chunk(4, dim=-1)
    memory = in_gate * torch.tanh(candidate) + left_gate * left_memory + right_gate * right_memory
    return out_gate * torch.tanh(memory), memory


class _Composition(torch.autograd.Function):
    """All phrases of a batch, height by height, with their gradient.

    Autograd would keep a copy of the growing table of states for every height, and fill another with zeros for its
    gradient. Here each table is written once, and the gradient of the weights is one product over all phrases.
    """

    @staticmethod
    def forward(
        ctx: Any,
        weight: Tensor,
        bias: Tensor,
        hidden: Tensor,
        memory: Tensor,
        left: Tensor,
        right: Tensor,
        height_sizes: tuple[int, ...],
    ) -> tuple[Tensor, Tensor]:
        words, phrases = len(hidden), len(left)
        hiddens = torch.cat([hidden, hidden.new_empty(phrases, hidden.size(1))])
        memories = torch.cat([memory, memory.new_empty(phrases, memory.size(1))])
        all_gates = hidden.new_empty(phrases, len(weight))
        begin = 0
        for size in height_sizes:
            these = slice(begin, begin + size)
            children = torch.cat([hiddens[left[these]], hiddens[right[these]]], dim=1)
            all_gates[these] = torch.addmm(bias, children, weight.T)
            rows = slice(words + begin, words + begin + size)
            hiddens[rows], memories[rows] = compose(all_gates[these], memories[left[these]], memories[right[these]])
            begin += size
        ctx.save_for_backward(weight, hiddens, memories, all_gates, left, right)
        ctx.height_sizes = height_sizes
        return hiddens, memories

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_hiddens: Tensor, grad_memories: Tensor) -> tuple[Tensor | None, ...]:
        weight, hiddens, memories, all_gates, left, right = ctx.saved_tensors
        words, size = len(hiddens) - len(left), hiddens.size(1)
        grad_hiddens, grad_memories = grad_hiddens.clone(), grad_memories.clone()
        grad_gates = torch.empty_like(all_gates)
        end = len(left)
        for count in reversed(ctx.height_sizes):
            these, rows = slice(end - count, end), slice(words + end - count, words + end)
            grad_gates[these], to_left, to_right = _compose_backward(
                all_gates[these],
                memories[rows],
                memories[left[these]],
                memories[right[these]],
                grad_hiddens[rows],
                grad_memories[rows],
            )
            to_children = grad_gates[these] @ weight
            # No node has two parents: nothing is added twice to one row.
            grad_hiddens[left[these]] += to_children[:, :size]
            grad_hiddens[right[these]] += to_children[:, size:]
            grad_memories[left[these]] += to_left
            grad_memories[right[these]] += to_right
            end -= count
        children = torch.cat([hiddens[left], hiddens[right]], dim=1)
        return (
            grad_gates.T @ children,
            grad_gates.sum(dim=0),
            grad_hiddens[:words],
            grad_memories[:words],
            *(None, None, None),
        )


def _compose_backward(
    gates: Tensor, memory: Tensor, left_memory: Tensor, right_memory: Tensor, grad_hidden: Tensor, grad_memory: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradient of :func:`compose`: of the gates' sums, and of the left and right child's c."""
    size = memory.size(1)
    opened, candidate = gates.split([4 * size, size], dim=1)
    opened, candidate = torch.sigmoid(opened), torch.tanh(candidate)
    in_gate, left_gate, right_gate, out_gate = opened.chunk(4, dim=1)
    squashed = torch.tanh(memory)
    grad_memory = grad_memory + grad_hidden * out_gate * (1 - squashed**2)
    grad_opened = torch.cat(
        [grad_memory * candidate, grad_memory * left_memory, grad_memory * right_memory, grad_hidden * squashed], dim=1
    )
    grad_gates = torch.cat([grad_opened * opened * (1 - opened), grad_memory * in_gate * (1 - candidate**2)], dim=1)
    return grad_gates, grad_memory * left_gate, grad_memory * right_gate
