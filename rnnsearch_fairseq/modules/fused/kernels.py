"""The operations between the matrix products, forward and backward: at a scan's position, and of the cost.

Every function writes its results into its arguments. n is the number of units; ``activations`` ``(batch, 3n)`` are s~,
z and r side by side. The "sum" of s~, z or r is the argument of its nonlinearity. States and their gradients are
``(batch, n)``.
"""

import torch
from torch import Tensor

from rnnsearch_fairseq.modules.attention import Memory, average_annotations

# Words whose costs are computed together: few enough to stay in a CPU's cache; on a GPU few launches matter more.
ROWS, ROWS_ON_GPU = 64, 4096

tanh_backward = torch.ops.aten.tanh_backward.grad_input
sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input


def like(model: Tensor, *tensors: Tensor) -> list[Tensor]:
    """``tensors`` made contiguous, in the precision of ``model``: autocast lowers a layer's output, not its weights."""
    return [tensor.to(model.dtype).contiguous() for tensor in tensors]


def apply_gates(gates: Tensor, summand: Tensor | None, state: Tensor, mask: Tensor | None, reset_state: Tensor) -> None:
    """Replace the sums in ``gates`` ``(batch, 2n)`` by z and r = σ(sums); write r ∘ s_{i-1} into ``reset_state``.

    ``summand`` ``(batch, 2n)`` is the part of the sums that is not yet in ``gates``. ``mask`` ``(batch, 1)`` is one at
    words and zero at padding, where z becomes zero, which keeps the state.
    """
    size = state.size(1)
    if summand is not None:
        gates.add_(summand)
    gates.sigmoid_()
    if mask is not None:
        gates[:, :size] *= mask
    torch.mul(gates[:, size:], state, out=reset_state)


def update_state(candidate: Tensor, update: Tensor, state: Tensor, new_state: Tensor) -> None:
    """Replace the sum in ``candidate`` by s~ = tanh(sum); write s_i = (1 - z) ∘ s_{i-1} + z ∘ s~ into ``new_state``."""
    torch.lerp(state, candidate.tanh_(), update, out=new_state)


def update_state_backward(
    activations: Tensor, state: Tensor, grad_new_state: Tensor, grads: Tensor, grad_state: Tensor
) -> None:
    """Write the gradients of the sums of s~ and z into ``grads``; add (1 - z) ∘ dL/ds_i to ``grad_state``.

    ``state`` is s_{i-1}, ``grad_new_state`` dL/ds_i, ``grad_state`` dL/ds_{i-1}. ``grads`` ``(batch, 3n)`` are the
    gradients of the sums of s~, z and r, the last of which is left alone.
    """
    candidate, update, _ = activations.chunk(3, dim=1)
    grad_candidate, grad_update, _ = grads.chunk(3, dim=1)
    through_update = grad_new_state * update
    grad_state.add_(grad_new_state).sub_(through_update)
    tanh_backward(through_update, candidate, grad_input=grad_candidate)
    torch.sub(candidate, state, out=grad_update).mul_(grad_new_state)
    sigmoid_backward(grad_update, update, grad_input=grad_update)


def reset_backward(reset: Tensor, state: Tensor, grad_product: Tensor, grad_reset: Tensor, grad_state: Tensor) -> None:
    """Write the gradient of the sum of r into ``grad_reset``; add r ∘ ``grad_product`` to ``grad_state``.

    ``state`` is s_{i-1}, ``grad_product`` the gradient of r ∘ s_{i-1}, and ``grad_state`` dL/ds_{i-1}.
    """
    torch.mul(grad_product, state, out=grad_reset)
    sigmoid_backward(grad_reset, reset, grad_input=grad_reset)
    grad_state.addcmul_(grad_product, reset)


def attend_by_network(
    product: Tensor, memory: Memory, energy: Tensor, aligned: Tensor, query: Tensor, weights: Tensor, context: Tensor
) -> None:
    """Write alpha_i (Eq. 6) into ``weights`` ``(batch, src_len)``, and c_i (Eq. 5) into ``context`` ``(batch, 2n)``.

    ``product`` W_a s_{i-1} ``(batch, n')`` is also copied into ``query``. ``energy`` is v_a ``(n',)``, and ``aligned``
    a tensor like the keys U_a h_j, of which only the memory is used.
    """
    query.copy_(product)
    # The sum of v_a is left out, which does not change the softmax.
    energies = align(memory.keys, query, aligned) @ (2 * energy)
    _attend(energies, memory, weights, context)


