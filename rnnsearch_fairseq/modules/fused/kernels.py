"""The operations between the matrix products at one position of a loop, forward and backward.

Functions that return nothing write their results into their arguments. n is the number of units; ``activations``
``(batch, 3n)`` are s~, z and r side by side. The "sum" of s~, z or r is the argument of its nonlinearity. States and
their gradients are ``(batch, n)``.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from rnnsearch_fairseq.modules.attention import Memory
from rnnsearch_fairseq.modules.fused.products import Product
from rnnsearch_fairseq.modules.fused.recording import compiled

tanh_backward = torch.ops.aten.tanh_backward.grad_input
sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input


def like(model: Tensor, *tensors: Tensor) -> list[Tensor]:
    """``tensors`` made contiguous, in the precision of ``model``: autocast lowers a layer's output, not its weights."""
    return [tensor.to(model.dtype).contiguous() for tensor in tensors]


def update_unit(
    activations: Tensor, state: Tensor, gates: Tensor | None, times_reset: Product, reset_state: Tensor, after: Tensor
) -> None:
    """One step of the gated unit (A.1.1): write r ∘ s_{i-1} into ``reset_state`` and s_i into ``after``.

    ``activations`` are the sums of s~, z and r, except U [r ∘ s_{i-1}] and, if not None, ``gates`` ``(batch, 2n)``,
    terms of z and r; s~, z and r overwrite them. ``state`` is s_{i-1}, and ``times_reset`` the product with U.
    """
    candidate, update, reset = activations.chunk(3, dim=1)
    _open_gates(update, reset, state, (None, None) if gates is None else gates.chunk(2, dim=1), reset_state)
    times_reset(reset_state, candidate, candidate)
    _update_state(candidate, update, state, after)


@compiled
def _open_gates(
    update: Tensor, reset: Tensor, state: Tensor, terms: Sequence[Tensor | None], reset_state: Tensor
) -> None:
    for gate, term in zip((update, reset), terms):
        (gate if term is None else gate.add_(term)).sigmoid_()
    torch.mul(reset, state, out=reset_state)


@compiled
def _update_state(candidate: Tensor, update: Tensor, state: Tensor, after: Tensor) -> None:
    torch.lerp(state, candidate.tanh_(), update, out=after)


def update_unit_backward(
    activations: Tensor, state: Tensor, times_reset: Product, grad_after: Tensor, grads: Tensor, grad_state: Tensor
) -> None:
    """Write the gradients of the sums of s~, z and r into ``grads`` ``(batch, 3n)``.

    All parts of dL/ds_{i-1} are added to ``grad_state``, except for the parts through the matrices U_z and U_r.
    ``grad_after`` is dL/ds_i, ``state`` s_{i-1}, and ``times_reset`` the product with U^T.
    """
    *activated, reset = activations.chunk(3, dim=1)
    *grad_sums, grad_reset = grads.chunk(3, dim=1)
    _update_state_backward(activated, state, grad_after, grad_sums, grad_state)
    _open_gates_backward(reset, state, times_reset(grad_sums[0]), grad_reset, grad_state)


@compiled
def _update_state_backward(
    activations: Sequence[Tensor], state: Tensor, grad_after: Tensor, grads: Sequence[Tensor], grad_state: Tensor
) -> None:
    (candidate, update), (grad_candidate, grad_update) = activations, grads
    through_update = grad_after * update
    grad_state.add_(grad_after).sub_(through_update)
    tanh_backward(through_update, candidate, grad_input=grad_candidate)
    torch.sub(candidate, state, out=grad_update).mul_(grad_after)
    sigmoid_backward(grad_update, update, grad_input=grad_update)


@compiled
def _open_gates_backward(
    reset: Tensor, state: Tensor, grad_reset_state: Tensor, grad_reset: Tensor, grad_state: Tensor
) -> None:
    torch.mul(grad_reset_state, state, out=grad_reset)
    sigmoid_backward(grad_reset, reset, grad_input=grad_reset)
    grad_state.addcmul_(grad_reset_state, reset)


