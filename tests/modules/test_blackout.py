"""BlackOut's cost against its formula, its gradient against finite differences, and its draws against Q."""

import json
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from rnnsearch_fairseq.modules.blackout import AliasTable, alias_table, draw_negatives
from rnnsearch_fairseq.modules.fused import blackout
from rnnsearch_fairseq.modules.fused.blackout import blackout_loss
from rnnsearch_fairseq.plugin.criterions import make_proposal
from tests.plugin.builders import Original
from tests.reference.recorded import TREE2SEQ, needs_tree2seq
from tests.reference.tree2seq import blackout_token_loss

WORDS, VOCABULARY, SIZE = 7, 11, 4


def draw(seed: int = 1) -> tuple[Tensor, ...]:
    torch.manual_seed(seed)
    features, weight = (torch.randn(rows, SIZE, dtype=torch.float64) for rows in (WORDS, VOCABULARY))
    bias = torch.randn(VOCABULARY, dtype=torch.float64)
    proposal = torch.softmax(torch.randn(VOCABULARY, dtype=torch.float64), dim=0)
    return features, weight, bias, proposal.log()


TARGETS = torch.tensor([0, 3, 3, 10, 5, 1, 2])
NEGATIVES = torch.tensor([[1, 1, 2], [0, 9, 10], [4, 4, 4], [2, 3, 5], [6, 7, 8], [0, 2, 9], [10, 3, 7]])


