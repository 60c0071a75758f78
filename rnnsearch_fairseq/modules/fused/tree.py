"""The loops of the tree-to-sequence model with hand-written gradients: each weight's gradient is a single product."""

from typing import Any

import torch
from torch import Tensor

from rnnsearch_fairseq.modules.fused import dispatch
from rnnsearch_fairseq.modules.fused.packing import Packing, packing
from rnnsearch_fairseq.modules.lstm import LSTM
from rnnsearch_fairseq.modules.tree_decoder import TreeDecoder, mix_states, score_states
from rnnsearch_fairseq.modules.tree_encoder import Constituents, TreeEncoder
from rnnsearch_fairseq.modules.tree_lstm import Forest, TreeLSTM


class FusedLSTM(LSTM):
    """:class:`~rnnsearch_fairseq.modules.lstm.LSTM` with a hand-written gradient."""

    def scan(self, inputs: Tensor, padding_mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """As in the base class."""
        # The host waits for the lengths once.
        is_word = torch.ones(inputs.shape[:2], dtype=torch.bool) if padding_mask is None else (~padding_mask).cpu()
        if is_word.diff(dim=1).sum(dim=1).max() > 1:  # padding between words, where the base class begins anew
            return super().scan(inputs, padding_mask)
        words = packing(is_word, inputs.device)
        return _LSTMScan.apply(self.from_input(words.pack(inputs)), self.from_state.weight, words)


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
        """As in the base class, but zero at padding on the right, except on a GPU."""
        hidden, cell, _ = self.initial_state(source)
        is_word = torch.ones(previous_words.shape, dtype=torch.bool)
        if not dispatch.on_gpu(previous_words):  # which would wait for the lengths
            is_word = previous_words.ne(self.embedding.padding_idx).flip(1).cummax(dim=1).values.flip(1)
        words = packing(is_word, previous_words.device)
        return _DecoderScan.apply(
            self.lstm.from_input(self.embedding(words.pack(previous_words)[words.counts[0] :])),
            torch.cat([self.lstm.from_state.weight, self.from_fed.weight], dim=1),
            torch.cat([self.from_state.weight, self.from_context.weight], dim=1),
            self.from_state.bias,
            hidden,
            cell,
            source.states,
            source.padding_mask,
            words,
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
) -> None:
    """The backward pass of :func:`_lstm_cell`.

    Args:
        gates: i, f, o, u, ``(batch, 4d)``.
        cell_before, cell: c and c'.
        grad_hidden, grad_cell: the gradients of h' and c'; that of c overwrites ``grad_cell``.
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
    grad_cell *= forget_gate


class _LSTMScan(torch.autograd.Function):
    """The LSTM over all words: h and c ``(batch, src_len, d)``, zero at padding; ``projected`` is ``(words, 4d)``."""

    @staticmethod
    def forward(ctx: Any, projected: Tensor, weight: Tensor, words: Packing) -> tuple[Tensor, Tensor]:
        hiddens, cells = (projected.new_empty(len(projected), weight.size(1)) for _ in range(2))
        gates = torch.empty_like(projected)
        summand, gate, hidden, cell = words.split(projected, gates, hiddens, cells)
        hidden_before = cell_before = projected.new_zeros(len(words.sentences), weight.size(1))
        for j, count in enumerate(words.counts):
            torch.addmm(summand[j], hidden_before[:count], weight.T, out=gate[j])
            _lstm_cell(gate[j], cell_before[:count], hidden[j], cell[j])
            hidden_before, cell_before = hidden[j], cell[j]
        ctx.save_for_backward(weight, gates, hiddens, cells)
        ctx.words = words
        return words.unpack(hiddens), words.unpack(cells)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_hiddens: Tensor, grad_cells: Tensor) -> tuple[Tensor | None, ...]:
        (weight, gates, hiddens, cells), words = ctx.saved_tensors, ctx.words
        grad_gates = torch.empty_like(gates)
        gate, cell, grad_gate, grad_hidden, grad_cell = words.split(
            gates, cells, grad_gates, words.pack(grad_hiddens), words.pack(grad_cells)
        )
        # The gradients that come from the next word; zero for a sentence that has none.
        later_hidden, later_cell = (cells.new_zeros(len(words.sentences), cells.size(1)) for _ in range(2))
        zero = torch.zeros_like(later_cell)
        for j, count in reversed(list(enumerate(words.counts))):
            grad_hidden[j].add_(later_hidden[:count])
            later_cell[:count] += grad_cell[j]
            before = cell[j - 1] if j else zero
            _lstm_cell_backward(gate[j], before[:count], cell[j], grad_hidden[j], later_cell[:count], grad_gate[j])
            torch.mm(grad_gate[j], weight, out=later_hidden[:count])
        grad_weight = grad_gates[words.counts[0] :].T @ hiddens.index_select(0, words.before)
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
        words: Packing,
    ) -> tuple[Tensor, Tensor]:
        """s~ ``(batch, tgt_len, d)`` and alpha ``(batch, tgt_len, src_len + most_phrases)``, zero at padding.

        Args:
            projected: the LSTM's products with the packed y_{j-1}, without those of the first position, ``(..., 4d)``.
            recurrent: the LSTM's weight for [s_{j-1}; s~_{j-1}], ``(4d, 2d)``.
            combining: W_d, the weight for [s_j; d_j], ``(d, 2d)``.
            bias: b_d, ``(d,)``.
            hidden, cell: (s_1, c_1), ``(batch, d)`` each.
            states, padding_mask: see :class:`~rnnsearch_fairseq.modules.tree_encoder.Constituents`.
            words: those of the target.
        """
        size, first = hidden.size(1), words.counts[0]
        states, padding_mask = states.index_select(0, words.sentences), padding_mask.index_select(0, words.sentences)
        gates = torch.empty_like(projected)
        cells = projected.new_empty(len(words.places), size)
        # [s_j; d_j] and [s_j; s~_j]
        combined, fed_states = (projected.new_empty(len(cells), 2 * size) for _ in range(2))
        # At least float32: in half precision a softmax over many constituents loses its small weights.
        precise = torch.promote_types(projected.dtype, torch.float32)
        weights = projected.new_empty(len(cells), states.size(1), dtype=precise)
        combined[:first, :size], cells[:first] = (
            start.index_select(0, words.sentences[:first]) for start in (hidden, cell)
        )
        both, cell, fed, alpha = words.split(combined, cells, fed_states, weights)
        summand, gate = words.split(projected, gates, begin=1)
        for j, count in enumerate(words.counts):
            hidden, context = both[j].split(size, dim=1)
            if j:
                torch.addmm(summand[j - 1], fed[j - 1][:count], recurrent.T, out=gate[j - 1])
                _lstm_cell(gate[j - 1], cell[j - 1][:count], hidden, cell[j])
            scores = score_states(hidden, states[:count]).masked_fill_(padding_mask[:count], float("-inf"))
            alpha[j].copy_(torch.softmax(scores, dim=1, dtype=precise))
            context.copy_(mix_states(alpha[j], states[:count]))
            fed[j][:, :size] = hidden
            torch.tanh(torch.addmm(bias, both[j], combining.T), out=fed[j][:, size:])
        ctx.save_for_backward(recurrent, combining, states, gates, cells, combined, fed_states, weights)
        ctx.words = words
        return words.unpack(fed_states[:, size:]), words.unpack(weights)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_attended: Tensor, grad_weights: Tensor) -> tuple[Tensor | None, ...]:
        recurrent, combining, states, gates, cells, combined, fed_states, weights = ctx.saved_tensors
        words, size = ctx.words, cells.size(1)
        grad_gates = torch.empty_like(gates)
        grad_sums = torch.empty_like(cells)  # inside the tanh of s~
        grad_combined, grad_scores = torch.empty_like(combined), torch.empty_like(weights)
        # The gradients of [s_j; s~_j] and of c_j from position j + 1; zero for a sentence that ends at j.
        later_grads, grad_cell = (cells.new_zeros(len(states), columns) for columns in (2 * size, size))
        cell, fed, alpha, grad_fed, grad_alpha, grad_sum, grad_both, grad_score = words.split(
            cells, fed_states, weights, words.pack(grad_attended), words.pack(grad_weights),
            grad_sums, grad_combined, grad_scores,
        )  # fmt: skip
        gate, grad_gate = words.split(gates, grad_gates, begin=1)
        for j, count in reversed(list(enumerate(words.counts))):
            later, attended = later_grads[:count], grad_fed[j].add_(later_grads[:count, size:])
            torch.ops.aten.tanh_backward.grad_input(attended, fed[j][:, size:], grad_input=grad_sum[j])
            torch.mm(grad_sum[j], combining, out=grad_both[j])
            grad_hidden, grad_context = grad_both[j].chunk(2, dim=1)
            of_alpha = grad_alpha[j].add_(score_states(grad_context, states[:count]))
            torch.mul(alpha[j], of_alpha - (alpha[j] * of_alpha).sum(dim=1, keepdim=True), out=grad_score[j])
            grad_hidden = mix_states(grad_score[j], states[:count]).add_(grad_hidden).add_(later[:, :size])
            if j:
                _lstm_cell_backward(
                    gate[j - 1], cell[j - 1][:count], cell[j], grad_hidden, grad_cell[:count], grad_gate[j - 1]
                )
                torch.mm(grad_gate[j - 1], recurrent, out=later)
        # A state has one gradient through the context, weighted by alpha, and one through its score.
        both = torch.cat([words.unpack(weights), words.unpack(grad_scores)], dim=1).mT.to(states.dtype)
        grad_states = both @ torch.cat([words.unpack(grad_combined[:, size:]), words.unpack(combined[:, :size])], dim=1)
        starts = (torch.zeros_like(grad_cell) for _ in range(2))
        return (
            grad_gates,
            grad_gates.T @ fed_states.index_select(0, words.before),
            grad_sums.T @ combined,
            grad_sums.sum(dim=0),
            *(
                start.index_copy_(0, words.sentences[: len(grad)], grad)
                for start, grad in zip(starts, (grad_hidden, grad_cell))
            ),
            grad_states,
            None,
            None,
        )
