"""Gradients in float64 against finite differences, for every module and both scans, with padding."""

from typing import Any

import pytest
import torch
from torch.autograd import gradcheck
from torch.func import functional_call

from rnnsearch_fairseq.modules import (
    AlignmentModel,
    BiasedEmbedding,
    Decoder,
    DeepOutput,
    Encoder,
    GatedHiddenUnit,
    Maxout,
)
from rnnsearch_fairseq.modules.fused.rnn import FusedDecoder, FusedEncoder
from tests.builders import pad, randomize


def assert_gradients(module: torch.nn.Module, call, *inputs: torch.Tensor) -> None:  # noqa: ANN001
    """Check the gradient of ``call(module's parameters, inputs)`` for every parameter and every float input."""
    module.double()
    randomize(module)
    names = [name for name, _ in module.named_parameters()]
    values = [parameter.detach().clone().requires_grad_() for parameter in module.parameters()]
    inputs = tuple(x.double().requires_grad_() for x in inputs)

    def function(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        given = dict(zip(names, tensors[: len(names)]))
        return call(given, *tensors[len(names) :])

    assert gradcheck(function, (*values, *inputs))


def test_gated_unit() -> None:
    unit = GatedHiddenUnit(3, 4, context_size=2)
    assert_gradients(
        unit,
        lambda p, projected, state: functional_call(unit, p, (projected, state)),
        torch.randn(2, 12),
        torch.randn(2, 4),
    )


def test_alignment_model_with_padding() -> None:
    model = AlignmentModel(3, 4, 5)
    mask = torch.tensor([[False, False, False], [False, False, True]])

    class Attend(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, state: torch.Tensor, annotations: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return self.model(state, self.model.encode_keys(annotations, mask))

    attend = Attend()
    assert_gradients(
        attend, lambda p, s, h: functional_call(attend, p, (s, h)), torch.randn(2, 3), torch.randn(2, 3, 4)
    )


@pytest.mark.parametrize("pool", [2, 3])
@pytest.mark.parametrize("rank", [0, 2])
def test_deep_output(pool: int, rank: int) -> None:
    output = DeepOutput(3, 2, 4, maxout_size=3, pool_size=pool, vocabulary_size=5, rank=rank)
    assert_gradients(
        output,
        lambda p, s, y, c: functional_call(output, p, (s, y, c)),
        torch.randn(2, 3),
        torch.randn(2, 2),
        torch.randn(2, 4),
    )


def test_maxout_sends_the_gradient_to_the_maximum() -> None:
    units = torch.tensor([[1.0, 3.0, -2.0, -1.0]], requires_grad=True)
    Maxout(2)(units).sum().backward()
    assert units.grad.tolist() == [[0, 1, 0, 1]]


@pytest.mark.parametrize("kind", [Encoder, FusedEncoder])
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("left", [False, True])
def test_encoder_direction(kind: type[Encoder], backward: bool, left: bool) -> None:
    mask = pad([[5, 5, 5], [5]], left).eq(1)

    class Direction(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.unit = GatedHiddenUnit(3, 4)

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return kind.read(self.unit, inputs, mask, backward)

    module = Direction()
    assert_gradients(module, lambda p, x: functional_call(module, p, (x,)), torch.randn(2, 3, 3))


@pytest.mark.slow
@pytest.mark.parametrize("alignment_size", [3, 0], ids=["rnnsearch", "rnnencdec"])
@pytest.mark.parametrize(
    "order", [{}, {"reads_current_state": True}, {"updates_with_current_word": True, "output_rank": 2}], ids=str
)
@pytest.mark.parametrize("fused", [False, True], ids=["reference", "fused"])
def test_whole_model(alignment_size: int, order: dict[str, Any], fused: bool) -> None:
    class Whole(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            encoder, decoder = (FusedEncoder, FusedDecoder) if fused else (Encoder, Decoder)
            self.encoder = encoder(6, 2, 3, bidirectional=alignment_size > 0)
            self.decoder = decoder(6, 2, 3, self.encoder.annotation_size, alignment_size, 2, 2, **order)

        def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            annotations, summary = self.encoder(source, source.eq(1))
            memory = self.decoder.attention.encode_keys(annotations, source.eq(1))
            features = self.decoder(target, self.decoder.initial_state(summary), memory).features
            return self.decoder.readout.to_vocabulary(features)

    whole = Whole()
    source, target = pad([[2, 3, 4], [5, 2]]), pad([[2, 5], [3, 4]])
    # The embedding gives its row of padding no gradient on purpose; finite differences would find one.
    frozen = {
        name: torch.zeros(6, 2, dtype=torch.float64)
        for name, _ in whole.named_parameters()
        if name.endswith("table.weight")
    }

    def call(parameters: dict[str, torch.Tensor]) -> torch.Tensor:
        tables = {name: torch.cat([parameters[name][:1], frozen[name][:1], parameters[name][2:]]) for name in frozen}
        return functional_call(whole, {**parameters, **tables}, (source, target))

    assert_gradients(whole, call)


def test_embedding_of_padding_stays_zero() -> None:
    embedding = BiasedEmbedding(4, 3)
    embedding(torch.tensor([[0, 1, 2]])).sum().backward()
    assert embedding.table.weight.grad[1].eq(0).all()
    assert embedding.table.weight.grad[0].eq(1).all()
