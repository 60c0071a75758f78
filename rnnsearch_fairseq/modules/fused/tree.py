"""The loops of the tree-to-sequence model with hand-written gradients: each weight's gradient is a single product."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rnnsearch_fairseq.modules.attention import Memory
from rnnsearch_fairseq.modules.fused import kernels
from rnnsearch_fairseq.modules.fused.forms import has_fused_form
from rnnsearch_fairseq.modules.fused.products import packed_matmul
from rnnsearch_fairseq.modules.fused.recording import recorded
from rnnsearch_fairseq.modules.tree_decoder import DecoderState, TreeDecoder
from rnnsearch_fairseq.modules.tree_encoder import Constituents, TreeEncoder
from rnnsearch_fairseq.modules.tree_lstm import Forest


class FusedTreeEncoder(TreeEncoder):
    """:class:`~rnnsearch_fairseq.modules.tree_encoder.TreeEncoder` with a hand-written gradient."""

    def scan(self, inputs: Tensor, padding_mask: Tensor) -> tuple[Tensor, Tensor]:
        """As in the base class, but on a GPU not zero at padding."""
        if not has_fused_form(self, FusedTreeEncoder):
            return super().scan(inputs, padding_mask)
        words = packing(~padding_mask)
        projected = self.lstm.from_input(words.pack(inputs))
        return _LSTMScan.apply(projected, *kernels.like(projected, self.lstm.from_state.weight), words)

    def join(self, hidden: Tensor, cell: Tensor, forest: Forest) -> tuple[Tensor, Tensor]:
        if not has_fused_form(self, FusedTreeEncoder):
            return super().join(hidden, cell, forest)
        children = torch.stack([forest.left, forest.right], dim=1).flatten()
        # Siblings are adjacent rows, in the order of their parents. The nodes without a parent follow.
        is_root = children.new_ones(len(hidden) + len(forest.left)).index_fill_(0, children, 0)
        rows = is_root.cumsum(dim=0).add_(len(children) - 1)
        rows[children] = torch.arange(len(children), device=rows.device)
        layer = self.tree_lstm.from_children
        return _TreeScan.apply(*kernels.like(hidden, layer.weight, layer.bias, hidden, cell), rows, forest.height_sizes)


class FusedTreeDecoder(TreeDecoder):
    """:class:`~rnnsearch_fairseq.modules.tree_decoder.TreeDecoder` with a hand-written gradient."""

    def scan(self, previous_words: Tensor, state: DecoderState, source: Constituents) -> tuple[Tensor, Tensor]:
        """As in the base class, but not on a GPU zero at padding on the right."""
        if not has_fused_form(self, FusedTreeDecoder):
            return super().scan(previous_words, state, source)
        is_word = previous_words.ne(self.embedding.padding_idx).flip(1).cummax(dim=1).values.flip(1)
        words = packing(is_word)
        projected = self.lstm.from_input(self.embedding(words.pack(previous_words)[words.counts[0] :]))
        recurrent = torch.cat([self.from_fed.weight, self.lstm.from_state.weight], dim=1)
        combining = torch.cat([self.from_state.weight, self.from_context.weight], dim=1)
        starts = (tensor.index_select(0, words.sentences[: words.counts[0]]) for tensor in state[:2])
        states, *tensors = kernels.like(projected, source.states, recurrent, combining, self.from_state.bias, *starts)
        return _DecoderScan.apply(states, source.padding_mask, words, projected, *tensors)


class Packing(NamedTuple):
    """The words of a batch ``(batch, columns)`` in the order of a loop: all first words, then all second words, ...

    ``sentences`` ``(batch,)`` are sorted by length, longest first, and the k-th words stand in this order: ``counts``
    are the numbers of first words, second words and so on. ``places`` ``(words,)`` are the words' places in the
    flattened batch. ``previous`` ``(words - counts[0],)`` has, for each word but the first ones, the packed row of the
    word before it. ``shape`` is ``(batch, columns)``. ``torch.nn.utils.rnn.pack_padded_sequence`` takes padding on the
    right only, and fairseq pads sources on the left.
    """

    sentences: Tensor
    places: Tensor
    counts: tuple[int, ...]
    previous: Tensor
    shape: torch.Size

    def pack(self, padded: Tensor) -> Tensor:
        """The rows of ``padded`` ``(batch, columns, ...)`` that are words: ``(words, ...)``."""
        return padded.flatten(0, 1).index_select(0, self.places)

    def unpack(self, packed: Tensor) -> Tensor:
        """``packed`` ``(words, ...)`` in the batch, zero at padding: ``(batch, columns, ...)``."""
        padded = packed.new_zeros(self.shape.numel(), *packed.shape[1:])
        return padded.index_copy_(0, self.places, packed).unflatten(0, self.shape)


def packing(is_word: Tensor) -> Packing:
    """The packing of a batch. ``is_word`` ``(batch, columns)`` is false at padding, not between words.

    On a GPU, the host would have to wait for the lengths. So on a GPU, every sentence counts as having ``columns``
    words: its own words, then the padding.
    """
    (batch, columns), device = is_word.shape, is_word.device
    firsts = is_word.long().argmax(dim=1)
    position = torch.arange(columns, device=device).unsqueeze(1)
    if is_word.is_cuda:
        sentences = torch.arange(batch, device=device)
        places = (sentences * columns + (firsts + position) % columns).flatten()
        previous = torch.arange((columns - 1) * batch, device=device)
        return Packing(sentences, places, (batch,) * columns, previous, is_word.shape)
    lengths = is_word.sum(dim=1)
    sentences = lengths.argsort(descending=True, stable=True)
    has_word = position < lengths[sentences]
    places = (sentences * columns + firsts[sentences] + position)[has_word]
    counts = has_word.sum(dim=1)
    counts = counts[counts > 0]
    distances = counts[:-1].repeat_interleave(counts[1:])
    previous = torch.arange(len(distances)) + int(counts[0]) - distances
    return Packing(sentences, places, tuple(counts.tolist()), previous, is_word.shape)


def _split(counts: Sequence[int], *packed: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Split each of ``packed`` into views, one for each position."""
    return (tensor.split(counts) for tensor in packed)


