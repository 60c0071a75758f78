"""The loops of RNNsearch over time with hand-written backpropagation through time.

Products that do not depend on the recurrence are computed outside the loops. The gradient of a weight is therefore one
product over all positions, where autograd computes one for each position. The tanh of the alignment model,
``(batch, src_len, n')`` at every target position, is not saved: the backward pass computes it again. Time is the first
dimension of all tensors in the loops.
"""

from typing import Any

import torch
from torch import Tensor

from rnnsearch_fairseq.modules.attention import Memory
from rnnsearch_fairseq.modules.decoder import Decoder, DecoderStep
from rnnsearch_fairseq.modules.encoder import Encoder
from rnnsearch_fairseq.modules.fused import kernels
from rnnsearch_fairseq.modules.fused.forms import has_fused_form
from rnnsearch_fairseq.modules.fused.products import packed_matmul
from rnnsearch_fairseq.modules.fused.recording import recorded
from rnnsearch_fairseq.modules.gru import GatedHiddenUnit


class FusedEncoder(Encoder):
    """:class:`~rnnsearch_fairseq.modules.encoder.Encoder` with a hand-written gradient."""

    def scan(self, unit: GatedHiddenUnit, inputs: Tensor, mask: Tensor | None, backward: bool = False) -> Tensor:
        if not has_fused_form(self, FusedEncoder):
            return super().scan(unit, inputs, mask, backward)
        inputs = inputs.transpose(0, 1)
        # PyTorch makes one product of all positions, but without gradients only if the inputs are contiguous.
        projected = unit.project_input(inputs if inputs.requires_grad else inputs.contiguous())
        zero = projected.new_zeros(projected.size(1), unit.hidden_size)
        states = _scan_unit(unit, projected, zero, None if mask is None else mask.T.unsqueeze(2), backward)
        return (states[:-1] if backward else states[1:]).transpose(0, 1)


class FusedDecoder(Decoder):
    """:class:`~rnnsearch_fairseq.modules.decoder.Decoder` with a hand-written gradient."""

    def scan(self, embedded: Tensor, state: Tensor, context: Tensor | None, memory: Memory) -> DecoderStep:
        """As in the base class; a single position, as in a search, has no fused form."""
        steps = len(embedded)
        if steps == 1 or not has_fused_form(self, FusedDecoder):
            return super().scan(embedded, state, context, memory)
        projected = self.unit.project_input(embedded)
        if self.updates_with_current_word:
            projected = projected[1:]  # no update before the first position, none after the last
        if memory.keys is None:
            projected = projected + self.unit.from_context(memory.annotations)
            states = _scan_unit(self.unit, projected, state)
            contexts, weights = memory.annotations.expand(steps, -1, -1), None
        else:
            tensors = (
                state,
                torch.cat([self.unit.from_state.weight, self.attention.from_state.weight]),
                self.unit.from_reset_state.weight,
                self.unit.from_context.weight,
                self.attention.energy.weight[0],
                memory.annotations,
                memory.keys,
            )
            arguments = (projected, *kernels.like(projected, *tensors), memory.padding_mask, steps)
            loops = _attending_scan, _attending_scan_backward
            states, contexts, weights = _Scan.apply(3, *loops, (), *arguments)
        read_states = states[1:] if self.reads_current_state else states[:steps]
        return DecoderStep(read_states, contexts, weights, states[-1])


def _scan_unit(
    unit: GatedHiddenUnit, projected: Tensor, state: Tensor, mask: Tensor | None = None, reverse: bool = False
) -> Tensor:
    tensors = kernels.like(projected, state, unit.from_state.weight, unit.from_reset_state.weight)
    (states,) = _Scan.apply(1, _scan, _scan_backward, (reverse,), projected, *tensors, mask, reverse)
    return states


class _Scan(torch.autograd.Function):
    """Autograd's function for a loop of this file. It returns the first ``count`` results of the loop.

    The last two arguments of a loop, a mask and a number or a direction, have none. The loop backward takes the
    gradients of these results, the loop's tensors from the third on, its results, and ``options``.
    """

    @staticmethod
    def forward(ctx: Any, count: int, loop: Any, backward: Any, options: Any, *arguments: Any) -> tuple[Tensor, ...]:
        results = loop(*arguments)
        ctx.save_for_backward(*arguments[2:-2], *results)
        ctx.backward, ctx.options = backward, options
        return results[:count]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        gradients = ctx.backward(*grads, *ctx.saved_tensors, *ctx.options)
        return *[None] * 4, *gradients, None, None


