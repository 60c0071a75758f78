"""What the fused scans do at one position between their matrix products, and the way back of it.

Every function writes into tensors that it is given. :mod:`~rnnsearch_fairseq.modules.fused.triton_kernels` has the
same functions as single kernels for a GPU. Shapes: n units, ``opened`` ``(batch, 3n)`` is s~, z and r side by side,
before their nonlinearities where a function makes them.
"""

import torch
from torch import Tensor

tanh_backward = torch.ops.aten.tanh_backward.grad_input
sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input

scratch = torch.empty_like  # of the keys: ``aligned``


def open_gates(gates: Tensor, summand: Tensor | None, state: Tensor, kept: Tensor | None, reset_state: Tensor) -> None:
    """z, r = σ(their sums), in ``gates`` ``(batch, 2n)``; and r ∘ s_{i-1} ``(batch, n)``.

    Args:
        summand: what the sums in ``gates`` lack yet, ``(batch, 2n)``, or None.
        kept: ``(batch, 1)``, zero at padding, where z becomes zero, too, and so the state is carried on; else one.
    """
    size = state.size(1)
    if summand is not None:
        gates.add_(summand)
    gates.sigmoid_()
    if kept is not None:
        gates[:, :size] *= kept
    torch.mul(gates[:, size:], state, out=reset_state)


def update_state(candidate: Tensor, update: Tensor, state: Tensor, new_state: Tensor) -> None:
    """s~ = tanh(its sum), in ``candidate``; s_i = (1 - z) ∘ s_{i-1} + z ∘ s~. All ``(batch, n)``."""
    torch.lerp(state, candidate.tanh_(), update, out=new_state)


def update_state_backward(
    opened: Tensor, state: Tensor, grad_state: Tensor, grads: Tensor, grad_before: Tensor
) -> None:
    """The gradients of the sums in s~ and z, into ``grads`` ``(batch, 3n)``; and (1 - z) ∘ that of s_i, added.

    Args:
        opened: s~, z and r.
        state: s_{i-1}; ``grad_state``: the gradient of s_i; ``grad_before``: that of s_{i-1}. All are ``(batch, n)``.
    """
    candidate, update, _ = opened.chunk(3, dim=1)
    to_candidate, to_update, _ = grads.chunk(3, dim=1)
    through_update = grad_state * update
    grad_before.add_(grad_state).sub_(through_update)
    tanh_backward(through_update, candidate, grad_input=to_candidate)
    torch.sub(candidate, state, out=to_update).mul_(grad_state)
    sigmoid_backward(to_update, update, grad_input=to_update)


def reset_backward(reset: Tensor, state: Tensor, grad_product: Tensor, to_reset: Tensor, grad_before: Tensor) -> None:
    """The gradient of the sum in r, into ``to_reset``; and that of s_{i-1} by way of r ∘ s_{i-1}, added.

    Args:
        grad_product: the gradient of r ∘ s_{i-1}. All are ``(batch, n)``.
    """
    torch.mul(grad_product, state, out=to_reset)
    sigmoid_backward(to_reset, reset, grad_input=to_reset)
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
    """alpha_i and c_i (Eq. 5 and 6), into ``weights`` ``(batch, src_len)`` and ``context`` ``(batch, 2n)``.

    Args:
        product: W_a s_{i-1}, ``(batch, n')``, which goes into ``query``, too.
        keys, annotations, padding_mask: of the :class:`~rnnsearch_fairseq.modules.attention.Memory`.
        energy: v_a, ``(n',)``.
        aligned: :func:`scratch`.
    """
    query.copy_(product)
    energies = align(keys, query, aligned) @ energy
    if padding_mask is not None:
        energies = energies.masked_fill_(padding_mask, float("-inf"))
    # In half precision a softmax over a long sentence loses its small weights: float32 at least.
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
    """The gradient of ``query``; those of ``keys``, divided by v_a, and of ``energy`` are added to what is there.

    Args:
        context: c_i, of which only :mod:`~rnnsearch_fairseq.modules.fused.triton_kernels` has use.
        grad_weights: the gradient of alpha_i from elsewhere than the context, ``(batch, src_len)``.
        grad_context: that of c_i.
        grad_energy: of each sentence by itself, ``(batch, n')``.
    """
    to_weights = torch.bmm(grad_context.unsqueeze(1), annotations.mT).squeeze(1).to(weights.dtype)
    if grad_weights is not None:
        to_weights += grad_weights
    to_weights.sub_((weights * to_weights).sum(dim=1, keepdim=True))
    to_energies = to_weights.mul_(weights).to(keys.dtype)
    align(keys, query, aligned)
    grad_energy.unsqueeze(1).baddbmm_(to_energies.unsqueeze(1), aligned)
    slope = torch.addcmul(aligned.new_ones(()), aligned, aligned, value=-1, out=aligned)
    torch.mul(torch.bmm(to_energies.unsqueeze(1), slope).squeeze(1), energy, out=grad_query)
    grad_keys.addcmul_(to_energies.unsqueeze(2), slope)


def align(keys: Tensor, query: Tensor, out: Tensor) -> Tensor:
    """tanh(W_a s_{i-1} + U_a h_j), ``(batch, src_len, n')``."""
    return torch.add(keys, query.unsqueeze(1), out=out).tanh_()