class _LSTMScan(torch.autograd.Function):
    """The LSTM over all words: h and c ``(batch, src_len, d)``, zero at padding, from ``projected`` ``(words, 4d)``."""

    @staticmethod
    def forward(ctx: Any, projected: Tensor, weight: Tensor, words: Packing) -> tuple[Tensor, Tensor]:
        hiddens, cells, gates = _lstm_scan(projected, weight, words.counts)
        ctx.save_for_backward(weight, gates, hiddens, cells)
        ctx.words = words
        return words.unpack(hiddens), words.unpack(cells)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_hiddens: Tensor, grad_cells: Tensor) -> tuple[Tensor | None, ...]:
        (weight, gates, hiddens, cells), words = ctx.saved_tensors, ctx.words
        grads = words.pack(grad_hiddens), words.pack(grad_cells)
        (grad_gates,) = _lstm_scan_backward(*grads, weight, gates, cells, words.counts)
        return grad_gates, grad_gates[words.counts[0] :].T @ hiddens.index_select(0, words.previous), None


@recorded
def _lstm_scan(projected: Tensor, weight: Tensor, counts: tuple[int, ...]) -> tuple[Tensor, ...]:
    """h, c and the gates of all words, packed."""
    hiddens, cells = (projected.new_empty(len(projected), weight.size(1)) for _ in range(2))
    gates = projected.clone()  # the loop adds the products with the states
    gate, hidden, cell = _split(counts, gates, hiddens, cells)
    hidden_before = cell_before = projected.new_zeros(counts[0], weight.size(1))
    times_state = packed_matmul(weight)
    for j, count in enumerate(counts):
        if j:
            times_state(hidden_before[:count], gate[j], gate[j])
        kernels.apply_cell(gate[j], cell_before[:count], hidden[j], cell[j])
        hidden_before, cell_before = hidden[j], cell[j]
    return hiddens, cells, gates


