"""The loops of RNNsearch over time with hand-written gradients: backpropagation through time.

What does not wait for the recurrence is left out of the loops: each weight's gradient is one product for all positions,
where autograd makes one at every position. Of the alignment model's tanh, ``(batch, src_len, n')`` at every target
position, nothing is kept: the way back computes it again. Inside, everything is time first.
"""

import functools
import logging
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from rnnsearch_fairseq.modules.attention import Memory
from rnnsearch_fairseq.modules.decoder import Decoder, States
from rnnsearch_fairseq.modules.encoder import Encoder
from rnnsearch_fairseq.modules.fused import kernels
from rnnsearch_fairseq.modules.fused.packed_matmul import packed_matmul
from rnnsearch_fairseq.modules.gru import GatedHiddenUnit

logger = logging.getLogger(__name__)

Gradients = tuple[Tensor | None, ...]


class FusedEncoder(Encoder):
    """:class:`~rnnsearch_fairseq.modules.encoder.Encoder` with a hand-written gradient."""

    @staticmethod
    def read(unit: GatedHiddenUnit, inputs: Tensor, padding_mask: Tensor | None, backward: bool = False) -> Tensor:
        """As in the base class."""
        projected = unit.project_input(inputs.transpose(0, 1))
        zero = projected.new_zeros(projected.size(1), unit.hidden_size)
        kept = None if padding_mask is None else (~padding_mask).T.unsqueeze(2).to(projected.dtype)
        states = _UnitScan.apply(projected, *_like(projected, zero, *_recurrent(unit)), kept, backward)
        return (states[:-1] if backward else states[1:]).transpose(0, 1)


class FusedDecoder(Decoder):
    """:class:`~rnnsearch_fairseq.modules.decoder.Decoder` with a hand-written gradient."""

    def scan(self, embedded: Tensor, state: Tensor, context: Tensor | None, memory: Memory) -> States:
        """As in the base class, which takes the single steps of a search."""
        steps, consumes = len(embedded), self.updates_with_current_word
        if steps == 1:
            return super().scan(embedded, state, context, memory)
        projected = self.unit.project_input(embedded)
        if consumes:
            projected = projected[1:]  # the first position has no update before it, the last none behind it
        if memory.keys is None:
            projected = projected + self.unit.from_context(memory.annotations)
            states = _UnitScan.apply(projected, *_like(projected, state, *_recurrent(self.unit)), None, False)
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
            states, contexts, weights = _AttendingScan.apply(
                steps, projected, *_like(projected, *tensors), memory.padding_mask
            )
        return States(states[1:] if self.reads_current_state else states[:steps], contexts, weights, states[-1])


def _recurrent(unit: GatedHiddenUnit) -> tuple[Tensor, Tensor]:
    return unit.from_state.weight, unit.from_reset_state.weight


def _like(model: Tensor, *tensors: Tensor) -> list[Tensor]:
    """Contiguous, in the precision of ``model``: under autocast, layers give another precision than the weights."""
    return [tensor.to(model.dtype).contiguous() for tensor in tensors]