def attend_by_product(hidden: Tensor, states: Tensor, padding_mask: Tensor, weights: Tensor, context: Tensor) -> None:
    """Write alpha_j and d_j (Eriguchi et al., 2016, Section 2.2) into ``weights`` and ``context``.

    The energies are the products of s_j ``(batch, d)`` with the ``states`` h_i ``(batch, columns, d)``, of which d_j
    ``(batch, d)`` is the average; ``weights`` and ``padding_mask`` are ``(batch, columns)``.
    """
    _attend(torch.bmm(hidden.unsqueeze(1), states.mT).squeeze(1), Memory(states, None, padding_mask), weights, context)


def _attend(energies: Tensor, memory: Memory, weights: Tensor, context: Tensor) -> None:
    average, alpha = average_annotations(energies.unsqueeze(1), memory)
    context.copy_(average)
    weights.copy_(alpha)


def attend_by_network_backward(
    query: Tensor,
    memory: Memory,
    energy: Tensor,
    aligned: Tensor,
    weights: Tensor,
    grad_weights: Tensor,
    grad_context: Tensor,
    grad_query: Tensor,
    grad_keys: Tensor,
    grad_energy: Tensor,
) -> None:
    """Write the gradient of ``query``; add to the gradients of the keys (divided by v_a) and of ``energy``.

    Args:
        grad_weights: the gradient of alpha_i without its part through the context, ``(batch, src_len)``.
        grad_context: dL/dc_i, ``(batch, 2n)``.
        grad_query: dL/d(W_a s_{i-1}), ``(batch, n')``.
        grad_keys: ``(batch, src_len, n')``; the caller multiplies it by v_a after the last position.
        grad_energy: one gradient of v_a for each sentence, ``(batch, n')``. Both are in float32 at least.
    """
    keys = memory.keys
    grad_energies = _softmax_backward(memory.annotations, weights, grad_weights, grad_context).to(keys.dtype)
    align(keys, query, aligned)
    if grad_energy.dtype == keys.dtype:
        grad_energy.unsqueeze(1).baddbmm_(grad_energies.unsqueeze(1), aligned, alpha=2)
    else:
        grad_energy.add_(torch.bmm(grad_energies.unsqueeze(1), aligned).squeeze(1), alpha=2)
    slope = torch.addcmul(aligned, aligned, aligned, value=-1, out=aligned)  # a quarter of 1 - tanh^2
    torch.mul(torch.bmm(grad_energies.unsqueeze(1), slope).squeeze(1), 4 * energy, out=grad_query)
    grad_keys.addcmul_(grad_energies.unsqueeze(2), slope, value=4)


def attend_by_product_backward(
    states: Tensor,
    weights: Tensor,
    grad_weights: Tensor,
    grad_context: Tensor,
    grad_hidden: Tensor,
    grad_scores: Tensor,
) -> None:
    """Write the gradient of the energies into ``grad_scores`` ``(batch, columns)``; add that of s_j to ``grad_hidden``.

    ``grad_weights`` is the gradient of alpha_j without its part through d_j, ``grad_context`` that of d_j.
    """
    grad_scores.copy_(_softmax_backward(states, weights, grad_weights, grad_context))
    grad_hidden += torch.bmm(grad_scores.to(states.dtype).unsqueeze(1), states).squeeze(1)


def _softmax_backward(annotations: Tensor, weights: Tensor, grad_weights: Tensor, grad_context: Tensor) -> Tensor:
    """The gradient of the energies, which sums to zero over a sentence."""
    grad_alpha = torch.bmm(grad_context.unsqueeze(1), annotations.mT).squeeze(1).to(weights.dtype).add_(grad_weights)
    grad_alpha.sub_((weights * grad_alpha).sum(dim=1, keepdim=True))
    return grad_alpha.mul_(weights)


def align(keys: Tensor, query: Tensor, out: Tensor) -> Tensor:
    """σ(2a) for a = W_a s_{i-1} + U_a h_j, ``(batch, src_len, n')``, in place of tanh(a) = 2 σ(2a) - 1.

    On a processor of AMD, PyTorch's sigmoid takes a sixth of its tanh's time.
    """
    return torch.add(2 * query.unsqueeze(1), keys, alpha=2, out=out).sigmoid_()


