"""The loops of the tree-to-sequence model with hand-written gradients: each weight's gradient is a single product."""

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
        mask = None if padding_mask is None else (~padding_mask).T.unsqueeze(2).to(inputs.dtype)
        hiddens, cells = _LSTMScan.apply(projected, self.from_state.weight, mask)
        return hiddens.transpose(0, 1), cells.transpose(0, 1)


class FusedTreeLSTM(TreeLSTM):
    """:class:`~rnnsearch_fairseq.modules.tree_lstm.TreeLSTM` with a hand-written gradient."""

    def encode(self, hidden: Tensor, cell: Tensor, forest: Forest) -> tuple[Tensor, Tensor]:
        """As in the base class."""
        weight, bias = self.from_children.weight, self.from_children.bias
        children = torch.stack([forest.left, forest.right], dim=1).flatten()
        return _TreeScan.apply(weight, bias, hidden, cell, children, forest.height_sizes)


class FusedTreeEncoder(TreeEncoder):
    """:class:`~rnnsearch_fairseq.modules.tree_encoder.TreeEncoder` with the fused LSTM and Tree-LSTM."""

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


def _lstm_cell(gates: Tensor, cell_before: Tensor, hidden: Tensor, cell: Tensor) -> None:
    """Write (h', c') into ``hidden`` and ``cell``, ``(batch, d)`` each.

    Args:
        gates: the arguments of the nonlinearities, ``(batch, 4d)``; i, f, o, u overwrite them.
        cell_before: c, ``(batch, d)``.
    """
    size = cell.size(1)
    gates[:, : 3 * size].sigmoid_()
    gates[:, 3 * size :].tanh_()
    in_gate, forget_gate, out_gate, candidate = gates.chunk(4, dim=1)
    torch.mul(forget_gate, cell_before, out=cell).addcmul_(in_gate, candidate)
    torch.tanh(cell, out=hidden).mul_(out_gate)


def _lstm_cell_backward(
    gates: Tensor, cell_before: Tensor, cell: Tensor, grad_hidden: Tensor, grad_cell: Tensor, grad_gates: Tensor
) -> Tensor:
    """The backward pass of :func:`_lstm_cell`: returns the gradient of c ``(batch, d)``.

    Args:
        gates: i, f, o, u, ``(batch, 4d)``.
        cell_before, cell: c and c'.
        grad_hidden, grad_cell: the gradients of h' and c'; ``grad_cell`` is overwritten.
        grad_gates: receives the gradients of the arguments of the nonlinearities, ``(batch, 4d)``.
    """
    in_gate, forget_gate, out_gate, candidate = gates.chunk(4, dim=1)
    grad_in, grad_forget, grad_out, grad_candidate = grad_gates.chunk(4, dim=1)
    squashed = torch.tanh(cell)
    grad_cell += torch.ops.aten.tanh_backward(grad_hidden * out_gate, squashed)
    torch.mul(grad_cell, candidate, out=grad_in)
    torch.mul(grad_cell, cell_before, out=grad_forget)
    torch.mul(grad_hidden, squashed, out=grad_out)
    torch.mul(grad_cell, in_gate, out=grad_candidate)
    grad_sums, sigmoids = (tensor[:, : 3 * cell.size(1)] for tensor in (grad_gates, gates))
    torch.ops.aten.sigmoid_backward.grad_input(grad_sums, sigmoids, grad_input=grad_sums)
    torch.ops.aten.tanh_backward.grad_input(grad_candidate, candidate, grad_input=grad_candidate)
    return grad_cell * forget_gate


class _LSTMScan(torch.autograd.Function):
    """The LSTM over all words.

    Time is the first dimension: ``projected`` is ``(src_len, batch, 4d)``; ``mask`` ``(src_len, batch, 1)`` is one at
    words and zero at padding.
    """

    @staticmethod
    def forward(ctx: Any, projected: Tensor, weight: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        steps, batch, _ = projected.shape
        hiddens, cells = (projected.new_empty(steps, batch, weight.size(1)) for _ in range(2))
        gates = torch.empty_like(projected, memory_format=torch.contiguous_format)
        hidden = cell = projected.new_zeros(batch, weight.size(1))
        for j in range(steps):
            torch.addmm(projected[j], hidden, weight.T, out=gates[j])
            _lstm_cell(gates[j], cell, hiddens[j], cells[j])
            hidden, cell = hiddens[j], cells[j]
            if mask is not None:
                hidden *= mask[j]
                cell *= mask[j]
        ctx.save_for_backward(weight, mask, gates, hiddens, cells)
        return hiddens, cells

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_hiddens: Tensor, grad_cells: Tensor) -> tuple[Tensor | None, ...]:
        weight, mask, gates, hiddens, cells = ctx.saved_tensors
        grad_gates = torch.empty_like(gates)
        zero = torch.zeros_like(cells[0])
        later_hidden, later_cell = zero, zero  # gradients that come from the next word
        for j in reversed(range(len(gates))):
            grad_hidden, grad_cell = grad_hiddens[j] + later_hidden, grad_cells[j] + later_cell
            if mask is not None:
                grad_hidden, grad_cell = grad_hidden * mask[j], grad_cell * mask[j]
            before = cells[j - 1] if j else zero
            later_cell = _lstm_cell_backward(gates[j], before, cells[j], grad_hidden, grad_cell, grad_gates[j])
            later_hidden = grad_gates[j] @ weight
        grad_weight = grad_gates[1:].flatten(0, 1).T @ hiddens[:-1].flatten(0, 1)
        return grad_gates, grad_weight, None


