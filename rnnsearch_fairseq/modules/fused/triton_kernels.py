"""The functions of :mod:`~rnnsearch_fairseq.modules.fused.kernels`, with the same arguments, each as one Triton kernel.

One kernel instead of several saves launches, which take longer than the arithmetic. The kernels compute in float32, or
in float64 for float64 tensors. They are deterministic: one program writes each number, and every sum has a fixed order.
States, gates, products and contexts may have any row stride, the padding mask and the gradient of the weights for
:func:`attend_backward` any strides; all other tensors must be contiguous. The kernels run on the current device: see
``torch.cuda.device_of``.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

MAX_BLOCK = 1024  # units that a program loads at a time
MAX_TILE = 8192  # elements of the keys, or of the annotations, that a program loads at a time
ROWS = 4096  # words whose scores are in memory at a time if their cost alone is computed: 245 MB in bfloat16
WARPS = 8  # warps of a program of the attention kernels


def scratch(keys: Tensor) -> None:
    """None: the attention kernels need no scratch buffer."""


def apply_gates(gates: Tensor, summand: Tensor | None, state: Tensor, mask: Tensor | None, reset_state: Tensor) -> None:
    _for_each_unit(_apply_gates, state.size(1), gates, summand, state, mask, reset_state)


def update_state(candidate: Tensor, update: Tensor, state: Tensor, new_state: Tensor) -> None:
    _for_each_unit(_update_state, state.size(1), candidate, update, state, new_state)


def update_state_backward(
    activations: Tensor, state: Tensor, grad_new_state: Tensor, grads: Tensor, grad_state: Tensor
) -> None:
    _for_each_unit(_update_state_backward, state.size(1), activations, state, grad_new_state, grads, grad_state)


def reset_backward(reset: Tensor, state: Tensor, grad_product: Tensor, grad_reset: Tensor, grad_state: Tensor) -> None:
    _for_each_unit(_reset_backward, state.size(1), reset, state, grad_product, grad_reset, grad_state)


def apply_cell(gates: Tensor, child_cells: Tensor, hiddens: Tensor, cells: Tensor, places: Tensor | None) -> None:
    size = cells.size(1)
    children = child_cells.size(1) // size
    _for_each_unit(_apply_cell, size, gates, child_cells, hiddens, cells, places, children=children)


def apply_cell_backward(
    gates: Tensor,
    child_cells: Tensor,
    cells: Tensor,
    grad_hiddens: Tensor,
    grad_cells: Tensor,
    grad_gates: Tensor,
    grad_child_cells: Tensor,
    places: Tensor | None,
) -> None:
    size = cells.size(1)
    children = child_cells.size(1) // size
    tensors = (gates, child_cells, cells, grad_hiddens, grad_cells, grad_gates, grad_child_cells, places)
    _for_each_unit(_apply_cell_backward, size, *tensors, children=children)


def _for_each_unit(kernel: Any, size: int, *tensors: Tensor | None, **options: int) -> None:
    """Launch a kernel of one unit's gates on tensors with a row a sentence; it also takes their row strides."""
    rows = [0 if tensor is None else tensor.stride(0) for tensor in tensors]
    kernel[_grid(tensors[0], size)](*tensors, *rows, size, _block(size), **options)


def attend(
    product: Tensor,
    keys: Tensor,
    annotations: Tensor,
    energy: Tensor | None,
    padding_mask: Tensor | None,
    aligned: None,
    query: Tensor | None,
    weights: Tensor,
    context: Tensor,
) -> None:
    _, src_len, size = keys.shape
    width = annotations.size(2)
    _attend[_grid(keys, width)](
        product, keys, annotations, energy, padding_mask, query, weights, context,
        src_len, *_strides(padding_mask),
        product.stride(0), context.stride(0), size, width, _block(size), _block(width), _positions(size, width),
        num_warps=WARPS,
    )  # fmt: skip