def attend(energies: Tensor, memory: Memory, weights: Tensor, context: Tensor) -> None:
    """Write alpha_i (Eq. 6) and c_i (Eq. 5) of the energies ``(batch, src_len)`` into ``weights`` and ``context``.

    As in :func:`~rnnsearch_fairseq.modules.attention.average_annotations`, in two parts.
    """
    alpha = _softmax(energies, memory.padding_mask, weights).to(context.dtype)
    torch.bmm(alpha.unsqueeze(1), memory.annotations, out=context.unsqueeze(1))


@compiled
def _softmax(energies: Tensor, padding_mask: Tensor | None, weights: Tensor) -> Tensor:
    if padding_mask is not None:
        energies = energies.masked_fill(padding_mask, -torch.inf)
    return weights.copy_(torch.softmax(energies, dim=1, dtype=weights.dtype))


def attend_backward(annotations: Tensor, weights: Tensor, grad_weights: Tensor, grad_context: Tensor) -> Tensor:
    """The gradient of the energies ``(batch, src_len)``, which sums to zero over a sentence.

    ``grad_weights`` is the gradient of alpha_i without its part through c_i, and ``grad_context`` is dL/dc_i.
    """
    through_context = torch.bmm(grad_context.unsqueeze(1), annotations.mT).squeeze(1)
    return _softmax_backward(through_context, weights, grad_weights)


@compiled
def _softmax_backward(through_context: Tensor, weights: Tensor, grad_weights: Tensor) -> Tensor:
    grad_alpha = grad_weights + through_context
    grad_alpha.sub_((weights * grad_alpha).sum(dim=1, keepdim=True))
    return grad_alpha.mul_(weights)


def make_sigmoids(keys: Tensor) -> Tensor | None:
    """The memory for the σ of :func:`align` ``(batch, src_len, n')``; None on a GPU.

    There the σ are not stored, but compiled together with the sums over them.
    """
    return None if keys.device.type == "cuda" else torch.empty_like(keys)


def _squash(query: Tensor, keys: Tensor, out: Tensor | None) -> Tensor:
    return torch.add(2 * query.unsqueeze(1), keys, alpha=2, out=out).sigmoid_()


@compiled
def align(query: Tensor, keys: Tensor, energy: Tensor, sigmoids: Tensor | None) -> Tensor:
    """The energies ``(batch, src_len)`` of the alignment model plus a constant, which does not change the softmax of
    the energies.

    The ``query`` is W_a s_{i-1} ``(batch, n')``, the ``keys`` are the U_a h_j ``(batch, src_len, n')``, and ``energy``
    is v_a ``(n',)``. For tanh(a) = 2 σ(2a) - 1, only σ(2a) is computed, into ``sigmoids``: on a processor of AMD,
    PyTorch's sigmoid takes a sixth of its tanh's time.
    """
    if sigmoids is None:
        return (_squash(query, keys, None) * (2 * energy)).sum(dim=2)
    return _squash(query, keys, sigmoids) @ (2 * energy)


@compiled
def align_backward(
    query: Tensor, keys: Tensor, energy: Tensor, sigmoids: Tensor | None, grad_energies: Tensor, *grads: Tensor
) -> None:
    """Write the gradient of the query, and add to the gradients of the keys and of v_a, which are float32 or longer.

    ``grads`` are these three. That of the keys ``(batch, src_len, n')`` is to be multiplied by v_a after the last
    position, and that of v_a ``(batch, n')`` has one row for each sentence. The σ are computed again.
    """
    grad_query, grad_keys, grad_energy = grads
    weigh = _weigh_by_product if sigmoids is not None else _weigh_by_sum
    sigmoids = _squash(query, keys, sigmoids)
    grad_energies = grad_energies.to(sigmoids.dtype)
    if weigh is _weigh_by_product and grad_energy.dtype == sigmoids.dtype:
        grad_energy.unsqueeze(1).baddbmm_(grad_energies.unsqueeze(1), sigmoids, alpha=2)
    else:
        grad_energy.add_(weigh(grad_energies, sigmoids), alpha=2)
    slope = torch.addcmul(sigmoids, sigmoids, sigmoids, value=-1, out=sigmoids)  # a quarter of 1 - tanh^2
    torch.mul(weigh(grad_energies, slope), 4 * energy, out=grad_query)
    grad_keys.addcmul_(grad_energies.unsqueeze(2), slope, value=4)


