"""Models of encoder and decoder alone, readable or fused, and what the fused loops must give of them."""

from typing import Any

import torch
from torch import Tensor

from rnnsearch_fairseq.modules import Decoder, Encoder
from rnnsearch_fairseq.modules.config import RNNsearchConfig, Tree2SeqConfig
from rnnsearch_fairseq.modules.fused.rnn import FusedDecoder, FusedEncoder
from rnnsearch_fairseq.modules.fused.tree import FusedTreeDecoder, FusedTreeEncoder
from rnnsearch_fairseq.modules.tree_decoder import TreeDecoder
from rnnsearch_fairseq.modules.tree_encoder import TreeEncoder
from rnnsearch_fairseq.modules.tree_lstm import Forest
from tests.builders import pad, randomize
from tests.models import builders as batches

ORDERS = [{}, {"readout_state": "current"}, {"update_word": "current", "output_rank": 2}]
SOURCES = {"full": [[2, 3, 4, 6], [5, 2, 2, 3]], "ragged": [[2, 3, 4, 6], [5, 2]]}


class Whole(torch.nn.Module):
    """RNNsearch or, with an ``alignment_size`` of 0, RNNencdec."""

    def __init__(self, alignment_size: int, fused: bool, size: int = 3, **order: Any) -> None:
        super().__init__()
        encoder, decoder = (FusedEncoder, FusedDecoder) if fused else (Encoder, Decoder)
        sizes = {"embedding_size": 2, "hidden_size": size, "alignment_size": alignment_size or 1, "maxout_size": 2}
        context = "attention" if alignment_size else "last"
        config = RNNsearchConfig(**sizes, context=context, **order)
        self.encoder, self.decoder = encoder(config, 7), decoder(config, 7)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> list[torch.Tensor]:
        output = self.decoder(target, *self.decoder.start(self.encoder.annotate(source)))
        return [tensor for tensor in output if tensor is not None]


def both(alignment_size: int, device: str, **options: Any) -> list[Whole]:
    """The reference and the fused model, with the same parameters."""
    models = [Whole(alignment_size, fused, **options) for fused in (False, True)]
    for model in models:
        # Sums of many terms stay as small as those of a few, so that no unit is saturated.
        randomize(model.double(), min(0.5, model.encoder.forward_unit.hidden_size**-0.5))
    return [model.to(device) for model in models]


def assert_fused_is_reference(
    alignment_size: int, order: dict[str, Any], source: str, left: bool, tgt_len: int, device: str = "cpu"
) -> None:
    words = pad(SOURCES[source], left).to(device)
    target = torch.randint(2, 7, (2, tgt_len), device=device)
    models = both(alignment_size, device, **order)
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


def assert_fused_follows_autocast(alignment_size: int, order: dict[str, Any], device: str = "cpu") -> None:
    # Rounded to bfloat16, two units of a maxout pair may be equal, and their gradient is halved: not with these words.
    words, target = pad(SOURCES["ragged"]).to(device), torch.tensor([[2, 5, 3, 6, 4], [4, 4, 2, 3, 6]], device=device)
    found, gradients = [], []
    for model in both(alignment_size, device, **order):
        model.float()
        with torch.autocast(device, dtype=torch.bfloat16):
            outputs = model(words, target)
        outputs[0].float().sum().backward()
        gradients.append([parameter.grad for parameter in model.parameters() if parameter.grad is not None])
        found.append(outputs)
    for reference, fused in zip(*found, strict=True):
        torch.testing.assert_close(fused.float(), reference.float(), rtol=0.05, atol=0.05)
    for reference, fused in zip(*gradients, strict=True):
        assert fused.dtype == reference.dtype == torch.float32
        torch.testing.assert_close(fused, reference, rtol=0.1, atol=0.1)


def tree_outputs(
    size: int, dtype: torch.dtype, fused: bool, device: str = "cpu"
) -> tuple[tuple[Tensor, Tensor], dict[str, Tensor]]:
    """s~ and alpha of the same tree-to-sequence model for any ``fused``, and its parameters by name."""
    batch = batches.make_batch(batches.SOURCES, [[4, 5, 6, 7, 2]] * len(batches.TARGETS), batches.TREES)["net_input"]
    words, previous = (batch[name].to(device) for name in ("src_tokens", "prev_output_tokens"))
    forest = Forest(*(part.to(device) if isinstance(part, Tensor) else part for part in batch["trees"]))
    encoder, decoder = (FusedTreeEncoder, FusedTreeDecoder) if fused else (TreeEncoder, TreeDecoder)
    config = Tree2SeqConfig(embedding_size=5, hidden_size=size)
    model = torch.nn.ModuleList([encoder(config, 16), decoder(config, 16)])
    randomize(model, min(0.5, size**-0.5))
    model.to(device, dtype)
    source = model[0](words, forest)
    return model[1].scan(previous, source), dict(model.named_parameters())