@recorded
def _lstm_scan_backward(
    grad_hiddens: Tensor, grad_cells: Tensor, weight: Tensor, gates: Tensor, cells: Tensor, counts: tuple[int, ...]
) -> tuple[Tensor, ...]:
    """The gradient of the gates' sums."""
    # Each word adds its parts to the gradients of h and c of the word before it, in the arguments.
    grad_gates = torch.empty_like(gates)
    gate, cell, grad_gate, grad_hidden, grad_cell = _split(counts, gates, cells, grad_gates, grad_hiddens, grad_cells)
    times_weight = packed_matmul(weight.T)
    first, grad_first = (torch.zeros_like(cell[0]) for _ in range(2))  # c before the first words, and its gradient
    for j, count in reversed(list(enumerate(counts))):
        before, grad_before = (cell[j - 1][:count], grad_cell[j - 1][:count]) if j else (first, grad_first)
        kernels.apply_cell_backward(gate[j], before, cell[j], grad_hidden[j], grad_cell[j], grad_gate[j], grad_before)
        if j:
            grad_hidden_before = grad_hidden[j - 1][:count]
            times_weight(grad_gate[j], grad_hidden_before, grad_hidden_before)
    return (grad_gates,)


class _TreeScan(torch.autograd.Function):
    """The Tree-LSTM over all phrases of a batch, height by height: h and c of all words and phrases.

    ``rows`` ``(words + phrases,)`` are the places of words and phrases in the tables of states. Siblings are adjacent
    there. Read as ``(phrases, 2d)``, the tables therefore hold [h_l, h_r] and [c_l, c_r], without a copy.
    """

    @staticmethod
    def forward(
        ctx: Any, weight: Tensor, bias: Tensor, hidden: Tensor, cell: Tensor, rows: Tensor, height_sizes: Sequence[int]
    ) -> tuple[Tensor, Tensor]:
        words = len(hidden)
        hiddens, cells = (
            word_states.new_empty(len(rows), word_states.size(1)).index_copy_(0, rows[:words], word_states)
            for word_states in (hidden, cell)
        )
        gates = hidden.new_empty(len(rows) - words, len(weight))
        times_children = packed_matmul(weight)
        for gate, places, child_hiddens, child_cells in _heights(height_sizes, gates, rows[words:], hiddens, cells):
            times_children(child_hiddens, bias, gate)
            phrase_hidden, phrase_cell = (hidden.new_empty(len(gate), hidden.size(1)) for _ in range(2))
            kernels.apply_cell(gate, child_cells, phrase_hidden, phrase_cell)
            hiddens.index_copy_(0, places, phrase_hidden)
            cells.index_copy_(0, places, phrase_cell)
        ctx.save_for_backward(weight, gates, hiddens, cells, rows)
        ctx.height_sizes = height_sizes
        return hiddens.index_select(0, rows), cells.index_select(0, rows)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_hiddens: Tensor, grad_cells: Tensor) -> tuple[Tensor | None, ...]:
        weight, gates, hiddens, cells, rows = ctx.saved_tensors
        words = len(rows) - len(gates)
        grad_gates = torch.empty_like(gates)
        # The loop adds the gradients through the parents.
        grad_hiddens, grad_cells = (
            torch.empty_like(grad).index_copy_(0, rows, grad) for grad in (grad_hiddens, grad_cells)
        )
        tensors = (gates, rows[words:], cells, grad_hiddens, grad_cells)
        heights = zip(grad_gates.split(ctx.height_sizes), _heights(ctx.height_sizes, *tensors))
        times_weight = packed_matmul(weight.T)
        for grad_gate, (gate, places, child_cells, child_grad_hiddens, child_grad_cells) in reversed(list(heights)):
            states = (table.index_select(0, places) for table in (cells, grad_hiddens, grad_cells))
            kernels.apply_cell_backward(gate, child_cells, *states, grad_gate, child_grad_cells)
            times_weight(grad_gate, child_grad_hiddens, child_grad_hiddens)
        word_grads = (grad.index_select(0, rows[:words]) for grad in (grad_hiddens, grad_cells))
        return grad_gates.T @ _siblings(hiddens, len(gates)), grad_gates.sum(dim=0), *word_grads, None, None