def apply_cell(gates: Tensor, child_cells: Tensor, hiddens: Tensor, cells: Tensor, places: Tensor | None) -> None:
    """The LSTM of k children, c = i ∘ u + sum_m f_m ∘ c_m and h = o ∘ tanh(c): k is 1 in a sequence, 2 in a tree.

    Args:
        gates: the sums of i, f_1 to f_k, o and u, ``(batch, (k + 3) n)``; i, f, o and u overwrite them.
        child_cells: the c_m side by side, ``(batch, k n)``.
        hiddens, cells: receive h and c, ``(batch, n)`` each, or in the rows ``places`` of larger tables.
    """
    size = cells.size(1)
    gates[:, :-size].sigmoid_()
    gates[:, -size:].tanh_()
    in_gate, *forget_gates, out_gate, candidate = gates.split(size, dim=1)
    hidden, cell = (hiddens, cells) if places is None else (hiddens.new_empty(len(gates), size) for _ in range(2))
    torch.mul(in_gate, candidate, out=cell)
    for forget_gate, child in zip(forget_gates, child_cells.split(size, dim=1)):
        cell.addcmul_(forget_gate, child)
    torch.tanh(cell, out=hidden).mul_(out_gate)
    if places is not None:
        hiddens.index_copy_(0, places, hidden)
        cells.index_copy_(0, places, cell)


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
    """Write the gradient of each sum into ``grad_gates``, and add the gradient of each c_m to ``grad_child_cells``.

    Args:
        gates, child_cells, places: as :func:`apply_cell` leaves them.
        cells, grad_hiddens, grad_cells: c and the gradients of h and c, in the same places.
    """
    if places is not None:
        cells, grad_hiddens, grad_cells = (table.index_select(0, places) for table in (cells, grad_hiddens, grad_cells))
    size = cells.size(1)
    in_gate, *forget_gates, out_gate, candidate = gates.split(size, dim=1)
    grad_in, *grad_forget_gates, grad_out, grad_candidate = grad_gates.split(size, dim=1)
    squashed = torch.tanh(cells)
    grad_cell = torch.ops.aten.tanh_backward(grad_hiddens * out_gate, squashed).add_(grad_cells)
    torch.mul(grad_cell, candidate, out=grad_in)
    torch.mul(grad_hiddens, squashed, out=grad_out)
    torch.mul(grad_cell, in_gate, out=grad_candidate)
    for forget_gate, child, grad_forget, grad_child in zip(
        forget_gates, child_cells.split(size, dim=1), grad_forget_gates, grad_child_cells.split(size, dim=1)
    ):
        torch.mul(grad_cell, child, out=grad_forget)
        grad_child.addcmul_(grad_cell, forget_gate)
    grad_sums = grad_gates[:, :-size]
    sigmoid_backward(grad_sums, gates[:, :-size], grad_input=grad_sums)
    tanh_backward(grad_candidate, candidate, grad_input=grad_candidate)


def softmax_cost(
    scores: Tensor, targets: Tensor, padding_idx: int | None, keep_gradient: bool, smoothing: float = 0.0
) -> Tensor:
    """The cost H(q, p) of the ``targets`` ``(words,)``, and -sum log p: ``(2,)`` in float32 at least.

    p = softmax(scores), and q is 1 - ``smoothing`` for the target and ``smoothing`` / (K_y - 1) for each other word.
    The scores ``(words, K_y)`` are overwritten: with the gradient of the cost, p - q, if ``keep_gradient``. Targets
    equal to ``padding_idx`` have neither cost nor gradient.
    """
    share = smoothing / (scores.size(1) - 1) if smoothing else 0.0
    words = targets.unsqueeze(1)
    values = scores.to(torch.promote_types(scores.dtype, torch.float32))
    greatest = values.amax(dim=1, keepdim=True)
    values.sub_(greatest)
    target_scores = values.gather(1, words)
    all_scores = values.sum(dim=1, keepdim=True) if smoothing else None
    total = values.exp_().sum(dim=1, keepdim=True)
    if keep_gradient:
        torch.div(values, total, out=values)
        if smoothing:
            values.sub_(share)
        if values is not scores:
            scores.copy_(values)
        scores.scatter_add_(1, words, scores.new_full((), smoothing + share - 1).expand_as(words))
    log_total = total.log_()
    nll = log_total - target_scores
    costs = nll
    if smoothing:
        costs = (1 - smoothing - share) * nll + share * (scores.size(1) * log_total - all_scores)
    costs = torch.cat([costs, nll], dim=1)
    if padding_idx is not None:
        is_padding = words.eq(padding_idx)
        costs.masked_fill_(is_padding, 0)
        if keep_gradient:
            scores.masked_fill_(is_padding, 0)
    return costs.sum(dim=0)
