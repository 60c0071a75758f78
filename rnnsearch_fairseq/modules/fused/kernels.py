"""The operations between the matrix products at one position of a loop, forward and backward.

Functions that return nothing write their results into their arguments. n is the number of units; ``activations``
``(batch, 3n)`` are s~, z and r side by side. The "sum" of s~, z or r is the argument of its nonlinearity. States and
their gradients are ``(batch, n)``.
"""

import torch
from torch import Tensor

from rnnsearch_fairseq.modules.attention import Memory, average_annotations
from rnnsearch_fairseq.modules.fused.products import Product

tanh_backward = torch.ops.aten.tanh_backward.grad_input
sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input


def like(model: Tensor, *tensors: Tensor) -> list[Tensor]:
    """``tensors`` made contiguous, in the precision of ``model``: autocast lowers a layer's output, not its weights."""
    return [tensor.to(model.dtype).contiguous() for tensor in tensors]


def update_unit(activations: Tensor, state: Tensor, times_reset: Product, reset_state: Tensor, after: Tensor) -> None:
    """One step of the gated unit (A.1.1): write r ∘ s_{i-1} into ``reset_state`` and s_i into ``after``.

    ``activations`` are the sums of s~, z and r, except U [r ∘ s_{i-1}]; s~, z and r overwrite them. ``state`` is
    s_{i-1}, and ``times_reset`` the product with U.
    """
    candidate, update, reset = activations.chunk(3, dim=1)
    activations[:, state.size(1) :].sigmoid_()
    torch.mul(reset, state, out=reset_state)
    times_reset(reset_state, candidate, candidate)
    torch.lerp(state, candidate.tanh_(), update, out=after)


def update_unit_backward(
    activations: Tensor, state: Tensor, times_reset: Product, grad_after: Tensor, grads: Tensor, grad_state: Tensor
) -> None:
    """Write the gradients of the sums of s~, z and r into ``grads`` ``(batch, 3n)``.

    Of dL/ds_{i-1}, all parts are added to ``grad_state`` except those through the matrices U_z and U_r.
    ``grad_after`` is dL/ds_i, ``state`` s_{i-1}, and ``times_reset`` the product with U^T.
    """
    candidate, update, reset = activations.chunk(3, dim=1)
    grad_candidate, grad_update, grad_reset = grads.chunk(3, dim=1)
    through_update = grad_after * update
    grad_state.add_(grad_after).sub_(through_update)
    tanh_backward(through_update, candidate, grad_input=grad_candidate)
    torch.sub(candidate, state, out=grad_update).mul_(grad_after)
    sigmoid_backward(grad_update, update, grad_input=grad_update)
    grad_product = times_reset(grad_candidate)  # of r ∘ s_{i-1}
    torch.mul(grad_product, state, out=grad_reset)
    sigmoid_backward(grad_reset, reset, grad_input=grad_reset)
    grad_state.addcmul_(grad_product, reset)


def attend(energies: Tensor, memory: Memory, weights: Tensor, context: Tensor) -> None:
    """Write alpha_i (Eq. 6) and c_i (Eq. 5) of the energies ``(batch, src_len)`` into ``weights`` and ``context``."""
    average, alpha = average_annotations(energies.unsqueeze(1), memory)
    context.copy_(average)
    weights.copy_(alpha)


def attend_backward(annotations: Tensor, weights: Tensor, grad_weights: Tensor, grad_context: Tensor) -> Tensor:
    """The gradient of the energies ``(batch, src_len)``, which sums to zero over a sentence.

    ``grad_weights`` is the gradient of alpha_i without its part through c_i, and ``grad_context`` is dL/dc_i.
    """
    grad_alpha = torch.bmm(grad_context.unsqueeze(1), annotations.mT).squeeze(1).to(weights.dtype).add_(grad_weights)
    grad_alpha.sub_((weights * grad_alpha).sum(dim=1, keepdim=True))
    return grad_alpha.mul_(weights)