def _heights(sizes: Sequence[int], gates: Tensor, places: Tensor, *tables: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """For each height, the rows of ``gates`` and ``places``, and :func:`_siblings` of each table."""
    siblings = (_siblings(table, len(gates)) for table in tables)
    return zip(*(tensor.split(sizes) for tensor in (gates, places, *siblings)))


def _siblings(table: Tensor, phrases: int) -> Tensor:
    """The states of both children of each phrase, ``(phrases, 2d)``."""
    return table[: 2 * phrases].view(phrases, 2 * table.size(1))


class _DecoderScan(torch.autograd.Function):
    """s~ ``(batch, tgt_len, d)`` and alpha ``(batch, tgt_len, src_len + most_phrases)``, zero at padding on a CPU."""

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, padding_mask: Tensor, words: Packing, *tensors: Tensor
    ) -> tuple[Tensor, Tensor]:
        """``tensors`` are the first six arguments of :func:`_decoder_scan`. The others are not packed."""
        states, padding_mask = (tensor.index_select(0, words.sentences) for tensor in (states, padding_mask))
        vectors, weights, *others = _decoder_scan(*tensors, states, padding_mask, words.counts)
        ctx.save_for_backward(*tensors[1:3], states, vectors, weights, *others)
        ctx.words = words
        return words.unpack(vectors[:, : states.size(2)]), words.unpack(weights)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_attended: Tensor, grad_weights: Tensor) -> tuple[Tensor | None, ...]:
        _, _, states, vectors, weights, _, cells = ctx.saved_tensors
        words, size = ctx.words, cells.size(1)
        grads = words.pack(grad_attended), words.pack(grad_weights)
        gradients = _decoder_scan_backward(*grads, words.counts, *ctx.saved_tensors)
        grad_gates, grad_sums, grad_scores, grad_vectors, grad_cells = gradients
        # The gradient of a state has two parts: through the context, weighted by alpha, and through its score.
        factors = torch.cat([words.unpack(weights), words.unpack(grad_scores)], dim=1).mT.to(states.dtype)
        grad_contexts, hiddens = words.unpack(grad_vectors[:, 2 * size :]), words.unpack(vectors[:, size : 2 * size])
        return (
            factors @ torch.cat([grad_contexts, hiddens], dim=1),
            None,
            None,
            grad_gates,
            grad_gates.T @ vectors[:, : 2 * size].index_select(0, words.previous),
            grad_sums.T @ vectors[:, size:],
            grad_sums.sum(dim=0),
            grad_vectors[: words.counts[0], size : 2 * size],
            grad_cells[: words.counts[0]],
        )


