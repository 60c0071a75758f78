"""The operations between the matrix products, forward and backward, in PyTorch: of a scan's position, and of the cost.

:mod:`~rnnsearch_fairseq.modules.fused.triton_kernels` has the same functions as GPU kernels. Every function writes its
results into its arguments. n is the number of units; ``activations`` ``(batch, 3n)`` are s~, z and r side by side. The
"sum" of s~, z or r is the argument of its nonlinearity.
"""

import torch
from torch import Tensor
from torch.optim.adadelta import adadelta as adadelta_

ROWS = 64  # words whose cost is computed together: few enough to stay in the CPU's cache

tanh_backward = torch.ops.aten.tanh_backward.grad_input
sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input

scratch = torch.empty_like  # scratch(keys) is the argument ``aligned`` of the attention functions


def apply_gates(
    gates: Tensor,
    summand: Tensor | None,
    projected: Tensor | None,
    state: Tensor,
    mask: Tensor | None,
    reset_state: Tensor,
) -> None:
    """Replace the sums in ``gates`` by z and r = σ(sums); write r ∘ s_{i-1} into ``reset_state``.

    Args:
        gates: the sums of z and r, ``(batch, 2n)``.
        summand, projected: parts of the sums that are not yet in ``gates``, ``(batch, 2n)``, or None.
        state: s_{i-1}, ``(batch, n)``, like ``reset_state``.
        mask: ``(batch, 1)``, one at words and zero at padding. There z becomes zero, which keeps the state unchanged.
    """
    size = state.size(1)
    for part in (summand, projected):
        if part is not None:
            gates.add_(part)
    gates.sigmoid_()
    if mask is not None:
        gates[:, :size] *= mask
    torch.mul(gates[:, size:], state, out=reset_state)


def update_state(candidate: Tensor, projected: Tensor | None, update: Tensor, state: Tensor, new_state: Tensor) -> None:
    """Replace the sum in ``candidate`` by s~ = tanh(sum); write s_i = (1 - z) ∘ s_{i-1} + z ∘ s~ into ``new_state``.

    ``projected`` is the part of the sum that is not yet in ``candidate``, or None. All arguments are ``(batch, n)``.
    """
    if projected is not None:
        candidate.add_(projected)
    torch.lerp(state, candidate.tanh_(), update, out=new_state)


def update_state_backward(
    activations: Tensor, state: Tensor, grad_state: Tensor, grads: Tensor, grad_before: Tensor
) -> None:
    """Write the gradients of the sums of s~ and z into ``grads``; add (1 - z) ∘ dL/ds_i to ``grad_before``.

    Args:
        activations: s~, z and r, ``(batch, 3n)``.
        state: s_{i-1}, ``(batch, n)``.
        grad_state: dL/ds_i, ``(batch, n)``.
        grads: the gradients of the sums of s~, z and r, ``(batch, 3n)``; the last is left alone.
        grad_before: dL/ds_{i-1}, ``(batch, n)``.
    """
    candidate, update, _ = activations.chunk(3, dim=1)
    grad_candidate, grad_update, _ = grads.chunk(3, dim=1)
    through_update = grad_state * update
    grad_before.add_(grad_state).sub_(through_update)
    tanh_backward(through_update, candidate, grad_input=grad_candidate)
    torch.sub(candidate, state, out=grad_update).mul_(grad_state)
    sigmoid_backward(grad_update, update, grad_input=grad_update)


def reset_backward(reset: Tensor, state: Tensor, grad_product: Tensor, grad_reset: Tensor, grad_before: Tensor) -> None:
    """Write the gradient of the sum of r into ``grad_reset``; add r ∘ ``grad_product`` to ``grad_before``.

    Args:
        reset: r. All arguments are ``(batch, n)``.
        state: s_{i-1}.
        grad_product: the gradient of r ∘ s_{i-1}.
        grad_before: dL/ds_{i-1}.
    """
    torch.mul(grad_product, state, out=grad_reset)
    sigmoid_backward(grad_reset, reset, grad_input=grad_reset)
    grad_before.addcmul_(grad_product, reset)


def attend(
    product: Tensor,
    keys: Tensor,
    annotations: Tensor,
    energy: Tensor,
    padding_mask: Tensor | None,
    aligned: Tensor,
    query: Tensor,
    weights: Tensor,
    context: Tensor,
) -> None:
    """Write alpha_i (Eq. 6) into ``weights`` ``(batch, src_len)``, and c_i (Eq. 5) into ``context`` ``(batch, 2n)``.

    Args:
        product: W_a s_{i-1}, ``(batch, n')``, which is also copied into ``query``.
        keys, annotations, padding_mask: see :class:`~rnnsearch_fairseq.modules.attention.Memory`.
        energy: v_a, ``(n',)``.
        aligned: :func:`scratch`.
    """
    query.copy_(product)
    energies = align(keys, query, aligned) @ energy
    if padding_mask is not None:
        energies = energies.masked_fill_(padding_mask, float("-inf"))
    # At least float32: in half precision a softmax over a long sentence loses its small weights.
    weights.copy_(torch.softmax(energies, dim=-1, dtype=weights.dtype))
    torch.bmm(weights.to(keys.dtype).unsqueeze(1), annotations, out=context.unsqueeze(1))