def _weigh_by_product(weights: Tensor, rows: Tensor) -> Tensor:
    """The sum of the ``rows`` ``(batch, src_len, n')``, weighted by ``weights`` ``(batch, src_len)``."""
    return torch.bmm(weights.unsqueeze(1), rows).squeeze(1)


def _weigh_by_sum(weights: Tensor, rows: Tensor) -> Tensor:
    """The same where it is compiled together with the operations around it."""
    return (weights.unsqueeze(2) * rows).sum(dim=1)


def apply_cell(gates: Tensor, child_cells: Tensor, hidden: Tensor, cell: Tensor) -> None:
    """The LSTM of k children, c = i ∘ u + sum_m f_m ∘ c_m and h = o ∘ tanh(c): k is 1 in a sequence, 2 in a tree.

    ``gates`` ``(batch, (k + 3) n)`` are the sums of i, f_1 to f_k, o and u, which overwrite them. ``child_cells``
    ``(batch, k n)`` are the c_m side by side. ``hidden`` and ``cell`` ``(batch, n)`` receive h and c.
    """
    size = cell.size(1)
    _apply_cell(gates.split(size, dim=1), child_cells.split(size, dim=1), hidden, cell)


@compiled
def _apply_cell(gates: Sequence[Tensor], child_cells: Sequence[Tensor], hidden: Tensor, cell: Tensor) -> None:
    for gate in gates[:-1]:
        gate.sigmoid_()
    in_gate, *forget_gates, out_gate, candidate = gates
    torch.mul(in_gate, candidate.tanh_(), out=cell)
    for forget_gate, child in zip(forget_gates, child_cells):
        cell.addcmul_(forget_gate, child)
    torch.tanh(cell, out=hidden).mul_(out_gate)


def apply_cell_backward(gates: Tensor, child_cells: Tensor, cell: Tensor, *grads: Tensor) -> None:
    """Write the gradients of the sums, and add to the gradients of the c_m.

    ``gates``, ``child_cells`` and ``cell`` are as :func:`apply_cell` leaves them. ``grads`` are the gradients of h, of
    c, of the sums and of the c_m.
    """
    grad_hidden, grad_cell, grad_gates, grad_child_cells = grads
    tensors = (gates, child_cells, grad_gates, grad_child_cells)
    _apply_cell_backward(cell, grad_hidden, grad_cell, *(tensor.split(cell.size(1), dim=1) for tensor in tensors))


@compiled
def _apply_cell_backward(cell: Tensor, grad_hidden: Tensor, grad_cell: Tensor, *parts: Sequence[Tensor]) -> None:
    gates, child_cells, grad_gates, grad_child_cells = parts
    in_gate, *forget_gates, out_gate, candidate = gates
    grad_in, *grad_forget_gates, grad_out, grad_candidate = grad_gates
    squashed = torch.tanh(cell)
    grad_cell = torch.ops.aten.tanh_backward(grad_hidden * out_gate, squashed).add_(grad_cell)
    torch.mul(grad_cell, candidate, out=grad_in)
    torch.mul(grad_hidden, squashed, out=grad_out)
    torch.mul(grad_cell, in_gate, out=grad_candidate)
    for forget_gate, child, grad_forget, grad_child in zip(
        forget_gates, child_cells, grad_forget_gates, grad_child_cells
    ):
        torch.mul(grad_cell, child, out=grad_forget)
        grad_child.addcmul_(grad_cell, forget_gate)
    for gate, grad_gate in zip(gates[:-1], grad_gates[:-1]):
        sigmoid_backward(grad_gate, gate, grad_input=grad_gate)
    tanh_backward(grad_candidate, candidate, grad_input=grad_candidate)
