"""The loops of the tree-to-sequence model with hand-written gradients: each weight's gradient is one product."""

from typing import Any

import torch
from torch import Tensor

from rnnsearch_fairseq.modules.lstm import LSTM
from rnnsearch_fairseq.modules.tree_decoder import TreeDecoder, mix_states, score_states
from rnnsearch_fairseq.modules.tree_encoder import Constituents, TreeEncoder
from rnnsearch_fairseq.modules.tree_lstm import Forest, TreeLSTM


class FusedLSTM(LSTM):
    """:class:`~rnnsearch_fairseq.modules.lstm.LSTM` with a hand-written gradient."""

    def scan(self, inputs: Tensor, padding_mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """As in the base class."""
        projected = self.from_input(inputs.transpose(0, 1))
        kept = None if padding_mask is None else (~padding_mask).T.unsqueeze(2).to(inputs.dtype)
        hiddens, cells = _LSTMScan.apply(projected, self.from_state.weight, kept)
        return hiddens.transpose(0, 1), cells.transpose(0, 1)


class FusedTreeLSTM(TreeLSTM):
    """:class:`~rnnsearch_fairseq.modules.tree_lstm.TreeLSTM` with a hand-written gradient."""

    def encode(self, hidden: Tensor, cell: Tensor, forest: Forest) -> tuple[Tensor, Tensor]:
        """As in the base class."""
        weight, bias = self.from_children.weight, self.from_children.bias
        children = torch.stack([forest.left, forest.right], dim=1).flatten()
        return _TreeScan.apply(weight, bias, hidden, cell, children, forest.height_sizes)


class FusedTreeEncoder(TreeEncoder):
    """:class:`~rnnsearch_fairseq.modules.tree_encoder.TreeEncoder` of the two above."""

    LSTM, TreeLSTM = FusedLSTM, FusedTreeLSTM


class FusedTreeDecoder(TreeDecoder):
    """:class:`~rnnsearch_fairseq.modules.tree_decoder.TreeDecoder` with a hand-written gradient."""

    def scan(self, previous_words: Tensor, source: Constituents) -> tuple[Tensor, Tensor]:
        """As in the base class."""
        hidden, cell, _ = self.initial_state(source)
        return _DecoderScan.apply(
            self.lstm.from_input(self.embedding(previous_words[:, 1:].T)),
            torch.cat([self.lstm.from_state.weight, self.from_fed.weight], dim=1),
            torch.cat([self.from_state.weight, self.from_context.weight], dim=1),
            self.from_state.bias,
            hidden,
            cell,
            source.states,
            source.padding_mask,
        )


def _open_gates(gates: Tensor, cell_before: Tensor, hidden: Tensor, cell: Tensor) -> None:
    """Write (h', c') into ``hidden`` and ``cell``, ``(batch, d)`` each, from c and the sums inside the gates.

    The sums, ``gates`` ``(batch, 4d)``, become i, f, o, u where they are.
    """
    size = cell.size(1)
    gates[:, : 3 * size].sigmoid_()
    gates[:, 3 * size :].tanh_()
    in_gate, forget_gate, out_gate, candidate = gates.chunk(4, dim=1)
    torch.mul(forget_gate, cell_before, out=cell).addcmul_(in_gate, candidate)
    torch.tanh(cell, out=hidden).mul_(out_gate)


def _open_gates_backward(
    gates: Tensor, cell_before: Tensor, cell: Tensor, grad_hidden: Tensor, grad_cell: Tensor, grad_gates: Tensor
) -> Tensor:
    """The gradient of :func:`_open_gates`: of the gates' sums into ``grad_gates``; returns that of c ``(batch, d)``.

    Args:
        gates: i, f, o, u, ``(batch, 4d)``.
        cell_before, cell: c and c'.
        grad_hidden, grad_cell: the gradients of h' and c'; the second is overwritten.
    """
    in_gate, forget_gate, out_gate, candidate = gates.chunk(4, dim=1)
    to_in, to_forget, to_out, to_candidate = grad_gates.chunk(4, dim=1)
    squashed = torch.tanh(cell)
    grad_cell += torch.ops.aten.tanh_backward(grad_hidden * out_gate, squashed)
    torch.mul(grad_cell, candidate, out=to_in)
    torch.mul(grad_cell, cell_before, out=to_forget)
    torch.mul(grad_hidden, squashed, out=to_out)
    torch.mul(grad_cell, in_gate, out=to_candidate)
    sums, opened = (tensor[:, : 3 * cell.size(1)] for tensor in (grad_gates, gates))
    torch.ops.aten.sigmoid_backward.grad_input(sums, opened, grad_input=sums)
    torch.ops.aten.tanh_backward.grad_input(to_candidate, candidate, grad_input=to_candidate)
    return grad_cell * forget_gate


class _LSTMScan(torch.autograd.Function):
    """All words, with their gradient. Autograd would make one product for the weights' gradient at every step.

    Everything is time first: ``projected`` ``(src_len, batch, 4d)``, ``kept`` ``(src_len, batch, 1)``, zero at padding.
    """

    @staticmethod
    def forward(ctx: Any, projected: Tensor, weight: Tensor, kept: Tensor | None) -> tuple[Tensor, Tensor]:
        steps, batch, _ = projected.shape
        hiddens, cells = (projected.new_empty(steps, batch, weight.size(1)) for _ in range(2))
        gates = torch.empty_like(projected, memory_format=torch.contiguous_format)
        hidden = cell = projected.new_zeros(batch, weight.size(1))
        for j in range(steps):
            torch.addmm(projected[j], hidden, weight.T, out=gates[j])
            _open_gates(gates[j], cell, hiddens[j], cells[j])
            hidden, cell = hiddens[j], cells[j]
            if kept is not None:
                hidden *= kept[j]
                cell *= kept[j]
        ctx.save_for_backward(weight, kept, gates, hiddens, cells)
        return hiddens, cells

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_hiddens: Tensor, grad_cells: Tensor) -> tuple[Tensor | None, ...]:
        weight, kept, gates, hiddens, cells = ctx.saved_tensors
        grad_gates = torch.empty_like(gates)
        zero = torch.zeros_like(cells[0])
        to_hidden, to_cell = zero, zero
        for j in reversed(range(len(gates))):
            grad_hidden, grad_cell = grad_hiddens[j] + to_hidden, grad_cells[j] + to_cell
            if kept is not None:
                grad_hidden, grad_cell = grad_hidden * kept[j], grad_cell * kept[j]
            before = cells[j - 1] if j else zero
            to_cell = _open_gates_backward(gates[j], before, cells[j], grad_hidden, grad_cell, grad_gates[j])
            to_hidden = grad_gates[j] @ weight
        grad_weight = grad_gates[1:].flatten(0, 1).T @ hiddens[:-1].flatten(0, 1)
        return grad_gates, grad_weight, None


