"""Attention in half precision: the softmax over a long source is in float32, and gradients stay accurate."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from rnnsearch_fairseq.modules import AlignmentModel
from rnnsearch_fairseq.modules.attention import Memory
from rnnsearch_fairseq.modules.fused import kernels

BATCH, SOURCE, UNITS, WIDTH = 2, 300, 6, 8
HALVES = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)


def fused(query: Tensor, keys: Tensor, annotations: Tensor, energy: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """c ``(batch, 2n)`` and alpha ``(batch, src_len)`` from the fused kernel."""
    weights = keys.new_empty(BATCH, SOURCE, dtype=torch.promote_types(keys.dtype, torch.float32))
    context = annotations.new_empty(BATCH, WIDTH)
    kernels.attend(
        query, keys, annotations, energy, mask, kernels.scratch(keys), torch.empty_like(query), weights, context
    )
    return context, weights


def single(query: Tensor, keys: Tensor, annotations: Tensor, energy: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The same from the alignment model of the reference scan, whose W_a is the identity."""
    model = AlignmentModel(UNITS, WIDTH, UNITS).to(keys.dtype)
    model.from_state.weight.data, model.energy.weight.data = torch.eye(UNITS).to(keys.dtype), energy[None]
    return model(query, Memory(annotations, keys, mask))


def draw(dtype: torch.dtype) -> tuple[Tensor, ...]:
    """Random numbers that ``dtype`` represents exactly, and therefore float32 and float64 too."""
    query, energy = torch.randn(BATCH, UNITS), torch.randn(UNITS)
    keys, annotations = torch.randn(BATCH, SOURCE, UNITS), torch.randn(BATCH, SOURCE, WIDTH)
    return tuple(tensor.to(dtype) for tensor in (query, keys, annotations, energy))


MASK = torch.arange(SOURCE).expand(BATCH, -1) >= torch.tensor([[SOURCE], [SOURCE - 40]])


@HALVES
@pytest.mark.parametrize("attend", [fused, single])
def test_alignment_weights_are_in_float32(attend: Callable[..., tuple[Tensor, Tensor]], dtype: torch.dtype) -> None:
    query, keys, annotations, energy = draw(dtype)
    context, weights = attend(query, keys, annotations, energy, MASK)
    assert (context.dtype, weights.dtype) == (dtype, torch.float32)
    torch.testing.assert_close(weights.double().sum(dim=1), torch.ones(BATCH).double(), rtol=0, atol=1e-6)
    assert (weights[MASK] == 0).all()
    # The weights are exponentials of energies that were rounded to half precision.
    expected_context, expected = attend(*(tensor.double() for tensor in (query, keys, annotations, energy)), MASK)
    torch.testing.assert_close(weights.double(), expected, rtol=0.05, atol=0)
    torch.testing.assert_close(context.double(), expected_context, rtol=0.02, atol=0.02)
    # With equal energies only the softmax rounds: each of 300 words has the weight 1 / 300.
    _, equal = attend(query, keys, annotations, 0 * energy, MASK)
    torch.testing.assert_close(equal[0], torch.full((SOURCE,), 1 / SOURCE), rtol=1e-6, atol=0)


@HALVES
def test_the_gradient_of_attention_is_that_of_double_precision(dtype: torch.dtype) -> None:
    query, keys, annotations, energy = draw(dtype)
    grad_weights, grad_context = torch.randn(BATCH, SOURCE), torch.randn(BATCH, WIDTH).to(dtype)
    exact = [tensor.double().requires_grad_() for tensor in (query, keys, energy)]
    expected = single(exact[0], exact[1], annotations.double(), exact[2].detach(), MASK)
    aligned = torch.tanh(exact[1] + exact[0].unsqueeze(1))
    alpha = torch.softmax((aligned @ exact[2]).masked_fill(MASK, -torch.inf), dim=1)
    torch.testing.assert_close(alpha, expected[1])
    context = torch.bmm(alpha.unsqueeze(1), annotations.double()).squeeze(1)
    ((alpha * grad_weights).sum() + (context * grad_context.double()).sum()).backward()

    forward_context, weights = fused(query, keys, annotations, energy, MASK)
    grad_query, grad_keys, grad_energy = torch.empty_like(query), torch.zeros(keys.shape), torch.zeros(BATCH, UNITS)
    kernels.attend_backward(
        query, keys, annotations, energy, kernels.scratch(keys), weights, forward_context, grad_weights, grad_context,
        grad_query, grad_keys, grad_energy,
    )  # fmt: skip
    for found, tensor in zip((grad_query, grad_keys * energy, grad_energy.sum(dim=0)), exact, strict=True):
        error = (found.double() - tensor.grad).norm() / tensor.grad.norm()
        assert error < (0.03 if dtype == torch.bfloat16 else 0.004)