class Alignment:
    """The alignment model at one position after the other.

    The ``keys`` are the U_a h_j ``(batch, src_len, n')``, and ``energy`` is v_a ``(n',)``. A query is W_a s_{i-1}
    ``(batch, n')``. For tanh(a) = 2 σ(2a) - 1, only σ(2a) is computed: on a processor of AMD, PyTorch's sigmoid takes a
    sixth of its tanh's time. The backward pass computes it again.
    """

    def __init__(self, keys: Tensor, energy: Tensor) -> None:
        self.keys, self.energy, self.sigmoids = keys, energy, torch.empty_like(keys)

    def __call__(self, query: Tensor) -> Tensor:
        """The energies ``(batch, src_len)`` up to a constant, which does not change their softmax."""
        return self._compute_sigmoids(query) @ (2 * self.energy)

    def _compute_sigmoids(self, query: Tensor) -> Tensor:
        return torch.add(2 * query.unsqueeze(1), self.keys, alpha=2, out=self.sigmoids).sigmoid_()

    def backward(
        self, query: Tensor, grad_energies: Tensor, grad_query: Tensor, grad_keys: Tensor, grad_energy: Tensor
    ) -> None:
        """Write the gradient of the query; add to the gradients of the keys and of v_a, which are in float32 at least.

        ``grad_keys`` ``(batch, src_len, n')`` is to be multiplied by v_a after the last position. ``grad_energy``
        ``(batch, n')`` has one gradient of v_a for each sentence.
        """
        sigmoids = self._compute_sigmoids(query)
        grad_energies = grad_energies.to(sigmoids.dtype)
        if grad_energy.dtype == sigmoids.dtype:
            grad_energy.unsqueeze(1).baddbmm_(grad_energies.unsqueeze(1), sigmoids, alpha=2)
        else:
            grad_energy.add_(torch.bmm(grad_energies.unsqueeze(1), sigmoids).squeeze(1), alpha=2)
        slope = torch.addcmul(sigmoids, sigmoids, sigmoids, value=-1, out=sigmoids)  # a quarter of 1 - tanh^2
        torch.mul(torch.bmm(grad_energies.unsqueeze(1), slope).squeeze(1), 4 * self.energy, out=grad_query)
        grad_keys.addcmul_(grad_energies.unsqueeze(2), slope, value=4)


def apply_cell(gates: Tensor, child_cells: Tensor, hidden: Tensor, cell: Tensor) -> None:
    """The LSTM of k children, c = i ∘ u + sum_m f_m ∘ c_m and h = o ∘ tanh(c): k is 1 in a sequence, 2 in a tree.

    ``gates`` ``(batch, (k + 3) n)`` are the sums of i, f_1 to f_k, o and u, which overwrite them. ``child_cells``
    ``(batch, k n)`` are the c_m side by side. ``hidden`` and ``cell`` ``(batch, n)`` receive h and c.
    """
    size = cell.size(1)
    gates[:, :-size].sigmoid_()
    gates[:, -size:].tanh_()
    in_gate, *forget_gates, out_gate, candidate = gates.split(size, dim=1)
    torch.mul(in_gate, candidate, out=cell)
    for forget_gate, child in zip(forget_gates, child_cells.split(size, dim=1)):
        cell.addcmul_(forget_gate, child)
    torch.tanh(cell, out=hidden).mul_(out_gate)


def apply_cell_backward(
    gates: Tensor,
    child_cells: Tensor,
    cell: Tensor,
    grad_hidden: Tensor,
    grad_cell: Tensor,
    grad_gates: Tensor,
    grad_child_cells: Tensor,
) -> None:
    """Write the gradients of the sums into ``grad_gates``, and add those of the c_m to ``grad_child_cells``.

    ``gates``, ``child_cells`` and ``cell`` are as :func:`apply_cell` leaves them. ``grad_hidden`` and ``grad_cell`` are
    the gradients of h and c.
    """
    size = cell.size(1)
    in_gate, *forget_gates, out_gate, candidate = gates.split(size, dim=1)
    grad_in, *grad_forget_gates, grad_out, grad_candidate = grad_gates.split(size, dim=1)
    squashed = torch.tanh(cell)
    grad_cell = torch.ops.aten.tanh_backward(grad_hidden * out_gate, squashed).add_(grad_cell)
    torch.mul(grad_cell, candidate, out=grad_in)
    torch.mul(grad_hidden, squashed, out=grad_out)
    torch.mul(grad_cell, in_gate, out=grad_candidate)
    for forget_gate, child, grad_forget, grad_child in zip(
        forget_gates, child_cells.split(size, dim=1), grad_forget_gates, grad_child_cells.split(size, dim=1)
    ):
        torch.mul(grad_cell, child, out=grad_forget)
        grad_child.addcmul_(grad_cell, forget_gate)
    grad_sums = grad_gates[:, :-size]
    sigmoid_backward(grad_sums, gates[:, :-size], grad_input=grad_sums)
    tanh_backward(grad_candidate, candidate, grad_input=grad_candidate)