@recorded
def _scan(
    projected: Tensor, state: Tensor, gate_weight: Tensor, reset_weight: Tensor, mask: Tensor | None, reverse: bool
) -> tuple[Tensor, ...]:
    """The states of a gated unit (A.1.1) over a sentence, the r ∘ s, and s~, z and r of all positions.

    The states between the positions are ``(steps + 1, batch, n)``: s_0 is the first, or the last if ``reverse``.
    ``projected`` ``(steps, batch, 3n)`` is [W x + b; W_z x; W_r x], plus [C c; C_z c; C_r c] with a context. The
    weights are [U_z; U_r] and U. ``mask`` ``(steps, batch, 1)`` is true at padding, where the state is copied.
    """
    steps, size = len(projected), state.size(1)
    first, last = (1, 0) if reverse else (0, 1)  # of position j, the states before and after it are j + first, j + last
    states = projected.new_empty(steps + 1, *state.shape)
    states[-first] = state
    resets = torch.empty_like(states[1:])
    activations = projected.clone(memory_format=torch.contiguous_format)  # the sums, then s~, z and r
    if mask is not None:
        activations[..., size : 2 * size].masked_fill_(mask, -torch.inf)  # z is zero, which keeps the state
    times_gates, times_reset = map(packed_matmul, (gate_weight, reset_weight))
    # unbind is faster than slicing in a loop.
    activation, gates = activations.unbind(), activations[..., size:].unbind()
    state, reset_state = states.unbind(), resets.unbind()
    for j in range(steps)[:: -1 if reverse else 1]:
        before, after = state[j + first], state[j + last]
        times_gates(before, gates[j], gates[j])
        kernels.update_unit(activation[j], before, None, times_reset, reset_state[j], after)
    return states, resets, activations


@recorded
def _scan_backward(
    grad_states: Tensor,
    gate_weight: Tensor,
    reset_weight: Tensor,
    states: Tensor,
    resets: Tensor,
    activations: Tensor,
    reverse: bool,
) -> tuple[Tensor, ...]:
    """The gradients of the first four arguments of :func:`_scan`."""
    steps, size = len(resets), states.size(2)
    first, last = (1, 0) if reverse else (0, 1)
    grads = torch.empty_like(activations)
    activation, state = activations.unbind(), states.unbind()
    grad, grad_gates = grads.unbind(), grads[..., size:].unbind()
    # dL/d(state) between the positions, accumulated in place, against the reading order.
    summed_grads = grad_states.clone(memory_format=torch.contiguous_format)
    grad_state = summed_grads.unbind()
    times_gates, times_reset = map(packed_matmul, (gate_weight.T, reset_weight.T))
    for j in range(steps)[:: 1 if reverse else -1]:
        grad_before, grad_after = grad_state[j + first], grad_state[j + last]
        kernels.update_unit_backward(activation[j], state[j + first], times_reset, grad_after, grad[j], grad_before)
        times_gates(grad_gates[j], grad_before, grad_before)
    return (
        grads,
        summed_grads[-first],
        grads[..., size:].flatten(0, 1).T @ states[first : first + steps].flatten(0, 1),
        grads[..., :size].flatten(0, 1).T @ resets.flatten(0, 1),
    )