@pytest.mark.parametrize("words_per_candidate", [0, 99], ids=["candidates", "whole vocabulary"])
def test_the_cost_is_its_formula(words_per_candidate: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blackout, "WORDS_PER_CANDIDATE", words_per_candidate)
    *tensors, log_proposal = draw()
    features, weight, bias = tensors
    samples = torch.cat([TARGETS.unsqueeze(1), NEGATIVES], dim=1).tolist()
    scores, weights = (features @ weight.T + bias).numpy(), (-log_proposal).exp().numpy()
    expected = sum(blackout_token_loss(z, words, weights) for z, words in zip(scores, samples))
    cost = blackout_loss(features, TARGETS, NEGATIVES, weight, bias, log_proposal)
    assert cost.item() == pytest.approx(expected, abs=1e-12)

    def cost_of(f: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return 3 * blackout_loss(f, TARGETS, NEGATIVES, w, b, log_proposal)

    assert torch.autograd.gradcheck(cost_of, [tensor.requires_grad_() for tensor in tensors])
    for dtype in (torch.float16, torch.bfloat16):  # computed in single precision
        halves = [tensor.detach().to(dtype).requires_grad_() for tensor in tensors]
        singles = [half.detach().float().requires_grad_() for half in halves]
        costs = [cost_of(*inputs) for inputs in (halves, singles)]
        assert costs[0].dtype == torch.float32
        assert costs[0].item() == pytest.approx(costs[1].item(), rel=1e-6)
        ours, exact = (torch.autograd.grad(cost, inputs) for cost, inputs in zip(costs, (halves, singles)))
        torch.testing.assert_close(ours, exact, rtol=0.05, atol=0.05, check_dtype=False)


def exact_cost(scores: Tensor) -> Tensor:
    """The cost with log(1 - p_i) as the logarithm of the sum of the other p, which is exact for every p_i."""
    total, cost = scores.logsumexp(dim=1), scores.new_zeros(len(scores))
    for i in range(1, scores.size(1)):
        others = torch.cat([scores[:, :i], scores[:, i + 1 :]], dim=1)
        cost = cost - (others.logsumexp(dim=1) - total)
    return (cost + total - scores[:, 0]).sum()


@pytest.mark.parametrize(("dtype", "places"), [(torch.float32, 1e-4), (torch.float64, 1e-12)])
@pytest.mark.parametrize("gap", [0.0, 5.0, 17.0, 40.0, 90.0, 1000.0])
def test_a_likely_negative_has_an_exact_and_finite_gradient(gap: float, dtype: torch.dtype, places: float) -> None:
    scores = torch.randn(6, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    scores[0, 3] += gap
    scores[1, [2, 4]] += gap  # two that are equally likely
    scores[2, 0] += gap  # the target itself
    scores[3, 1], scores[3, 2] = gap, gap / 2
    scores[4, 1], scores[4, 2:] = gap, -math.inf
    scores[5] -= gap
    rounded = scores.to(dtype).requires_grad_()
    exact = rounded.detach().double().requires_grad_()
    costs = blackout._Cost.apply(rounded), exact_cost(exact)
    gradients = (torch.autograd.grad(cost, tensor)[0] for cost, tensor in zip(costs, (rounded, exact)))
    for ours, expected in (costs, gradients):
        torch.testing.assert_close(ours.double(), expected, rtol=places, atol=places)


def probabilities(table: AliasTable) -> Tensor:
    """The probability of each word: its part of its own cell, and the rest of each cell whose alias it is."""
    own_shares = (table.limits - torch.arange(len(table.limits))).clamp(0, 1)
    return own_shares.index_add(0, table.aliases, 1 - own_shares) / len(own_shares)


@pytest.mark.parametrize("power", [0.0, 0.4, 3.0])
@pytest.mark.parametrize("words", [2, 3, 10, 4_904])
def test_the_alias_table_is_the_proposal(words: int, power: float) -> None:
    generator = torch.Generator().manual_seed(words)
    for absent in (0.0, 0.3):
        powers = torch.rand(words, dtype=torch.float64, generator=generator) ** (10 * power)
        powers[torch.rand(words, generator=generator) < absent] = 0
        powers[-1] = 1
        proposal = powers / powers.sum()
        table = alias_table(proposal)
        torch.testing.assert_close(probabilities(table), proposal, rtol=0, atol=1e-13)
        never = proposal == 0
        assert torch.equal(table.limits[never], torch.arange(words, dtype=torch.float64)[never])
        assert not never[table.aliases[table.limits < torch.arange(1, words + 1)]].any()


def test_negatives_follow_the_proposal_and_are_never_the_target() -> None:
    counts = np.array([0, 0, 40, 5, 1000, 1, 0, 300, 0])
    log_proposal, proposal = make_proposal(counts, 0.4, torch.device("cpu"))
    expected = np.where(counts > 0, counts**0.4, 0) / (counts[counts > 0] ** 0.4).sum()
    np.testing.assert_allclose(log_proposal.exp(), expected.clip(expected[expected > 0].min()), atol=1e-15)
    torch.manual_seed(2)
    targets = torch.tensor([4, 5, 7])
    drawn = draw_negatives(targets, 100_000, proposal)
    for target, row in zip(targets.tolist(), drawn):
        found = torch.bincount(row, minlength=len(counts)).numpy()
        assert found[target] == 0
        assert (found[counts == 0] == 0).all()
        others = expected.copy()
        others[target] = 0
        np.testing.assert_allclose(found / 100_000, others / others.sum(), atol=0.006)


@needs_tree2seq
def test_recorded_cost_and_gradients() -> None:
    original = Original("blackout")
    described = json.loads((TREE2SEQ / "blackout_gradcheck.json").read_text(encoding="utf-8"))
    check = described["grad_check"]
    model, records = original.model, original.described["train40"][:4]
    counts = np.zeros(len(model.decoder.dictionary), dtype=np.int64)
    counts[original.target] = described["tgt_counts"]
    log_proposal, _ = make_proposal(counts, 0.4, torch.device("cpu"))
    layer = model.decoder.network.to_vocabulary
    total = torch.zeros((), dtype=torch.float64)
    for record, samples, expected in zip(records, check["blackout_samples"], check["loss"], strict=True):
        sample = original.batch([record])
        features, _ = model(**sample["net_input"], features_only=True)
        drawn = torch.tensor([[original.target[number] for number in step] for step in samples])
        assert torch.equal(drawn[:, 0], sample["target"][0])
        cost = blackout_loss(features[0], drawn[:, 0], drawn[:, 1:], layer.weight, layer.bias, log_proposal)
        assert cost.item() == pytest.approx(expected, abs=1e-10)
        total = total + cost
    total.backward()
    original.check_gradients("blackout")