class _TreeScan(torch.autograd.Function):
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
        cell: Tensor,
        children: Tensor,
        height_sizes: tuple[int, ...],
    ) -> tuple[Tensor, Tensor]:
        words, phrases = len(hidden), len(children) // 2
        hiddens = torch.cat([hidden, hidden.new_empty(phrases, hidden.size(1))])
        cells = torch.cat([cell, cell.new_empty(phrases, cell.size(1))])
        gates = hidden.new_empty(phrases, len(weight))
        end = 0
        for size in height_sizes:
            begin, end = end, end + size
            rows = children[2 * begin : 2 * end]
            torch.addmm(bias, hiddens.index_select(0, rows).view(size, -1), weight.T, out=gates[begin:end])
            new = slice(words + begin, words + end)
            below = cells.index_select(0, rows).view(size, -1)
            _open_tree_gates(gates[begin:end], below, hiddens[new], cells[new])
        ctx.save_for_backward(weight, hiddens, cells, gates, children)
        ctx.height_sizes = height_sizes
        return hiddens, cells

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_hiddens: Tensor, grad_cells: Tensor) -> tuple[Tensor | None, ...]:
        weight, hiddens, cells, gates, children = ctx.saved_tensors
        phrases, size = len(gates), hiddens.size(1)
        words = len(hiddens) - phrases
        child_cells = cells.index_select(0, children).view(phrases, 2 * size)
        grad_gates = torch.empty_like(gates)
        # Of a node's states, what comes from its only parent: one row for each child of each phrase, and a last one,
        # zero, for the nodes without a parent.
        from_parent = children.new_full((len(hiddens),), 2 * phrases)
        from_parent[children] = torch.arange(2 * phrases, device=children.device)
        to_hiddens, to_cells = (hiddens.new_zeros(2 * phrases + 1, size) for _ in range(2))
        begin = phrases
        for count in reversed(ctx.height_sizes):
            begin, end = begin - count, begin
            rows, below = slice(words + begin, words + end), slice(2 * begin, 2 * end)
            to_cells[below] = _open_tree_gates_backward(
                gates[begin:end],
                child_cells[begin:end],
                cells[rows],
                grad_hiddens[rows] + to_hiddens.index_select(0, from_parent[rows]),
                grad_cells[rows] + to_cells.index_select(0, from_parent[rows]),
                grad_gates[begin:end],
            ).view(-1, size)
            torch.mm(grad_gates[begin:end], weight, out=to_hiddens[below].view(count, -1))
        return (
            grad_gates.T @ hiddens.index_select(0, children).view(phrases, 2 * size),
            grad_gates.sum(dim=0),
            grad_hiddens[:words] + to_hiddens.index_select(0, from_parent[:words]),
            grad_cells[:words] + to_cells.index_select(0, from_parent[:words]),
            *(None, None),
        )