def attend_backward(
    query: Tensor | None,
    keys: Tensor,
    annotations: Tensor,
    energy: Tensor | None,
    aligned: None,
    weights: Tensor,
    context: Tensor,
    grad_weights: Tensor | None,
    grad_context: Tensor,
    grad_query: Tensor,
    grad_keys: Tensor | None,
    grad_energy: Tensor | None,
    grad_scores: Tensor | None = None,
) -> None:
    _, src_len, size = keys.shape
    width = annotations.size(2)
    _attend_backward[_grid(keys, size)](
        query, keys, annotations, energy, weights, context, grad_weights, grad_context, grad_query, grad_keys,
        grad_energy, grad_scores, src_len, *_strides(grad_weights), context.stride(0),
        grad_context.stride(0), grad_query.stride(0), size, width, _block(size), _block(width),
        _positions(size, width), num_warps=WARPS,
    )  # fmt: skip


def softmax_cost(
    scores: Tensor, targets: Tensor, padding_idx: int | None, keep_gradient: bool, smoothing: float = 0.0
) -> Tensor:
    words, size = scores.shape
    costs = scores.new_empty(words, 2, dtype=torch.promote_types(scores.dtype, torch.float32))
    if words:
        _softmax_cost[(words,)](
            scores, targets, costs, -1 if padding_idx is None else padding_idx,
            scores.stride(0), size, _block(size), keep_gradient, smoothing, num_warps=WARPS,
        )  # fmt: skip
    return costs.sum(dim=0)


def _block(width: int) -> int:
    """The length of a program's range, a power of two. Triton's own functions for this take longer than a launch."""
    return min(1 << (width - 1).bit_length(), MAX_BLOCK)


