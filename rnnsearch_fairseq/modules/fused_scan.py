"""The loops of :mod:`~rnnsearch_fairseq.modules.scan` with hand-written gradients: backpropagation through time.

What does not wait for the recurrence is left out of the loops: each weight's gradient is one product for all positions,
where autograd makes one at every position. Of the alignment model's tanh, ``(batch, src_len, n')`` at every target
position, nothing is kept: the way back computes it again. Inside, everything is time first.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rnnsearch_fairseq.modules import scan
from rnnsearch_fairseq.modules.alignment import Memory
from rnnsearch_fairseq.modules.gated_unit import GatedHiddenUnit

if TYPE_CHECKING:
    from rnnsearch_fairseq.modules.decoder import Decoder

Gradients = tuple[Tensor | None, ...]


def encoder_scan(units: Sequence[GatedHiddenUnit], inputs: Tensor, padding_mask: Tensor | None = None) -> list[Tensor]:
    """As :func:`rnnsearch_fairseq.modules.scan.encoder_scan`."""
    words = inputs.transpose(0, 1)
    kept = None if padding_mask is None else (~padding_mask).T.unsqueeze(2)
    return [_direction_scan(unit, words, kept, reverse=k == 1) for k, unit in enumerate(units)]


def _direction_scan(unit: GatedHiddenUnit, words: Tensor, kept: Tensor | None, reverse: bool) -> Tensor:
    projected = unit.project_input(words)
    if kept is not None:
        kept = kept.to(projected.dtype)
    if reverse:
        projected, kept = projected.flip(0), None if kept is None else kept.flip(0)
    zero = projected.new_zeros(projected.size(1), unit.hidden_size)
    states = _UnitScan.apply(projected, *_like(projected, zero, *_recurrent(unit)), kept)[1:]
    return (states.flip(0) if reverse else states).transpose(0, 1)


def _recurrent(unit: GatedHiddenUnit) -> tuple[Tensor, Tensor]:
    return unit.from_state.weight, unit.from_reset_state.weight


def decoder_scan(
    decoder: "Decoder", embedded: Tensor, state: Tensor, context: Tensor | None, memory: Memory
) -> scan.DecoderScan:
    """As :func:`rnnsearch_fairseq.modules.scan.decoder_scan`, which takes the single steps of a search."""
    steps, consumes = len(embedded), decoder.updates_with_current_word
    if steps == 1 or (consumes and context is not None):
        return scan.decoder_scan(decoder, embedded, state, context, memory)
    unit, attention = decoder.unit, decoder.attention
    projected = unit.project_input(embedded)
    if consumes:
        projected = projected[1:]  # the first position has no update before it, the last none behind it
    if memory.keys is None:
        projected = projected + unit.from_context(memory.annotations)
        states = _UnitScan.apply(projected, *_like(projected, state, *_recurrent(unit)), None)
        contexts, weights = memory.annotations.expand(steps, -1, -1), None
    else:
        tensors = (
            state,
            torch.cat([unit.from_state.weight, attention.from_state.weight]),
            unit.from_reset_state.weight,
            unit.from_context.weight,
            attention.energy.weight[0],
            memory.annotations,
            memory.keys,
        )
        states, contexts, weights = _AttendingScan.apply(
            steps, projected, *_like(projected, *tensors), memory.padding_mask
        )
    return scan.DecoderScan(
        states[1:] if decoder.reads_current_state else states[:steps],
        contexts,
        weights,
        states[-1],
    )


def _like(model: Tensor, *tensors: Tensor) -> list[Tensor]:
    """In the precision of ``model``: under autocast, what linear layers give is of another than the weights."""
    return [tensor.to(model.dtype) for tensor in tensors]


class _UnitScan(torch.autograd.Function):
    """The states of a gated unit (A.1.1)."""

    @staticmethod
    def forward(
        ctx: Any, projected: Tensor, state: Tensor, gate_weight: Tensor, reset_weight: Tensor, kept: Tensor | None
    ) -> Tensor:
        """States s_0 and on, ``(steps + 1, batch, n)``.

        Args:
            projected: [W x + b; W_z x; W_r x], with C c where there is a context, ``(steps, batch, 3n)``.
            state: s_0, ``(batch, n)``.
            gate_weight: [U_z; U_r], ``(2n, n)``.
            reset_weight: U, ``(n, n)``.
            kept: ``(steps, batch, 1)``, zero at padding, where the state is carried unchanged, one elsewhere.
        """
        steps, size = len(projected), state.size(1)
        states = projected.new_empty(steps + 1, *state.shape)
        states[0] = state
        resets = torch.empty_like(states[1:])  # r ∘ s
        opened = torch.empty_like(projected, memory_format=torch.contiguous_format)  # s~, z, r
        for j in range(steps):
            candidate, update, reset = opened[j].chunk(3, dim=1)
            torch.addmm(projected[j, :, size:], states[j], gate_weight.T, out=opened[j, :, size:])
            opened[j, :, size:].sigmoid_()
            if kept is not None:
                update *= kept[j]  # and with it the way back
            torch.mul(reset, states[j], out=resets[j])
            torch.addmm(projected[j, :, :size], resets[j], reset_weight.T, out=candidate)
            torch.lerp(states[j], candidate.tanh_(), update, out=states[j + 1])
        ctx.save_for_backward(gate_weight, reset_weight, states, resets, opened)
        return states

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_states: Tensor) -> Gradients:
        gate_weight, reset_weight, states, resets, opened = ctx.saved_tensors
        size = states.size(2)
        grads = torch.empty_like(opened)
        to_state = grad_states[-1]
        for j in reversed(range(len(opened))):
            to_state = _unit_backward(opened[j], states[j], to_state, reset_weight, grads[j]).add_(grad_states[j])
            to_state.addmm_(grads[j, :, size:], gate_weight)
        flat = grads.flatten(0, 1)
        to_gate_weight = flat[:, size:].T @ states[:-1].flatten(0, 1)
        return grads, to_state, to_gate_weight, flat[:, :size].T @ resets.flatten(0, 1), None


def _unit_backward(
    opened: Tensor, before: Tensor, grad_state: Tensor, reset_weight: Tensor, grad_sums: Tensor
) -> Tensor:
    """The gradient of a gated unit's step: of s~, z and r, before their tanh and σ, into ``grad_sums`` ``(..., 3n)``.

    Returns:
        That of s_{i-1}, ``(..., n)``, but for its part through the gates' sums, ``grad_sums[..., n:]``.

    Args:
        opened: s~_i, z_i, r_i, ``(..., 3n)``.
        before: s_{i-1}, ``(..., n)``.
        grad_state: the gradient of s_i.
    """
    candidate, update, reset = opened.chunk(3, dim=-1)
    to_candidate, to_update, to_reset = grad_sums.chunk(3, dim=-1)
    through_update = grad_state * update
    torch.ops.aten.tanh_backward.grad_input(through_update, candidate, grad_input=to_candidate)
    torch.sub(candidate, before, out=to_update).mul_(grad_state)
    to_product = to_candidate @ reset_weight  # of r ∘ s_{i-1}
    torch.mul(to_product, before, out=to_reset)
    gates, size = grad_sums[..., before.size(-1) :], before.size(-1)
    torch.ops.aten.sigmoid_backward.grad_input(gates, opened[..., size:], grad_input=gates)
    return grad_state.sub(through_update).addcmul_(to_product, reset)


class _AttendingScan(torch.autograd.Function):
    """States, contexts and alignments of the decoder with an alignment model (A.2.2), the words before each given::

        c_i = sum_j alpha_ij h_j, aligned with s_{i-1}       (Eq. 5 and 6)
        s_i = f(s_{i-1}, ., c_i)                             of the word whose projection is given

    There are as many updates as projections, and as many contexts as ``steps``: as many or, where nothing follows the
    last context, one more.
    """

    @staticmethod
    def forward(
        ctx: Any,
        steps: int,
        projected: Tensor,
        state: Tensor,
        recurrent: Tensor,
        reset_weight: Tensor,
        context_weight: Tensor,
        energy: Tensor,
        annotations: Tensor,
        keys: Tensor,
        padding_mask: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """s_0 and on, ``(updates + 1, batch, n)``; c ``(steps, batch, 2n)``; alpha ``(steps, batch, src_len)``.

        Args:
            projected: [W; W_z; W_r] of the words, ``(updates, batch, 3n)``.
            state: s_0, ``(batch, n)``.
            recurrent: [U_z; U_r; W_a], ``(2n + n', n)``.
            reset_weight: U, ``(n, n)``.
            context_weight: [C; C_z; C_r], ``(3n, 2n)``.
            energy: v_a, ``(n',)``.
            annotations, keys, padding_mask: of the :class:`~rnnsearch_fairseq.modules.alignment.Memory`.
        """
        (batch, size), updates = state.shape, len(projected)
        states = projected.new_empty(updates + 1, batch, size)
        states[0] = state
        resets = projected.new_empty(updates, batch, size)  # r ∘ s
        opened = torch.empty_like(projected, memory_format=torch.contiguous_format)  # s~, z, r
        queries = projected.new_empty(steps, batch, keys.size(-1))  # W_a s
        contexts = projected.new_empty(steps, batch, annotations.size(-1))
        # In half precision a softmax over a long sentence loses its small weights: float32 at least.
        precise = torch.promote_types(projected.dtype, torch.float32)
        weights = projected.new_empty(steps, batch, keys.size(1), dtype=precise)
        aligned = torch.empty_like(keys)
        for i in range(steps):
            products = states[i] @ recurrent.T
            queries[i] = products[:, 2 * size :]
            energies = _align(keys, queries[i], aligned) @ energy
            if padding_mask is not None:
                energies = energies.masked_fill_(padding_mask, float("-inf"))
            weights[i] = torch.softmax(energies, dim=-1, dtype=precise)
            torch.bmm(weights[i].to(keys.dtype).unsqueeze(1), annotations, out=contexts[i].unsqueeze(1))
            if i == updates:
                break
            candidate, update, reset = opened[i].chunk(3, dim=-1)
            torch.addmm(projected[i], contexts[i], context_weight.T, out=opened[i])
            opened[i, :, size:].add_(products[:, : 2 * size]).sigmoid_()
            torch.mul(reset, states[i], out=resets[i])
            candidate.addmm_(resets[i], reset_weight.T).tanh_()
            torch.lerp(states[i], candidate, update, out=states[i + 1])
        ctx.save_for_backward(
            recurrent, reset_weight, context_weight, energy, annotations, keys,
            states, resets, opened, queries, contexts, weights,
        )  # fmt: skip
        ctx.set_materialize_grads(False)
        return states, contexts, weights

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(
        ctx: Any, grad_states: Tensor | None, grad_contexts: Tensor | None, grad_weights: Tensor | None
    ) -> Gradients:
        (
            recurrent, reset_weight, context_weight, energy, annotations, keys,
            states, resets, opened, queries, contexts, weights,
        ) = ctx.saved_tensors  # fmt: skip
        steps, updates, size = len(contexts), len(opened), states.size(-1)
        # Of the sums inside s~, z and r, and of the queries.
        grads = opened.new_zeros(steps, states.size(1), 3 * size + keys.size(-1))
        to_contexts = torch.zeros_like(contexts) if grad_contexts is None else grad_contexts.clone()
        grad_states = torch.zeros_like(states) if grad_states is None else grad_states
        grad_keys, grad_energy = torch.zeros_like(keys), torch.zeros_like(energy)
        aligned = torch.empty_like(keys)
        to_state = grad_states[updates]
        for i in reversed(range(steps)):
            if i < updates:
                sums = grads[i, :, : 3 * size]
                to_state = _unit_backward(opened[i], states[i], to_state, reset_weight, sums).add_(grad_states[i])
                to_contexts[i].addmm_(sums, context_weight)
            to_weights = torch.bmm(to_contexts[i].unsqueeze(1), annotations.mT).squeeze(1).to(weights.dtype)
            if grad_weights is not None:
                to_weights += grad_weights[i]
            to_energies = weights[i] * (to_weights - (weights[i] * to_weights).sum(dim=1, keepdim=True))
            to_energies = to_energies.to(keys.dtype)
            _align(keys, queries[i], aligned)
            grad_energy += to_energies.flatten() @ aligned.flatten(0, 1)
            slope = torch.addcmul(aligned.new_ones(()), aligned, aligned, value=-1, out=aligned)
            torch.mul(torch.bmm(to_energies.unsqueeze(1), slope).squeeze(1), energy, out=grads[i, :, 3 * size :])
            grad_keys.addcmul_(to_energies.unsqueeze(2), slope)
            to_state = to_state + grads[i, :, size:] @ recurrent
        flat = grads.flatten(0, 1)
        moved = flat[: updates * states.size(1), : 3 * size]
        return (
            None,
            grads[:updates, :, : 3 * size],
            to_state,
            flat[:, size:].T @ states[:steps].flatten(0, 1),
            moved[:, :size].T @ resets.flatten(0, 1),
            moved.T @ contexts[:updates].flatten(0, 1),
            grad_energy,
            torch.bmm(weights.permute(1, 2, 0).to(keys.dtype), to_contexts.transpose(0, 1)),
            grad_keys.mul_(energy),
            None,
        )


def _align(keys: Tensor, query: Tensor, out: Tensor) -> Tensor:
    """tanh(W_a s_{i-1} + U_a h_j), ``(batch, src_len, n')``."""
    return torch.add(keys, query.unsqueeze(1), out=out).tanh_()