@recorded
def _decoder_scan(
    projected: Tensor,
    recurrent: Tensor,
    combining: Tensor,
    bias: Tensor,
    hidden: Tensor,
    cell: Tensor,
    states: Tensor,
    padding_mask: Tensor,
    counts: tuple[int, ...],
) -> tuple[Tensor, ...]:
    """The decoder over all target positions: [s~_j; s_j; d_j], alpha, the gates and c of all words, packed.

    ``projected`` ``(..., 4d)`` are the LSTM's products with the packed y_{j-1}, without those of the first position,
    and ``recurrent`` is its weight for [s~_{j-1}; s_{j-1}]. ``combining`` and ``bias`` are W_d and b_d. (s_1, c_1) are
    ``(counts[0], d)`` each; ``states`` and ``padding_mask`` are those of ``Constituents``, in the packing's order.
    """
    size, first, words = hidden.size(1), counts[0], sum(counts)
    gates = projected.clone()  # the loop adds the other products
    cells, vectors = (projected.new_empty(words, columns) for columns in (size, 3 * size))
    precise = torch.promote_types(projected.dtype, torch.float32)
    weights = projected.new_empty(words, states.size(1), dtype=precise)
    vectors[:first, size : 2 * size], cells[:first] = hidden, cell
    vector, cell, alpha = _split(counts, vectors, cells, weights)
    (gate,) = _split(counts[1:], gates)
    times_recurrent, times_combining = map(packed_matmul, (recurrent, combining))
    for j, count in enumerate(counts):
        attended, hidden, context = vector[j].split(size, dim=1)
        if j:
            times_recurrent(vector[j - 1][:count, : 2 * size], gate[j - 1], gate[j - 1])
            kernels.apply_cell(gate[j - 1], cell[j - 1][:count], hidden, cell[j])
        energies = torch.bmm(hidden.unsqueeze(1), states[:count].mT).squeeze(1)
        kernels.attend(energies, Memory(states[:count], None, padding_mask[:count]), alpha[j], context)
        torch.tanh(times_combining(vector[j][:, size:], bias), out=attended)
    return vectors, weights, gates, cells


@recorded
def _decoder_scan_backward(
    grad_attended: Tensor, grad_weights: Tensor, counts: tuple[int, ...], *saved: Tensor
) -> tuple[Tensor, ...]:
    """The gradients of the gates' sums, W_d [s_j; d_j] + b_d, the scores, [s~_j; s_j; d_j] and c, packed."""
    recurrent, combining, states, vectors, weights, gates, cells = saved
    size = cells.size(1)
    grad_gates = torch.empty_like(gates)
    grad_sums = torch.empty_like(cells)
    grad_scores = torch.empty_like(weights)
    # Position j + 1 adds its parts to the gradients of s~_j, s_j and c_j.
    grad_vectors, grad_cells = torch.zeros_like(vectors), torch.zeros_like(cells)
    grad_vectors[:, :size] = grad_attended
    cell, vector, alpha, grad_alpha = _split(counts, cells, vectors, weights, grad_weights)
    grad_sum, grad_vector, grad_cell, grad_score = _split(counts, grad_sums, grad_vectors, grad_cells, grad_scores)
    gate, grad_gate = _split(counts[1:], gates, grad_gates)
    times_recurrent, times_combining = map(packed_matmul, (recurrent.T, combining.T))
    for j, count in reversed(list(enumerate(counts))):
        grad_state, grad_hidden, grad_context = grad_vector[j].split(size, dim=1)
        kernels.tanh_backward(grad_state, vector[j][:, :size], grad_input=grad_sum[j])
        times_combining(grad_sum[j], grad_vector[j][:, size:], grad_vector[j][:, size:])
        grad_score[j].copy_(kernels.attend_backward(states[:count], alpha[j], grad_alpha[j], grad_context))
        grad_hidden += torch.bmm(grad_score[j].to(states.dtype).unsqueeze(1), states[:count]).squeeze(1)
        if j:
            before, grad_before = cell[j - 1][:count], grad_cell[j - 1][:count]
            kernels.apply_cell_backward(
                gate[j - 1], before, cell[j], grad_hidden, grad_cell[j], grad_gate[j - 1], grad_before
            )
            grad_states_before = grad_vector[j - 1][:count, : 2 * size]
            times_recurrent(grad_gate[j - 1], grad_states_before, grad_states_before)
    return grad_gates, grad_sums, grad_scores, grad_vectors, grad_cells