class _TreeScan(torch.autograd.Function):
    """The Tree-LSTM over all phrases of a batch, height by height.

    Autograd would copy the growing table of states at every height, forward and backward. Here each table is written
    once. ``children`` ``(2 · phrases,)`` are the rows of each phrase's left and right child.
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
            child_cells = cells.index_select(0, rows).view(size, -1)
            _tree_cell(gates[begin:end], child_cells, hiddens[new], cells[new])
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
        # The gradients that a node's states receive from its parent: one row for each child of each phrase, then a
        # row of zeros for the nodes without a parent.
        from_parent = children.new_full((len(hiddens),), 2 * phrases)
        from_parent[children] = torch.arange(2 * phrases, device=children.device)
        child_grad_hiddens, child_grad_cells = (hiddens.new_zeros(2 * phrases + 1, size) for _ in range(2))
        begin = phrases
        for count in reversed(ctx.height_sizes):
            begin, end = begin - count, begin
            rows, child_rows = slice(words + begin, words + end), slice(2 * begin, 2 * end)
            child_grad_cells[child_rows] = _tree_cell_backward(
                gates[begin:end],
                child_cells[begin:end],
                cells[rows],
                grad_hiddens[rows] + child_grad_hiddens.index_select(0, from_parent[rows]),
                grad_cells[rows] + child_grad_cells.index_select(0, from_parent[rows]),
                grad_gates[begin:end],
            ).view(-1, size)
            torch.mm(grad_gates[begin:end], weight, out=child_grad_hiddens[child_rows].view(count, -1))
        return (
            grad_gates.T @ hiddens.index_select(0, children).view(phrases, 2 * size),
            grad_gates.sum(dim=0),
            grad_hiddens[:words] + child_grad_hiddens.index_select(0, from_parent[:words]),
            grad_cells[:words] + child_grad_cells.index_select(0, from_parent[:words]),
            *(None, None),
        )


def _tree_cell(gates: Tensor, child_cells: Tensor, hidden: Tensor, cell: Tensor) -> None:
    """Write (h, c) into ``hidden`` and ``cell``, ``(phrases, d)`` each.

    Args:
        gates: the arguments of the nonlinearities, ``(phrases, 5d)``; i, f_l, f_r, o, c~ overwrite them.
        child_cells: [c_l, c_r], ``(phrases, 2d)``.
    """
    size = cell.size(1)
    gates[:, : 4 * size].sigmoid_()
    gates[:, 4 * size :].tanh_()
    in_gate, left_gate, right_gate, out_gate, candidate = gates.chunk(5, dim=1)
    left, right = child_cells.chunk(2, dim=1)
    torch.mul(in_gate, candidate, out=cell).addcmul_(left_gate, left).addcmul_(right_gate, right)
    torch.tanh(cell, out=hidden).mul_(out_gate)


def _tree_cell_backward(
    gates: Tensor, child_cells: Tensor, cell: Tensor, grad_hidden: Tensor, grad_cell: Tensor, grad_gates: Tensor
) -> Tensor:
    """The backward pass of :func:`_tree_cell`: returns the gradient of [c_l, c_r] ``(phrases, 2d)``.

    ``grad_cell`` is overwritten; ``grad_gates`` receives the gradients of the arguments of the nonlinearities.
    """
    size = cell.size(1)
    squashed = torch.tanh(cell)
    grad_cell += torch.ops.aten.tanh_backward(grad_hidden * gates[:, 3 * size : 4 * size], squashed)
    torch.mul(grad_cell, gates[:, 4 * size :], out=grad_gates[:, :size])
    twice = grad_cell.repeat(1, 2)
    torch.mul(twice, child_cells, out=grad_gates[:, size : 3 * size])
    torch.mul(grad_hidden, squashed, out=grad_gates[:, 3 * size : 4 * size])
    torch.mul(grad_cell, gates[:, :size], out=grad_gates[:, 4 * size :])
    grad_sums, sigmoids = (tensor[:, : 4 * size] for tensor in (grad_gates, gates))
    torch.ops.aten.sigmoid_backward.grad_input(grad_sums, sigmoids, grad_input=grad_sums)
    grad_sums, candidate = (tensor[:, 4 * size :] for tensor in (grad_gates, gates))
    torch.ops.aten.tanh_backward.grad_input(grad_sums, candidate, grad_input=grad_sums)
    return twice * gates[:, size : 3 * size]


class _DecoderScan(torch.autograd.Function):
    """The decoder over all target positions.

    The gradients of the weights and of the encoded source are one product each for all positions; autograd would
    compute one at every position.
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
        """s~ ``(batch, tgt_len, d)`` and alpha ``(batch, tgt_len, src_len + most_phrases)``.

        Args:
            projected: the LSTM's products with y_{j-1}, from the second position on, ``(tgt_len - 1, batch, 4d)``.
            recurrent: the LSTM's weight for [s_{j-1}; s~_{j-1}], ``(4d, 2d)``.
            combining: W_d, the weight for [s_j; d_j], ``(d, 2d)``.
            bias: b_d, ``(d,)``.
            hidden, cell: (s_1, c_1), ``(batch, d)`` each.
            states, padding_mask: see :class:`~rnnsearch_fairseq.modules.tree_encoder.Constituents`.
        """
        steps, (batch, size) = len(projected) + 1, hidden.shape
        gates = projected.new_empty(steps - 1, batch, 4 * size)
        cells = projected.new_empty(steps, batch, size)
        combined = projected.new_empty(steps, batch, 2 * size)  # [s_j; d_j]
        fed_states = projected.new_empty(steps, batch, 2 * size)  # [s_j; s~_j]
        # At least float32: in half precision a softmax over many constituents loses its small weights.
        precise = torch.promote_types(projected.dtype, torch.float32)
        weights = projected.new_empty(steps, batch, states.size(1), dtype=precise)
        combined[0, :, :size], cells[0] = hidden, cell
        for j in range(steps):
            hidden, context = combined[j].split(size, dim=1)
            if j:
                torch.addmm(projected[j - 1], fed_states[j - 1], recurrent.T, out=gates[j - 1])
                _lstm_cell(gates[j - 1], cells[j - 1], hidden, cells[j])
            scores = score_states(hidden, states).masked_fill_(padding_mask, float("-inf"))
            weights[j] = torch.softmax(scores, dim=1, dtype=precise)
            context.copy_(mix_states(weights[j], states))
            fed_states[j, :, :size] = hidden
            torch.tanh(torch.addmm(bias, combined[j], combining.T), out=fed_states[j, :, size:])
        ctx.save_for_backward(recurrent, combining, states, gates, cells, combined, fed_states, weights)
        return fed_states[:, :, size:].transpose(0, 1).contiguous(), weights.transpose(0, 1).contiguous()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_attended: Tensor, grad_weights: Tensor) -> tuple[Tensor | None, ...]:
        recurrent, combining, states, gates, cells, combined, fed_states, weights = ctx.saved_tensors
        size = cells.size(2)
        grad_gates = torch.empty_like(gates)
        grad_sums = torch.empty_like(cells)  # inside the tanh of s~
        grad_combined, grad_scores = torch.empty_like(combined), torch.empty_like(weights)
        later_grads = torch.zeros_like(combined[0])  # of [s_j; s~_j], from position j + 1
        grad_cell = torch.zeros_like(cells[0])  # of c_j, from position j + 1
        for j in reversed(range(len(cells))):
            grad_fed = grad_attended[:, j] + later_grads[:, size:]
            torch.ops.aten.tanh_backward.grad_input(grad_fed, fed_states[j, :, size:], grad_input=grad_sums[j])
            torch.mm(grad_sums[j], combining, out=grad_combined[j])
            grad_hidden, grad_context = grad_combined[j].chunk(2, dim=1)
            grad_alpha = grad_weights[:, j] + score_states(grad_context, states)
            grad_scores[j] = weights[j] * (grad_alpha - (weights[j] * grad_alpha).sum(dim=1, keepdim=True))
            grad_hidden = mix_states(grad_scores[j], states).add_(grad_hidden).add_(later_grads[:, :size])
            if j:
                grad_cell = _lstm_cell_backward(
                    gates[j - 1], cells[j - 1], cells[j], grad_hidden, grad_cell, grad_gates[j - 1]
                )
                later_grads = grad_gates[j - 1] @ recurrent
        # A state has one gradient through the context, weighted by alpha, and one through its score.
        both = torch.cat([weights, grad_scores]).permute(1, 2, 0).to(states.dtype)
        grad_states = both @ torch.cat([grad_combined[:, :, size:], combined[:, :, :size]]).transpose(0, 1)
        return (
            grad_gates,
            grad_gates.flatten(0, 1).T @ fed_states[:-1].flatten(0, 1),
            grad_sums.flatten(0, 1).T @ combined.flatten(0, 1),
            grad_sums.sum(dim=(0, 1)),
            grad_hidden,
            grad_cell,
            grad_states,
            None,
        )
