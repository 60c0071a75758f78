"""Attention in half precision: the softmax over a long source is in float32, and gradients stay accurate."""

import pytest
import torch

from rnnsearch_fairseq.modules.attention import Memory
from rnnsearch_fairseq.modules.fused import kernels

BATCH, SOURCE, UNITS, WIDTH = 2, 300, 6, 8
MASK = torch.arange(SOURCE).expand(BATCH, -1) >= torch.tensor([[SOURCE], [SOURCE - 40]])


@pytest.mark.parametrize(("dtype", "limit"), [(torch.bfloat16, 0.03), (torch.float16, 0.004)], ids=str)
def test_weights_are_in_float32_and_gradients_are_those_of_double_precision(dtype: torch.dtype, limit: float) -> None:
    shapes = ((BATCH, UNITS), (BATCH, SOURCE, UNITS), (UNITS,), (BATCH, SOURCE, WIDTH), (BATCH, WIDTH))
    query, keys, energy, annotations, grad_context = (torch.randn(shape).to(dtype) for shape in shapes)
    grad_weights = torch.randn(BATCH, SOURCE)
    exact = [tensor.double().requires_grad_() for tensor in (query, keys, energy)]
    aligned = torch.tanh(exact[1] + exact[0].unsqueeze(1))
    alpha = torch.softmax((aligned @ exact[2]).masked_fill(MASK, -torch.inf), dim=1)
    context = torch.bmm(alpha.unsqueeze(1), annotations.double()).squeeze(1)
    ((alpha * grad_weights).sum() + (context * grad_context.double()).sum()).backward()

    weights, memory = torch.empty(BATCH, SOURCE), Memory(annotations, keys, MASK)
    align, without_energy = kernels.Alignment(keys, energy), kernels.Alignment(keys, 0 * energy)
    # With equal energies only the softmax rounds: each of 300 words has the weight 1 / 300.
    kernels.attend(without_energy(query), memory, weights, torch.empty_like(grad_context))
    torch.testing.assert_close(weights[0], torch.full((SOURCE,), 1 / SOURCE), rtol=1e-6, atol=0)
    kernels.attend(align(query), memory, weights, torch.empty_like(grad_context))
    assert (weights[MASK] == 0).all()
    grad_query, grad_keys, grad_energy = torch.empty_like(query), torch.zeros(keys.shape), torch.zeros(BATCH, UNITS)
    grad_energies = kernels.attend_backward(annotations, weights, grad_weights, grad_context)
    align.backward(query, grad_energies, grad_query, grad_keys, grad_energy)
    for computed, tensor in zip((grad_query, grad_keys * energy, grad_energy.sum(dim=0)), exact, strict=True):
        assert (computed.double() - tensor.grad).norm() / tensor.grad.norm() < limit