def _open_tree_gates(gates: Tensor, child_cells: Tensor, hidden: Tensor, cell: Tensor) -> None:
    """Write (h, c) into ``hidden`` and ``cell``, ``(phrases, d)``, from [c_l, c_r] ``(phrases, 2d)`` and the sums.

    The sums inside the gates, ``gates`` ``(phrases, 5d)``, become i, f_l, f_r, o, c~ where they are.
    """
    size = cell.size(1)
    gates[:, : 4 * size].sigmoid_()
    gates[:, 4 * size :].tanh_()
    in_gate, left_gate, right_gate, out_gate, candidate = gates.chunk(5, dim=1)
    left, right = child_cells.chunk(2, dim=1)
    torch.mul(in_gate, candidate, out=cell).addcmul_(left_gate, left).addcmul_(right_gate, right)
    torch.tanh(cell, out=hidden).mul_(out_gate)


def _open_tree_gates_backward(
    gates: Tensor, child_cells: Tensor, cell: Tensor, grad_hidden: Tensor, grad_cell: Tensor, grad_gates: Tensor
) -> Tensor:
    """The gradient of :func:`_open_tree_gates`: of the sums into ``grad_gates``; returns that of [c_l, c_r].

    ``grad_cell`` is overwritten.
    """
    size = cell.size(1)
    squashed = torch.tanh(cell)
    grad_cell += torch.ops.aten.tanh_backward(grad_hidden * gates[:, 3 * size : 4 * size], squashed)
    torch.mul(grad_cell, gates[:, 4 * size :], out=grad_gates[:, :size])
    twice = grad_cell.repeat(1, 2)
    torch.mul(twice, child_cells, out=grad_gates[:, size : 3 * size])
    torch.mul(grad_hidden, squashed, out=grad_gates[:, 3 * size : 4 * size])
    torch.mul(grad_cell, gates[:, :size], out=grad_gates[:, 4 * size :])
    sums, opened = (tensor[:, : 4 * size] for tensor in (grad_gates, gates))
    torch.ops.aten.sigmoid_backward.grad_input(sums, opened, grad_input=sums)
    sums, candidate = (tensor[:, 4 * size :] for tensor in (grad_gates, gates))
    torch.ops.aten.tanh_backward.grad_input(sums, candidate, grad_input=sums)
    return twice * gates[:, size : 3 * size]