@recorded
def _attending_scan(
    projected: Tensor,
    state: Tensor,
    recurrent: Tensor,
    reset_weight: Tensor,
    context_weight: Tensor,
    energy: Tensor,
    annotations: Tensor,
    keys: Tensor,
    padding_mask: Tensor | None,
    steps: int,
) -> tuple[Tensor, ...]:
    """States, contexts and alignments of a decoder with an alignment model, given the words.

    There are ``steps`` contexts and ``len(projected)`` updates. In the original code's order, no update follows the
    last context, so that there is one update fewer. In the paper's order the numbers are equal.

    ``projected`` ``(updates, batch, 3n)`` is [W x + b; W_z x; W_r x] of the words. The weights are [U_z; U_r; W_a], U
    and [C; C_z; C_r], and ``energy`` is v_a ``(n',)``; the rest is a ``Memory``.

    The results are the states from s_0 on, ``(updates + 1, batch, n)``, c ``(steps, batch, 2n)``, alpha ``(steps,
    batch, src_len)``, the r ∘ s, the activations s~, z and r, and the products [U_z; U_r; W_a] s.
    """
    (batch, size), updates = state.shape, len(projected)
    states = projected.new_empty(updates + 1, batch, size)
    states[0] = state
    resets = projected.new_empty(updates, batch, size)
    activations = projected.clone(memory_format=torch.contiguous_format)
    products = projected.new_empty(steps, batch, len(recurrent))
    contexts = projected.new_empty(steps, batch, annotations.size(-1))
    precise = torch.promote_types(projected.dtype, torch.float32)
    weights = projected.new_empty(steps, batch, keys.size(1), dtype=precise)
    memory, sigmoids = Memory(annotations, keys, padding_mask), kernels.make_sigmoids(keys)
    times_recurrent, times_reset, times_context = map(packed_matmul, (recurrent, reset_weight, context_weight))
    gates, query = (part.unbind() for part in products.split([2 * size, keys.size(-1)], dim=2))
    product, context, state, activation = (t.unbind() for t in (products, contexts, states, activations))
    for i in range(steps):
        times_recurrent(state[i], None, product[i])
        energies = kernels.align(query[i], keys, energy, sigmoids)
        kernels.attend(energies, memory, weights[i], context[i])
        if i < updates:
            times_context(context[i], activation[i], activation[i])
            kernels.update_unit(activation[i], state[i], gates[i], times_reset, resets[i], state[i + 1])
    return states, contexts, weights, resets, activations, products


@recorded
def _attending_scan_backward(
    grad_states: Tensor, grad_contexts: Tensor, grad_weights: Tensor, *saved: Tensor
) -> tuple[Tensor, ...]:
    """The gradients of the first eight arguments of :func:`_attending_scan`; its tensors and results are ``saved``."""
    recurrent, reset_weight, context_weight, energy, annotations, keys = saved[:6]
    states, contexts, weights, resets, activations, products = saved[6:]
    (steps, batch), updates, size = contexts.shape[:2], len(activations), states.size(-1)
    # Side by side, the gradients of the sums of s~, z and r, and of the queries.
    grads = activations.new_empty(steps, batch, 3 * size + keys.size(-1))
    grads[updates:, :, : 3 * size] = 0  # no update follows the last context
    # dL/d(context) and dL/d(state) of all positions, accumulated in place from the last position to the first.
    context_grads, state_grads = (
        grad.clone(memory_format=torch.contiguous_format) for grad in (grad_contexts, grad_states)
    )
    # At least float32: in half precision a sum over all positions loses the small terms.
    queries = products[..., 2 * size :]
    grad_keys, grad_energies = (torch.zeros_like(tensor, dtype=weights.dtype) for tensor in (keys, queries[0]))
    sigmoids = kernels.make_sigmoids(keys)
    transposed = (recurrent.T, reset_weight.T, context_weight.T)
    times_recurrent, times_reset, times_context = map(packed_matmul, transposed)
    grad_sums, grad_products = grads[..., : 3 * size].unbind(), grads[..., size:].unbind()
    grad_query, weight_grad = grads[..., 3 * size :].unbind(), grad_weights.unbind()
    activation, state, query = activations.unbind(), states.unbind(), queries.unbind()
    context_grad, state_grad = context_grads.unbind(), state_grads.unbind()
    for i in reversed(range(steps)):
        if i < updates:
            kernels.update_unit_backward(
                activation[i], state[i], times_reset, state_grad[i + 1], grad_sums[i], state_grad[i]
            )
            times_context(grad_sums[i], context_grad[i], context_grad[i])
        energies_grad = kernels.attend_backward(annotations, weights[i], weight_grad[i], context_grad[i])
        given = (query[i], keys, energy, sigmoids, energies_grad)
        kernels.align_backward(*given, grad_query[i], grad_keys, grad_energies)
        times_recurrent(grad_products[i], state_grad[i], state_grad[i])
    flat = grads.flatten(0, 1)
    update_grads = flat[: updates * batch, : 3 * size]
    return (
        grads[:updates, :, : 3 * size],
        state_grads[0],
        flat[:, size:].T @ states[:steps].flatten(0, 1),
        update_grads[:, :size].T @ resets.flatten(0, 1),
        update_grads.T @ contexts[:updates].flatten(0, 1),
        grad_energies.sum(dim=0).to(energy.dtype),
        torch.bmm(weights.permute(1, 2, 0).to(keys.dtype), context_grads.transpose(0, 1)),
        grad_keys.mul_(energy).to(keys.dtype),
    )