def attend_backward(
    query: Tensor,
    keys: Tensor,
    annotations: Tensor,
    energy: Tensor,
    aligned: Tensor,
    weights: Tensor,
    context: Tensor,
    grad_weights: Tensor | None,
    grad_context: Tensor,
    grad_query: Tensor,
    grad_keys: Tensor,
    grad_energy: Tensor,
) -> None:
    """Write the gradient of ``query``; add to the gradients of ``keys`` (divided by v_a) and of ``energy``.

    Args:
        context: c_i; only :mod:`~rnnsearch_fairseq.modules.fused.triton_kernels` reads it.
        grad_weights: the gradient of alpha_i without its part through the context, ``(batch, src_len)``, or None.
        grad_context: the gradient of c_i, ``(batch, 2n)``.
        grad_query: dL/d(W_a s_{i-1}), ``(batch, n')``.
        grad_keys: ``(batch, src_len, n')``; the caller multiplies it by v_a after the last position.
        grad_energy: one gradient of v_a for each sentence, ``(batch, n')``. Both are in float32 at least.
    """
    grad_alpha = torch.bmm(grad_context.unsqueeze(1), annotations.mT).squeeze(1).to(weights.dtype)
    if grad_weights is not None:
        grad_alpha += grad_weights
    grad_alpha.sub_((weights * grad_alpha).sum(dim=1, keepdim=True))
    grad_energies = grad_alpha.mul_(weights).to(keys.dtype)
    align(keys, query, aligned)
    if grad_energy.dtype == keys.dtype:
        grad_energy.unsqueeze(1).baddbmm_(grad_energies.unsqueeze(1), aligned)
    else:
        grad_energy += torch.bmm(grad_energies.unsqueeze(1), aligned).squeeze(1)
    slope = torch.addcmul(aligned.new_ones(()), aligned, aligned, value=-1, out=aligned)
    torch.mul(torch.bmm(grad_energies.unsqueeze(1), slope).squeeze(1), energy, out=grad_query)
    grad_keys.addcmul_(grad_energies.unsqueeze(2), slope)


def align(keys: Tensor, query: Tensor, out: Tensor) -> Tensor:
    """tanh(W_a s_{i-1} + U_a h_j), ``(batch, src_len, n')``."""
    return torch.add(keys, query.unsqueeze(1), out=out).tanh_()


def softmax_cost(scores: Tensor, targets: Tensor, padding_idx: int | None, keep_gradient: bool) -> Tensor:
    """-sum log p of the ``targets`` ``(words,)``, a scalar in float32 at least, where p = softmax(scores).

    Args:
        scores: ``(words, K_y)``, which are overwritten: with the gradient of the cost if ``keep_gradient``.
        padding_idx: a target without cost and gradient, or None.
    """
    words = targets.unsqueeze(1)
    values = scores.to(torch.promote_types(scores.dtype, torch.float32))
    greatest = values.amax(dim=1, keepdim=True)
    values.sub_(greatest)
    target_scores = values.gather(1, words)
    total = values.exp_().sum(dim=1, keepdim=True)
    if keep_gradient:
        torch.div(values, total, out=values)
        if values is not scores:
            scores.copy_(values)
        scores.scatter_add_(1, words, scores.new_full((), -1.0).expand_as(words))
    costs = total.log() - target_scores
    if padding_idx is not None:
        is_padding = words.eq(padding_idx)
        costs.masked_fill_(is_padding, 0)
        if keep_gradient:
            scores.masked_fill_(is_padding, 0)
    return costs.sum()


def adadelta(
    parameter: Tensor, gradient: Tensor, square_avg: Tensor, acc_delta: Tensor, scale: Tensor | float, **settings: float
) -> None:
    """One update of ``parameter`` by Adadelta (Zeiler, 2012) in float32 at least, with the gradient over ``scale``.

    Args:
        parameter, gradient: of any shape and precision.
        square_avg, acc_delta: the running averages of squared gradients and updates, which are updated, too.
        settings: ``lr``, ``rho``, ``eps`` and ``weight_decay``.
    """
    value = parameter.to(square_avg.dtype)
    gradient = gradient.to(square_avg.dtype) / scale
    step = torch.zeros(())  # the algorithm does not depend on it
    adadelta_([value], [gradient], [square_avg], [acc_delta], [step], maximize=False, **settings)
    if value is not parameter:
        parameter.copy_(value)
