"""The networks with fused loops equal the readable ones, forward and backward."""

import functools
from dataclasses import replace
from typing import Any

import pytest
import torch

from rnnsearch_fairseq.modules.attention import AlignmentModel, Memory, average_annotations
from rnnsearch_fairseq.modules.config import NetworkConfig
from rnnsearch_fairseq.modules.fused import forms, kernels
from rnnsearch_fairseq.modules.fused.forms import WRITTEN_FOR, find_checksum, has_fused_form
from rnnsearch_fairseq.modules.fused.rnn import FusedDecoder
from rnnsearch_fairseq.modules.gru import GatedHiddenUnit
from rnnsearch_fairseq.modules.rnnsearch import RNNsearch, RNNsearchConfig
from rnnsearch_fairseq.modules.tree2seq import Tree2Seq, Tree2SeqConfig
from rnnsearch_fairseq.modules.tree_lstm import Forest
from tests.builders import PAD, pad, randomize
from tests.plugin import builders as trees

SIZES = dict.fromkeys(("embedding_size", "hidden_size", "alignment_size", "maxout_size"), 3)
rnnsearch = functools.partial(RNNsearchConfig, **SIZES)
tree2seq = functools.partial(Tree2SeqConfig, embedding_size=4, hidden_size=4)
CONFIGS: dict[str, NetworkConfig] = {
    "rnnsearch": rnnsearch(),
    "current state": rnnsearch(readout_state="current"),
    "original": rnnsearch(update_word="current", output_rank=2),
    "rnnencdec": rnnsearch(context="last"),
    "encdec, current state": rnnsearch(context="last", readout_state="current"),
    "encdec, original": rnnsearch(context="last", update_word="current"),
    "tree2seq": tree2seq(),
    "anmt": tree2seq(constituents="words"),
    "reversed": tree2seq(constituents="words", reverse_source=True),
    "phrases only": tree2seq(constituents="phrases-only"),
}
# Target words of the five sentences of `trees.SOURCES`.
TARGETS = {
    "ragged": [[2, 5, 3, 6], [2, 4, 4, 5, 6, 7], [2], [2, 8], [2, 9, 3]],
    "full": [[2, 5, 3, 6]] * 5,
    "one position": [[2]] * 5,
}


def run(name: str, scan: str, sample: dict[str, Any], dtype: torch.dtype = torch.float64) -> tuple[Any, ...]:
    """The scores and alpha of the target's words, and the gradients of a random sum of both."""
    config = replace(CONFIGS[name], scan=scan)
    network = (RNNsearch if isinstance(config, RNNsearchConfig) else Tree2Seq)(config, 16, 16)
    randomize(network)
    network.to(dtype)
    scores, alpha = network(sample["src_tokens"], sample["target"], Forest(*sample["trees"]))
    is_word = sample["target"].ne(PAD).unsqueeze(2)
    outputs = [output * is_word for output in (scores, alpha) if output is not None]
    generator = torch.Generator().manual_seed(5)
    cost = sum((output * torch.randn(output.shape, generator=generator)).sum() for output in outputs)
    parameters = dict(network.named_parameters())
    gradients = torch.autograd.grad(cost, parameters.values(), allow_unused=True, materialize_grads=True)
    return outputs, dict(zip(parameters, gradients))


def make_sample(target: str, left: bool) -> dict[str, Any]:
    batch = trees.make_batch(trees.SOURCES, trees.TARGETS, trees.TREES, left)["net_input"]
    return {**batch, "target": pad(TARGETS[target])}


@pytest.mark.parametrize("on_gpu", [False, True], ids=["cpu", "order of work on a GPU"])
@pytest.mark.parametrize("left", [False, True], ids=["right-padded", "left-padded"])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", CONFIGS)
def test_fused_is_reference(name: str, target: str, left: bool, on_gpu: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.Tensor, "is_cuda", on_gpu)
    fused, reference = (run(name, scan, make_sample(target, left)) for scan in ("fused", "reference"))
    torch.testing.assert_close(fused, reference, rtol=0, atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["autocast", "parameters in bfloat16"])
@pytest.mark.parametrize("name", CONFIGS)
def test_fused_is_reference_in_half_precision(name: str, dtype: torch.dtype) -> None:
    """As with fairseq's ``--amp``, whose parameters are in float32, and with ``--bf16``."""
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.float32):
        results = [run(name, scan, make_sample("full", True), dtype) for scan in ("fused", "reference")]
    (outputs, gradients), reference = results
    for output, expected in zip(outputs, reference[0]):
        torch.testing.assert_close(output.float(), expected.float(), rtol=0.05, atol=0.05)
    torch.testing.assert_close(gradients, reference[1], rtol=0.1, atol=0.1)


