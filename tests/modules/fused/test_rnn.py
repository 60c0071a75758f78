"""The fused loops equal the reference loops, forward and backward."""

from typing import Any

import pytest
import torch

from rnnsearch_fairseq.modules import Decoder, Encoder
from rnnsearch_fairseq.modules.config import RNNsearchConfig
from rnnsearch_fairseq.modules.fused.rnn import FusedDecoder, FusedEncoder
from tests.builders import pad, randomize

ORDERS = [{}, {"readout_state": "current"}, {"update_word": "current", "output_rank": 2}]
SOURCES = {"full": [[2, 3, 4, 6], [5, 2, 2, 3]], "ragged": [[2, 3, 4, 6], [5, 2]]}


class Whole(torch.nn.Module):
    """RNNsearch or, with an ``alignment_size`` of 0, RNNencdec."""

    def __init__(self, alignment_size: int, fused: bool, **order: Any) -> None:
        super().__init__()
        encoder, decoder = (FusedEncoder, FusedDecoder) if fused else (Encoder, Decoder)
        sizes = {"embedding_size": 2, "hidden_size": 3, "alignment_size": alignment_size or 1, "maxout_size": 2}
        context = "attention" if alignment_size else "last"
        config = RNNsearchConfig(**sizes, context=context, **order)
        self.encoder, self.decoder = encoder(config, 7), decoder(config, 7)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> list[torch.Tensor]:
        features, steps = self.decoder(target, *self.decoder.start(self.encoder(source)))
        return [tensor for tensor in (features, *steps) if tensor is not None]


def both(alignment_size: int, order: dict[str, Any]) -> list[Whole]:
    """The reference and the fused model, with the same parameters."""
    models = [Whole(alignment_size, fused, **order).double() for fused in (False, True)]
    for model in models:
        randomize(model)
    return models


@pytest.mark.parametrize("alignment_size", [4, 0], ids=["rnnsearch", "rnnencdec"])
@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("tgt_len", [1, 2, 5])
def test_fused_is_reference(alignment_size: int, order: dict[str, Any], source: str, left: bool, tgt_len: int) -> None:
    words, target = pad(SOURCES[source], left), torch.randint(2, 7, (2, tgt_len))
    models = both(alignment_size, order)
    outputs = [model(words, target) for model in models]
    factors = [torch.randn_like(tensor) for tensor in outputs[0]]
    for tensors in outputs:
        sum((factor * tensor).sum() for factor, tensor in zip(factors, tensors)).backward()
    for reference, fused in zip(*outputs, strict=True):
        torch.testing.assert_close(fused, reference, rtol=0, atol=1e-10)
    for (name, reference), fused in zip(models[0].named_parameters(), models[1].parameters()):
        assert (reference.grad is None) == (fused.grad is None), name
        if reference.grad is not None:
            torch.testing.assert_close(fused.grad, reference.grad, rtol=0, atol=1e-10, msg=name)


@pytest.mark.parametrize("alignment_size", [4, 0], ids=["rnnsearch", "rnnencdec"])
@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_fused_follows_autocast(alignment_size: int, order: dict[str, Any]) -> None:
    # Rounded to bfloat16, two units of a maxout pair may be equal, and their gradient is halved: not with these words.
    words, target = pad(SOURCES["ragged"]), torch.tensor([[2, 5, 3, 6, 4], [4, 4, 2, 3, 6]])
    found, gradients = [], []
    for model in both(alignment_size, order):
        model.float()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            outputs = model(words, target)
        outputs[0].float().sum().backward()
        gradients.append([parameter.grad for parameter in model.parameters() if parameter.grad is not None])
        found.append(outputs)
    for reference, fused in zip(*found, strict=True):
        torch.testing.assert_close(fused.float(), reference.float(), rtol=0.05, atol=0.05)
    for reference, fused in zip(*gradients, strict=True):
        assert fused.dtype == reference.dtype == torch.float32
        torch.testing.assert_close(fused, reference, rtol=0.1, atol=0.1)