class _UnitScan(torch.autograd.Function):
    """The states of a gated unit (A.1.1)."""

    @staticmethod
    def forward(
        ctx: Any,
        projected: Tensor,
        state: Tensor,
        gate_weight: Tensor,
        reset_weight: Tensor,
        kept: Tensor | None,
        reverse: bool,
    ) -> Tensor:
        """The states between the positions, ``(steps + 1, batch, n)``: s_0 is the first, or the last if ``reverse``.

        Args:
            projected: [W x + b; W_z x; W_r x], with C c where there is a context, ``(steps, batch, 3n)``.
            state: s_0, ``(batch, n)``.
            gate_weight: [U_z; U_r], ``(2n, n)``.
            reset_weight: U, ``(n, n)``.
            kept: ``(steps, batch, 1)``, zero at padding, where the state is carried unchanged, one elsewhere.
            reverse: from the last position to the first.
        """
        steps, size = len(projected), state.size(1)
        states = projected.new_empty(steps + 1, *state.shape)
        states[-1 if reverse else 0] = state
        resets = torch.empty_like(states[1:])  # r ∘ s
        opened = torch.empty_like(projected, memory_format=torch.contiguous_format)  # s~, z, r
        run = _kernels_for(projected)
        for_gates, for_candidate = (packed_matmul(weight, len(state)) for weight in (gate_weight, reset_weight))
        of_candidate, of_gates = _parts(projected, size)
        candidate, gates = _parts(opened, size)
        update, reset_state, kept = opened[..., size : 2 * size].unbind(), resets.unbind(), _positions(kept, steps)
        for j, before, after in _order(states, reverse):
            for_gates(before, of_gates[j], gates[j])
            run.open_gates(gates[j], None, before, kept[j], reset_state[j])
            for_candidate(reset_state[j], of_candidate[j], candidate[j])
            run.update_state(candidate[j], update[j], before, after)
        ctx.save_for_backward(gate_weight, reset_weight, states, resets, opened)
        ctx.reverse = reverse
        return states

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad_states: Tensor) -> Gradients:
        gate_weight, reset_weight, states, resets, opened = ctx.saved_tensors
        size, reverse = states.size(2), ctx.reverse
        run = _kernels_for(opened)
        grads = torch.empty_like(opened)
        to_candidate, to_gates = _parts(grads, size)
        to_reset, reset = grads[..., 2 * size :].unbind(), opened[..., 2 * size :].unbind()
        # Of all positions: what the state before each has of gradient. Row by row it becomes the whole of it.
        carried = grad_states.clone(memory_format=torch.contiguous_format)
        of_reset, of_gates = (packed_matmul(weight.T, states.size(1)) for weight in (reset_weight, gate_weight))
        to_product = torch.empty_like(states[0])
        for (j, before, _), (_, to_before, to_after) in reversed(
            list(zip(_order(states, reverse), _order(carried, reverse)))
        ):
            run.update_state_backward(opened[j], before, to_after, grads[j], to_before)
            run.reset_backward(reset[j], before, of_reset(to_candidate[j], None, to_product), to_reset[j], to_before)
            of_gates(to_gates[j], to_before, to_before)
        before = states[1:] if reverse else states[:-1]
        flat = grads.flatten(0, 1)
        return (
            grads,
            carried[-1 if reverse else 0],
            flat[:, size:].T @ before.flatten(0, 1),
            flat[:, :size].T @ resets.flatten(0, 1),
            None,
            None,
        )


def _kernels_for(tensor: Tensor) -> Any:
    """The functions between the products, for the processor that has the tensor."""
    return _gpu_kernels(tensor.device) if tensor.is_cuda else kernels


@functools.cache
def _gpu_kernels(device: torch.device) -> Any:
    """Triton's, if they run: it does not come with PyTorch to every system, and needs a C compiler and a recent GPU."""
    try:
        from rnnsearch_fairseq.modules.fused import triton_kernels

        triton_kernels.update_state(*torch.zeros(4, 1, 1, device=device))
    except Exception as error:  # of many kinds, and none is worth a training
        logger.warning("Triton's kernels do not run on %s, those of PyTorch take longer: %s", device, error)
        return kernels
    return triton_kernels