BATCH, SOURCE, UNITS, WIDTH = 2, 300, 6, 8
MASK = torch.arange(SOURCE).expand(BATCH, -1) >= torch.tensor([[SOURCE], [SOURCE - 40]])


@pytest.mark.parametrize(("dtype", "limit"), [(torch.bfloat16, 0.03), (torch.float16, 0.004)], ids=str)
def test_attention_to_a_long_source_is_exact_in_half_precision(dtype: torch.dtype, limit: float) -> None:
    shapes = ((BATCH, UNITS), (BATCH, SOURCE, UNITS), (UNITS,), (BATCH, SOURCE, WIDTH), (BATCH, WIDTH))
    query, keys, energy, annotations, grad_context = (torch.randn(shape).to(dtype) for shape in shapes)
    grad_weights = torch.randn(BATCH, SOURCE)
    exact = [tensor.double().requires_grad_() for tensor in (query, keys, energy)]
    aligned = torch.tanh(exact[1] + exact[0].unsqueeze(1))
    alpha = torch.softmax((aligned @ exact[2]).masked_fill(MASK, -torch.inf), dim=1)
    context = torch.bmm(alpha.unsqueeze(1), annotations.double()).squeeze(1)
    ((alpha * grad_weights).sum() + (context * grad_context.double()).sum()).backward()

    weights, memory = torch.empty(BATCH, SOURCE), Memory(annotations, keys, MASK)
    sigmoids = kernels.make_sigmoids(keys)
    # With equal energies only the softmax rounds: each of 300 words has the weight 1 / 300.
    equal = kernels.align(query, keys, 0 * energy, sigmoids)
    kernels.attend(equal, memory, weights, torch.empty_like(grad_context))
    readable = average_annotations(torch.zeros(BATCH, 1, SOURCE, dtype=dtype), memory)[1]
    for one in (weights[0], readable[0]):
        torch.testing.assert_close(one, torch.full((SOURCE,), 1 / SOURCE), rtol=1e-6, atol=0)
    kernels.attend(kernels.align(query, keys, energy, sigmoids), memory, weights, torch.empty_like(grad_context))
    assert (weights[MASK] == 0).all()
    grad_query, grad_keys, grad_energy = torch.empty_like(query), torch.zeros(keys.shape), torch.zeros(BATCH, UNITS)
    grad_energies = kernels.attend_backward(annotations, weights, grad_weights, grad_context)
    kernels.align_backward(query, keys, energy, sigmoids, grad_energies, grad_query, grad_keys, grad_energy)
    for computed, tensor in zip((grad_query, grad_keys * energy, grad_energy.sum(dim=0)), exact, strict=True):
        assert (computed.double() - tensor.grad).norm() / tensor.grad.norm() < limit


def test_the_checksums_are_those_of_the_sources() -> None:
    assert {owner: find_checksum(owner) for owner in WRITTEN_FOR} == WRITTEN_FOR


@pytest.mark.parametrize(
    "change",
    [
        lambda part: part.register_forward_hook(print),
        lambda part: part.register_full_backward_hook(print),
        lambda part: setattr(part, "forward", print),
        lambda part: part.from_state.register_parameter("bias", torch.nn.Parameter(torch.zeros(3))),
    ],
)
def test_a_changed_object_has_no_fused_form(change: Any) -> None:
    decoder = RNNsearch(CONFIGS["rnnsearch"], 5, 5).decoder
    assert has_fused_form(decoder, FusedDecoder)
    change(decoder.attention)
    assert not has_fused_form(decoder, FusedDecoder)


@pytest.mark.parametrize("owner", [AlignmentModel, GatedHiddenUnit])
def test_a_changed_equation_is_computed(
    owner: type[torch.nn.Module], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    equation = owner.forward

    def forward(self: torch.nn.Module, *inputs: Any) -> Any:
        result = equation(self, *inputs)
        return (2 * result[0], result[1]) if isinstance(result, tuple) else 2 * result

    monkeypatch.setattr(owner, "forward", forward)
    forms._warn.cache_clear()
    sample = make_sample("ragged", left=False)
    fused, readable = (run("rnnsearch", scan, sample)[0] for scan in ("fused", "reference"))
    torch.testing.assert_close(fused, readable)
    assert "is new or changed: its network runs the readable code" in caplog.text
