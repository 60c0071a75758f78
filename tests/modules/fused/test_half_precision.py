"""Attention in half precision: the softmax over a long source is in float32, and gradients stay accurate."""

import pytest
import torch
from torch import Tensor

from rnnsearch_fairseq.modules.attention import Memory
from rnnsearch_fairseq.modules.fused import kernels

BATCH, SOURCE, UNITS, WIDTH = 2, 300, 6, 8
HALVES = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)


def attend(query: Tensor, keys: Tensor, annotations: Tensor, energy: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """c ``(batch, 2n)`` and alpha ``(batch, src_len)`` from the fused kernel."""
    weights = keys.new_empty(BATCH, SOURCE, dtype=torch.promote_types(keys.dtype, torch.float32))
    context = annotations.new_empty(BATCH, WIDTH)
    memory, scratch = Memory(annotations, keys, mask), torch.empty_like(keys)
    kernels.attend_by_network(query, memory, energy, scratch, weights, context)
    return context, weights


def draw(dtype: torch.dtype) -> tuple[Tensor, ...]:
    """Random numbers that ``dtype`` represents exactly, and therefore float32 and float64 too."""
    query, energy = torch.randn(BATCH, UNITS), torch.randn(UNITS)
    keys, annotations = torch.randn(BATCH, SOURCE, UNITS), torch.randn(BATCH, SOURCE, WIDTH)
    return tuple(tensor.to(dtype) for tensor in (query, keys, annotations, energy))


MASK = torch.arange(SOURCE).expand(BATCH, -1) >= torch.tensor([[SOURCE], [SOURCE - 40]])


@HALVES
def test_alignment_weights_are_in_float32(dtype: torch.dtype) -> None:
    query, keys, annotations, energy = draw(dtype)
    context, weights = attend(query, keys, annotations, energy, MASK)
    assert (context.dtype, weights.dtype) == (dtype, torch.float32)
    assert (weights[MASK] == 0).all()
    # With equal energies only the softmax rounds: each of 300 words has the weight 1 / 300.
    _, equal = attend(query, keys, annotations, 0 * energy, MASK)
    torch.testing.assert_close(equal[0], torch.full((SOURCE,), 1 / SOURCE), rtol=1e-6, atol=0)


@HALVES
def test_the_gradient_of_attention_is_that_of_double_precision(dtype: torch.dtype) -> None:
    query, keys, annotations, energy = draw(dtype)
    grad_weights, grad_context = torch.randn(BATCH, SOURCE), torch.randn(BATCH, WIDTH).to(dtype)
    exact = [tensor.double().requires_grad_() for tensor in (query, keys, energy)]
    aligned = torch.tanh(exact[1] + exact[0].unsqueeze(1))
    alpha = torch.softmax((aligned @ exact[2]).masked_fill(MASK, -torch.inf), dim=1)
    context = torch.bmm(alpha.unsqueeze(1), annotations.double()).squeeze(1)
    ((alpha * grad_weights).sum() + (context * grad_context.double()).sum()).backward()

    _, weights = attend(query, keys, annotations, energy, MASK)
    grad_query, grad_keys, grad_energy = torch.empty_like(query), torch.zeros(keys.shape), torch.zeros(BATCH, UNITS)
    kernels.attend_by_network_backward(
        query, Memory(annotations, keys, MASK), energy, torch.empty_like(keys), weights, grad_weights, grad_context,
        grad_query, grad_keys, grad_energy,
    )  # fmt: skip
    for found, tensor in zip((grad_query, grad_keys * energy, grad_energy.sum(dim=0)), exact, strict=True):
        error = (found.double() - tensor.grad).norm() / tensor.grad.norm()
        assert error < (0.03 if dtype == torch.bfloat16 else 0.004)