def _positions(size: int, width: int) -> int:
    """The number of source positions that a program loads at a time."""
    return min(max(MAX_TILE // max(_block(size), _block(width)), 1), 32)


def _grid(rows: Tensor, width: int) -> tuple[int, int]:
    return len(rows), -(-width // _block(width))


def _strides(tensor: Tensor | None) -> tuple[int, int]:
    return (0, 0) if tensor is None else tensor.stride()


@triton.jit
def _place(size: tl.constexpr, block: tl.constexpr) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """This program's row and units, and the mask of the units below ``size``."""
    unit = tl.program_id(1) * block + tl.arange(0, block)
    return tl.program_id(0).to(tl.int64), unit, unit < size


@triton.jit
def _load(pointers: tl.tensor, inside: tl.tensor) -> tl.tensor:
    """The values in the precision of the arithmetic, with zero outside the mask ``inside``."""
    values = tl.load(pointers, mask=inside, other=0.0)
    return values if values.dtype == tl.float64 else values.to(tl.float32)


@triton.jit
def _tanh(values: tl.tensor) -> tl.tensor:
    """tanh by the sigmoid: the compiler and the interpreter have no tanh in common. Its absolute error is constant."""
    return 2 * tl.sigmoid(2 * values) - 1


# Arguments that change with the source length are not specialized, so that no length compiles the kernel again.
@triton.jit(do_not_specialize=["mask", "mask_row"])
def _apply_gates(
    gates: tl.tensor, summand: tl.tensor, state: tl.tensor, mask: tl.tensor, reset_state: tl.tensor,
    gates_row: tl.constexpr, summand_row: tl.constexpr, state_row: tl.constexpr, mask_row: int,
    reset_row: tl.constexpr, size: tl.constexpr, block: tl.constexpr,
) -> None:  # fmt: skip
    row, unit, inside = _place(size, block)
    gates += row * gates_row + unit
    update, reset = _load(gates, inside), _load(gates + size, inside)
    if summand is not None:
        summand += row * summand_row + unit
        update += _load(summand, inside)
        reset += _load(summand + size, inside)
    update, reset = tl.sigmoid(update), tl.sigmoid(reset)
    if mask is not None:
        update *= tl.load(mask + row * mask_row)
    tl.store(gates, update, inside)
    tl.store(gates + size, reset, inside)
    tl.store(reset_state + row * reset_row + unit, reset * _load(state + row * state_row + unit, inside), inside)


@triton.jit
def _update_state(
    candidate: tl.tensor, update: tl.tensor, state: tl.tensor, new_state: tl.tensor,
    candidate_row: tl.constexpr, update_row: tl.constexpr, state_row: tl.constexpr, new_row: tl.constexpr,
    size: tl.constexpr, block: tl.constexpr,
) -> None:  # fmt: skip
    row, unit, inside = _place(size, block)
    candidate += row * candidate_row + unit
    candidate_value = _tanh(_load(candidate, inside))
    state_value = _load(state + row * state_row + unit, inside)
    update_value = _load(update + row * update_row + unit, inside)
    tl.store(candidate, candidate_value, inside)
    new_value = state_value + update_value * (candidate_value - state_value)
    tl.store(new_state + row * new_row + unit, new_value, inside)


@triton.jit
def _update_state_backward(
    activations: tl.tensor, state: tl.tensor, grad_new_state: tl.tensor, grads: tl.tensor, grad_state: tl.tensor,
    activations_row: tl.constexpr, state_row: tl.constexpr, grad_new_row: tl.constexpr, grads_row: tl.constexpr,
    grad_row: tl.constexpr, size: tl.constexpr, block: tl.constexpr,
) -> None:  # fmt: skip
    row, unit, inside = _place(size, block)
    activations += row * activations_row + unit
    candidate, update = _load(activations, inside), _load(activations + size, inside)
    grad = _load(grad_new_state + row * grad_new_row + unit, inside)
    change = candidate - _load(state + row * state_row + unit, inside)
    grads += row * grads_row + unit
    tl.store(grads, grad * update * (1 - candidate * candidate), inside)
    tl.store(grads + size, grad * change * update * (1 - update), inside)
    grad_state += row * grad_row + unit
    tl.store(grad_state, _load(grad_state, inside) + grad * (1 - update), inside)


@triton.jit
def _reset_backward(
    reset: tl.tensor, state: tl.tensor, grad_product: tl.tensor, grad_reset: tl.tensor, grad_state: tl.tensor,
    reset_row: tl.constexpr, state_row: tl.constexpr, product_row: tl.constexpr, grad_reset_row: tl.constexpr,
    grad_row: tl.constexpr, size: tl.constexpr, block: tl.constexpr,
) -> None:  # fmt: skip
    row, unit, inside = _place(size, block)
    gate, grad = _load(reset + row * reset_row + unit, inside), _load(grad_product + row * product_row + unit, inside)
    state_value = _load(state + row * state_row + unit, inside)
    tl.store(grad_reset + row * grad_reset_row + unit, grad * state_value * gate * (1 - gate), inside)
    grad_state += row * grad_row + unit
    tl.store(grad_state, _load(grad_state, inside) + grad * gate, inside)


@triton.jit(do_not_specialize=["places"])
def _apply_cell(
    gates: tl.tensor, child_cells: tl.tensor, hiddens: tl.tensor, cells: tl.tensor, places: tl.tensor,
    gates_row: tl.constexpr, child_row: tl.constexpr, hiddens_row: tl.constexpr, cells_row: tl.constexpr,
    places_row: tl.constexpr, size: tl.constexpr, block: tl.constexpr, children: tl.constexpr,
) -> None:  # fmt: skip
    row, unit, inside = _place(size, block)
    gates += row * gates_row + unit
    child_cells += row * child_row + unit
    in_gate, out_gate = tl.sigmoid(_load(gates, inside)), tl.sigmoid(_load(gates + (children + 1) * size, inside))
    candidate = _tanh(_load(gates + (children + 2) * size, inside))
    tl.store(gates, in_gate, inside)
    tl.store(gates + (children + 1) * size, out_gate, inside)
    tl.store(gates + (children + 2) * size, candidate, inside)
    cell = in_gate * candidate
    for child in tl.static_range(children):
        forget_gate = tl.sigmoid(_load(gates + (1 + child) * size, inside))
        tl.store(gates + (1 + child) * size, forget_gate, inside)
        cell += forget_gate * _load(child_cells + child * size, inside)
    place = row if places is None else tl.load(places + row)
    tl.store(cells + place * cells_row + unit, cell, inside)
    tl.store(hiddens + place * hiddens_row + unit, out_gate * _tanh(cell), inside)


@triton.jit(do_not_specialize=["places"])
def _apply_cell_backward(
    gates: tl.tensor, child_cells: tl.tensor, cells: tl.tensor, grad_hiddens: tl.tensor, grad_cells: tl.tensor,
    grad_gates: tl.tensor, grad_child_cells: tl.tensor, places: tl.tensor, gates_row: tl.constexpr,
    child_row: tl.constexpr, cells_row: tl.constexpr, grad_hiddens_row: tl.constexpr, grad_cells_row: tl.constexpr,
    grad_gates_row: tl.constexpr, grad_child_row: tl.constexpr, places_row: tl.constexpr,
    size: tl.constexpr, block: tl.constexpr, children: tl.constexpr,
) -> None:  # fmt: skip
    row, unit, inside = _place(size, block)
    place = row if places is None else tl.load(places + row)
    gates += row * gates_row + unit
    grad_gates += row * grad_gates_row + unit
    in_gate, out_gate = _load(gates, inside), _load(gates + (children + 1) * size, inside)
    candidate = _load(gates + (children + 2) * size, inside)
    squashed = _tanh(_load(cells + place * cells_row + unit, inside))
    grad_hidden = _load(grad_hiddens + place * grad_hiddens_row + unit, inside)
    grad = _load(grad_cells + place * grad_cells_row + unit, inside)
    grad += grad_hidden * out_gate * (1 - squashed * squashed)
    tl.store(grad_gates, grad * candidate * in_gate * (1 - in_gate), inside)
    tl.store(grad_gates + (children + 1) * size, grad_hidden * squashed * out_gate * (1 - out_gate), inside)
    tl.store(grad_gates + (children + 2) * size, grad * in_gate * (1 - candidate * candidate), inside)
    for child in tl.static_range(children):
        forget_gate = _load(gates + (1 + child) * size, inside)
        grad_forget = grad * _load(child_cells + row * child_row + child * size + unit, inside)
        tl.store(grad_gates + (1 + child) * size, grad_forget * forget_gate * (1 - forget_gate), inside)
        child_grad = grad_child_cells + row * grad_child_row + child * size + unit
        tl.store(child_grad, _load(child_grad, inside) + grad * forget_gate, inside)


@triton.jit(do_not_specialize=["padding_mask", "weights", "src_len", "mask_row", "mask_position"])
def _attend(
    product: tl.tensor, keys: tl.tensor, annotations: tl.tensor, energy: tl.tensor, padding_mask: tl.tensor,
    query: tl.tensor, weights: tl.tensor, context: tl.tensor, src_len: int, mask_row: int, mask_position: int,
    product_row: tl.constexpr, context_row: tl.constexpr, size: tl.constexpr, width: tl.constexpr, block: tl.constexpr,
    columns: tl.constexpr, positions: tl.constexpr,
) -> None:  # fmt: skip
    """One program computes ``columns`` of a sentence's context, and all energies itself: no program waits for another.

    It reads the source once (online softmax): its sums are over exp(e - the largest e so far). With ``energy`` None,
    which has no ``query``, the energies are the products of ``product`` with the keys.
    """
    row, column, inside = _place(width, columns)
    is_first = tl.program_id(1) == 0  # the first of a sentence's programs writes the weights and the query
    product += row * product_row
    keys += row * src_len * size
    annotations += row * src_len * width + column[None, :]
    weights += row * src_len
    precise: tl.constexpr = weights.dtype.element_ty
    largest, total = tl.full((), float("-inf"), precise), tl.zeros((), precise)
    summed = tl.zeros([columns], precise)
    for first in range(0, src_len, positions):
        position = first + tl.arange(0, positions)
        valid = position < src_len
        energies = _products(keys + position[:, None] * size, product, energy, valid, precise, size, block)
        energies = tl.where(valid, energies, float("-inf"))
        if padding_mask is not None:
            padded = tl.load(padding_mask + row * mask_row + position * mask_position, mask=valid, other=0)
            energies = tl.where(padded, float("-inf"), energies)
        if is_first:
            tl.store(weights + position, energies, valid)
        larger = tl.maximum(largest, tl.max(energies, axis=0))
        # With padding on the left, the largest energy is -inf until the first word: subtracting it would give NaN.
        base = tl.where(larger == float("-inf"), 0.0, larger)
        shares, factor = tl.exp(energies - base), tl.exp(largest - base)
        read = _load(annotations + position[:, None] * width, valid[:, None] & inside[None, :])
        summed = summed * factor + tl.sum(shares[:, None] * read, axis=0)
        total = total * factor + tl.sum(shares, axis=0)
        largest = larger
    tl.store(context + row * context_row + column, summed / total, inside)
    tl.debug_barrier()  # other threads wrote the energies that are read below
    if is_first:
        for first in range(0, src_len, block):
            position = first + tl.arange(0, block)
            valid = position < src_len
            tl.store(weights + position, tl.exp(_load(weights + position, valid) - largest) / total, valid)
        if query is not None:
            for first in range(0, size, block):
                unit = first + tl.arange(0, block)
                tl.store(query + row * size + unit, tl.load(product + unit, unit < size), unit < size)


@triton.jit(
    do_not_specialize=[
        "weights", "grad_weights", "grad_scores", "src_len", "grad_weights_row", "grad_weights_position"
    ]
)  # fmt: skip
def _attend_backward(
    query: tl.tensor, keys: tl.tensor, annotations: tl.tensor, energy: tl.tensor, weights: tl.tensor,
    context: tl.tensor, grad_weights: tl.tensor, grad_context: tl.tensor, grad_query: tl.tensor, grad_keys: tl.tensor,
    grad_energy: tl.tensor, grad_scores: tl.tensor, src_len: int, grad_weights_row: int, grad_weights_position: int,
    context_row: tl.constexpr, grad_context_row: tl.constexpr, grad_query_row: tl.constexpr, size: tl.constexpr,
    width: tl.constexpr, block: tl.constexpr, columns: tl.constexpr, positions: tl.constexpr,
) -> None:  # fmt: skip
    """One program computes the gradients of ``block`` units of a sentence's query and keys.

    dL/de_j = alpha_j (g_j - sum_k alpha_k g_k), where g_j = dL/dalpha_j. The part of the sum that comes through the
    context is the product of c_i and dL/dc_i, so that the sum is known before the loop over the source. With ``energy``
    None, it adds to the query's gradient, and the first of a sentence's programs writes the dL/de_j.
    """
    row, unit, inside = _place(size, block)
    precise: tl.constexpr = weights.dtype.element_ty
    weights += row * src_len
    context += row * context_row
    grad_context += row * grad_context_row
    annotations += row * src_len * width
    keys += row * src_len * size + unit[None, :]
    grad_query += row * grad_query_row + unit
    expected = _dot(context, grad_context, 1, width, precise, columns)
    if grad_weights is not None:
        grad_weights += row * grad_weights_row
        expected += _dot(weights, grad_weights, grad_weights_position, src_len, precise, columns)
    if energy is not None:
        query_values = _load(query + row * size + unit, inside)[None, :]
        grad_keys += row * src_len * size + unit[None, :]
    query_sum, energy_sum = tl.zeros([block], precise), tl.zeros([block], precise)
    for first in range(0, src_len, positions):
        position = first + tl.arange(0, positions)
        valid = position < src_len
        grad = _products(annotations + position[:, None] * width, grad_context, None, valid, precise, width, columns)
        if grad_weights is not None:
            grad += _load(grad_weights + position * grad_weights_position, valid)
        grad = _load(weights + position, valid) * (grad - expected)
        tile = valid[:, None] & inside[None, :]
        key_values = _load(keys + position[:, None] * size, tile)
        if energy is None:
            if tl.program_id(1) == 0:
                tl.store(grad_scores + row * src_len + position, grad, valid)
            query_sum += tl.sum(grad[:, None] * key_values, axis=0)
        else:
            aligned = _tanh(key_values + query_values)
            slope = grad[:, None] * (1 - aligned * aligned)
            energy_sum += tl.sum(grad[:, None] * aligned, axis=0)
            query_sum += tl.sum(slope, axis=0)
            key_grads = grad_keys + position[:, None] * size
            tl.store(key_grads, _load(key_grads, tile) + slope, tile)
    if energy is None:
        tl.store(grad_query, _load(grad_query, inside) + query_sum, inside)
    else:
        tl.store(grad_query, query_sum * _load(energy + unit, inside), inside)
        grad_energy += row * size + unit
        tl.store(grad_energy, _load(grad_energy, inside) + energy_sum, inside)


@triton.jit
def _dot(
    left: tl.tensor, right: tl.tensor, step: int, size: int, precise: tl.constexpr, block: tl.constexpr
) -> tl.tensor:  # fmt: skip
    """The dot product of two vectors of ``size`` elements; ``step`` is the stride of the right one."""
    summed = tl.zeros((), precise)
    for first in range(0, size, block):
        place = first + tl.arange(0, block)
        summed += tl.sum(_load(left + place, place < size) * _load(right + place * step, place < size), axis=0)
    return summed


@triton.jit
def _products(
    rows: tl.tensor, vector: tl.tensor, energy: tl.tensor, valid: tl.tensor,
    precise: tl.constexpr, size: tl.constexpr, block: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """The dot product of ``vector`` with each of the ``valid`` rows; with ``energy``, v_a^T tanh(row + vector)."""
    products = tl.zeros([valid.shape[0]], precise)
    for first in range(0, size, block):
        place = first + tl.arange(0, block)
        inside = place < size
        row_values = _load(rows + place[None, :], valid[:, None] & inside[None, :])
        vector_values = _load(vector + place, inside)[None, :]
        if energy is None:
            products += tl.sum(row_values * vector_values, axis=1)
        else:
            products += tl.sum(_tanh(row_values + vector_values) * _load(energy + place, inside)[None, :], axis=1)
    return products


@triton.jit(do_not_specialize=["padding_idx"])
def _softmax_cost(
    scores: tl.tensor, targets: tl.tensor, costs: tl.tensor, padding_idx: int,
    row_stride: tl.constexpr, size: tl.constexpr, block: tl.constexpr, keep_gradient: tl.constexpr,
    smoothing: tl.constexpr,
) -> None:  # fmt: skip
    """One program computes a word's cost in one pass over its scores (online softmax), and the gradient in a second."""
    row = tl.program_id(0).to(tl.int64)
    scores += row * row_stride
    target = tl.load(targets + row)
    is_word = target != padding_idx
    precise: tl.constexpr = costs.dtype.element_ty
    share: tl.constexpr = smoothing / (size - 1)  # of each word other than the target
    target_share: tl.constexpr = 1 - smoothing - share
    target_score = tl.load(scores + target).to(precise)
    largest, total = tl.full((), float("-inf"), precise), tl.zeros((), precise)
    all_scores = tl.zeros((), precise)
    for first in range(0, size, block):
        place = first + tl.arange(0, block)
        values = _load(scores + place, place < size)
        all_scores += tl.sum(values, axis=0)
        values = tl.where(place < size, values, float("-inf"))
        larger = tl.maximum(largest, tl.max(values, axis=0))
        total = total * tl.exp(largest - larger) + tl.sum(tl.exp(values - larger), axis=0)
        largest = larger
    log_total = tl.log(total) + largest
    cost = log_total - target_score
    tl.store(costs + 2 * row + 1, tl.where(is_word, cost, 0.0))
    if smoothing > 0:
        cost = target_share * cost + share * (size * log_total - all_scores)
    tl.store(costs + 2 * row, tl.where(is_word, cost, 0.0))
    if keep_gradient:
        tl.debug_barrier()  # every thread has read the target's score, which is overwritten below
        for first in range(0, size, block):
            place = first + tl.arange(0, block)
            shares = tl.exp(_load(scores + place, place < size) - largest) / total
            grads = tl.where(is_word, shares - share - target_share * (place == target).to(precise), 0.0)
            tl.store(scores + place, grads, place < size)