def _parts(opened: Tensor, size: int) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Position by position, the part of s~ and that of z and r: slices taken in a loop cost more than all at once."""
    return opened[..., :size].unbind(), opened[..., size:].unbind()


def _positions(tensor: Tensor | None, steps: int) -> Sequence[Tensor | None]:
    return [None] * steps if tensor is None else tensor.unbind()


def _order(states: Tensor, reverse: bool) -> list[tuple[int, Tensor, Tensor]]:
    """The positions in the order in which they are read, each with the state before and after it."""
    between = states.unbind()
    pairs = [(j, between[j], between[j + 1]) for j in range(len(between) - 1)]
    return [(j, after, before) for j, before, after in reversed(pairs)] if reverse else pairs


def _gradient(tensor: Tensor, given: Tensor | None) -> Tensor:
    """A gradient of ``tensor`` to be added to, from that which is given, or None."""
    return torch.zeros_like(tensor) if given is None else given.clone(memory_format=torch.contiguous_format)


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
            annotations, keys, padding_mask: of the :class:`~rnnsearch_fairseq.modules.attention.Memory`.
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
        run = _kernels_for(projected)
        aligned = run.scratch(keys)
        of_state, of_reset, of_context = (
            packed_matmul(weight, batch) for weight in (recurrent, reset_weight, context_weight)
        )
        products = states.new_empty(batch, recurrent.size(0))
        for_gates, for_query = products.split([2 * size, keys.size(-1)], dim=1)
        candidate, gates = _parts(opened, size)
        update, query, context, state = (
            opened[..., size : 2 * size].unbind(),
            *map(torch.unbind, (queries, contexts, states)),
        )
        for i in range(steps):
            of_state(state[i], None, products)
            run.attend(
                for_query, keys, annotations, energy, padding_mask, aligned, query[i], weights[i], context[i]
            )  # fmt: skip
            if i == updates:
                break
            of_context(context[i], projected[i], opened[i])
            run.open_gates(gates[i], for_gates, state[i], None, resets[i])
            of_reset(resets[i], candidate[i], candidate[i])
            run.update_state(candidate[i], update[i], state[i], state[i + 1])
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
        grads = opened.new_empty(steps, states.size(1), 3 * size + keys.size(-1))
        grads[updates:, :, : 3 * size] = 0  # no update follows the last context
        # Of all positions: what context and state have of gradient. Row by row it becomes the whole of it.
        to_contexts, carried = _gradient(contexts, grad_contexts), _gradient(states, grad_states)
        grad_keys, grad_energies = torch.zeros_like(keys), torch.zeros_like(queries[0])
        run = _kernels_for(opened)
        aligned = run.scratch(keys)
        to_product = torch.empty_like(states[0])
        of_state, of_reset, of_context = (
            packed_matmul(weight.T, states.size(1)) for weight in (recurrent, reset_weight, context_weight)
        )
        sums, to_products, to_query = (
            grads[..., part].unbind() for part in (slice(3 * size), slice(size, None), slice(3 * size, None))
        )
        to_candidate, to_reset = grads[..., :size].unbind(), grads[..., 2 * size : 3 * size].unbind()
        reset, to_weights = opened[..., 2 * size :].unbind(), _positions(grad_weights, steps)
        state, query, context, to_context, to_state = map(
            torch.unbind, (states, queries, contexts, to_contexts, carried)
        )
        for i in reversed(range(steps)):
            if i < updates:
                run.update_state_backward(opened[i], state[i], to_state[i + 1], sums[i], to_state[i])
                run.reset_backward(
                    reset[i], state[i], of_reset(to_candidate[i], None, to_product), to_reset[i], to_state[i]
                )
                of_context(sums[i], to_context[i], to_context[i])
            run.attend_backward(
                query[i], keys, annotations, energy, aligned, weights[i], context[i], to_weights[i], to_context[i],
                to_query[i], grad_keys, grad_energies,
            )  # fmt: skip
            of_state(to_products[i], to_state[i], to_state[i])
        flat = grads.flatten(0, 1)
        moved = flat[: updates * states.size(1), : 3 * size]
        return (
            None,
            grads[:updates, :, : 3 * size],
            carried[0],
            flat[:, size:].T @ states[:steps].flatten(0, 1),
            moved[:, :size].T @ resets.flatten(0, 1),
            moved.T @ contexts[:updates].flatten(0, 1),
            grad_energies.sum(dim=0),
            torch.bmm(weights.permute(1, 2, 0).to(keys.dtype), to_contexts.transpose(0, 1)),
            grad_keys.mul_(energy),
            None,
        )