class _DecoderScan(torch.autograd.Function):
    """All positions, with their gradient.

    Autograd would make a product for the gradient of each weight, and of the encoded source, at every position; here
    there is one for all positions.
    """

    @staticmethod
    def forward(
        ctx: Any,
        projected: Tensor,
        recurrent: Tensor,
        combining: Tensor,
        bias: Tensor,
        hidden: Tensor,
        cell: Tensor,
        states: Tensor,
        padding_mask: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Time first: ``projected`` ``(tgt_len - 1, batch, 4d)``, of the words before the second position and on.

        ``recurrent`` ``(4d, 2d)`` takes [s_{j-1}; s~_{j-1}], ``combining`` ``(d, 2d)`` [s_j; d_j].
        """
        steps, (batch, size) = len(projected) + 1, hidden.shape
        gates = projected.new_empty(steps - 1, batch, 4 * size)
        cells = projected.new_empty(steps, batch, size)
        seen = projected.new_empty(steps, batch, 2 * size)  # [s_j; d_j]
        recalled = projected.new_empty(steps, batch, 2 * size)  # [s_j; s~_j]
        # In half precision a softmax over many constituents loses its small weights: float32 at least.
        precise = torch.promote_types(projected.dtype, torch.float32)
        weights = projected.new_empty(steps, batch, states.size(1), dtype=precise)
        seen[0, :, :size], cells[0] = hidden, cell
        for j in range(steps):
            hidden, context = seen[j].split(size, dim=1)
            if j:
                torch.addmm(projected[j - 1], recalled[j - 1], recurrent.T, out=gates[j - 1])
                _open_gates(gates[j - 1], cells[j - 1], hidden, cells[j])
            scores = score_states(hidden, states).masked_fill_(padding_mask, float("-inf"))
            weights[j] = torch.softmax(scores, dim=1, dtype=precise)
            context.copy_(mix_states(weights[j], states))
            recalled[j, :, :size] = hidden
            torch.tanh(torch.addmm(bias, seen[j], combining.T), out=recalled[j, :, size:])
        ctx.save_for_backward(recurrent, combining, states, gates, cells, seen, recalled, weights)
        return recalled[:, :, size:].transpose(0, 1).contiguous(), weights.transpose(0, 1).contiguous()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_attended: Tensor, grad_weights: Tensor) -> tuple[Tensor | None, ...]:
        recurrent, combining, states, gates, cells, seen, recalled, weights = ctx.saved_tensors
        size = cells.size(2)
        grad_gates = torch.empty_like(gates)
        grad_sums = torch.empty_like(cells)  # inside the tanh of s~
        grad_seen, grad_scores = torch.empty_like(seen), torch.empty_like(weights)
        to_recalled = torch.zeros_like(seen[0])
        to_cell = torch.zeros_like(cells[0])
        for j in reversed(range(len(cells))):
            grad_fed = grad_attended[:, j] + to_recalled[:, size:]
            torch.ops.aten.tanh_backward.grad_input(grad_fed, recalled[j, :, size:], grad_input=grad_sums[j])
            torch.mm(grad_sums[j], combining, out=grad_seen[j])
            to_hidden, to_context = grad_seen[j].chunk(2, dim=1)
            to_weights = grad_weights[:, j] + score_states(to_context, states)
            grad_scores[j] = weights[j] * (to_weights - (weights[j] * to_weights).sum(dim=1, keepdim=True))
            to_hidden = mix_states(grad_scores[j], states).add_(to_hidden).add_(to_recalled[:, :size])
            if j:
                to_cell = _open_gates_backward(
                    gates[j - 1], cells[j - 1], cells[j], to_hidden, to_cell, grad_gates[j - 1]
                )
                to_recalled = grad_gates[j - 1] @ recurrent
        # alpha's part of a state's gradient, and that of its score.
        both = torch.cat([weights, grad_scores]).permute(1, 2, 0).to(states.dtype)
        grad_states = both @ torch.cat([grad_seen[:, :, size:], seen[:, :, :size]]).transpose(0, 1)
        return (
            grad_gates,
            grad_gates.flatten(0, 1).T @ recalled[:-1].flatten(0, 1),
            grad_sums.flatten(0, 1).T @ seen.flatten(0, 1),
            grad_sums.sum(dim=(0, 1)),
            to_hidden,
            to_cell,
            grad_states,
            None,
        )
