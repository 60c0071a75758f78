"""R-Drop: its cost and gradient against fairseq's, with this package's models and fairseq's."""

import copy
import math
from argparse import Namespace
from typing import Any

import pytest
import torch
from fairseq.criterions import CRITERION_REGISTRY, FairseqCriterion
from fairseq.logging import metrics
from fairseq.models import BaseFairseqModel, build_model
from torch import Tensor, nn

from rnnsearch_fairseq.criterions.rdrop import RDrop
from rnnsearch_fairseq.criterions.summed_nll import SummedNLL
from rnnsearch_fairseq.errors import InputError
from tests.builders import make_dictionary, make_model, make_sample, parse_training
from tests.models import builders as trees

SOURCES = [[6, 6, 6, 6, 2], [7, 5, 9, 2], [11, 12, 2], [4, 2]]  # the longest first: fairseq's lstm needs that
TARGETS = [[5, 2], [9, 8, 7, 6, 2], [4, 4, 2], [20, 2]]
DICTIONARY = make_dictionary(17)
PEERS = {
    "transformer_tiny": ["--encoder-layers", "1", "--decoder-layers", "1"],
    "lstm": ["--encoder-embed-dim", "8", "--encoder-hidden-size", "8"],
}


def make_criterion(name: str, *words: str) -> FairseqCriterion:
    cfg = parse_training("--arch", "bahdanau_gru", "--criterion", name, *words).criterion
    return CRITERION_REGISTRY[name].build_criterion(cfg, Namespace(target_dictionary=DICTIONARY))


def make_peer(arch: str) -> BaseFairseqModel:
    cfg = parse_training("--arch", arch, *PEERS[arch], "--dropout", "0.3").model
    return build_model(cfg, Namespace(source_dictionary=DICTIONARY, target_dictionary=DICTIONARY))


class Recorded(nn.Module):
    """A model that returns scores given beforehand, one batch of them a call."""

    def __init__(self, *scores: Tensor) -> None:
        super().__init__()
        self.scores = [nn.Parameter(each) for each in scores]
        self.calls = 0

    def forward(self, **_: Tensor) -> tuple[Tensor, None]:
        self.calls += 1
        return self.scores[self.calls - 1], None

    def get_normalized_probs(self, output: tuple[Tensor, None], log_probs: bool) -> Tensor:
        return (torch.log_softmax if log_probs else torch.softmax)(output[0], dim=-1)

    def get_targets(self, sample: dict[str, Any], output: tuple[Tensor, None]) -> Tensor:
        return sample["target"]


@pytest.mark.parametrize("sentence_avg", [False, True])
def test_it_is_half_of_fairseqs_cost(sentence_avg: bool) -> None:
    words = ["--label-smoothing", "0.1", "--rdrop-alpha", "2.5", *["--sentence-avg"] * sentence_avg]
    sample = make_sample(SOURCES, TARGETS)
    model = Recorded(*(torch.randn(4, 5, 21, dtype=torch.float64) for _ in range(2)))
    loss, divisor, log = make_criterion("rdrop", *words)(model, sample)
    loss.backward()
    found = [scores.grad for scores in model.scores]
    assert model.calls == 2
    theirs = make_criterion("label_smoothed_cross_entropy_with_rdrop", *words)
    both = torch.cat([scores.detach() for scores in model.scores]).requires_grad_()
    expected, expected_divisor, expected_log = theirs(model, sample, net_output=(both, None))
    expected.backward()
    torch.testing.assert_close(2 * loss, expected, rtol=0, atol=1e-10)
    torch.testing.assert_close(2 * torch.cat(found), both.grad, rtol=0, atol=1e-10)
    assert divisor == log["sample_size"] == expected_divisor == (4 if sentence_avg else 12)
    assert 2 * log["nll_loss"].item() == pytest.approx(expected_log["nll_loss"].item(), abs=1e-10)
    assert log["rdrop_kl_loss"].item() == pytest.approx(expected_log["rdrop_kl_loss"], abs=1e-10)
    assert (log["ntokens"], log["nsentences"]) == (12, 4)


@pytest.mark.parametrize("arch", ["bahdanau_gru", "rnnencdec", "groundhog_search"])
def test_this_packages_models_cost_what_any_model_costs(arch: str) -> None:
    model = make_model(arch, dropout=0.4, readout_dropout=0.4).train()
    criterion, sample = make_criterion("rdrop", "--label-smoothing", "0.1"), make_sample(SOURCES, TARGETS)

    class Other(nn.Module):
        def forward(self, **net_input: Tensor) -> tuple[Tensor, dict]:
            return model(**net_input)

    results = []
    for each in (model, Other().train()):
        torch.manual_seed(1)
        model.zero_grad()
        loss, _, log = criterion(each, sample)
        loss.backward()
        results.append((loss.item(), torch.cat([parameter.grad.flatten() for parameter in model.parameters()])))
    assert log["rdrop_kl_loss"] > 0.1, "the two passes have different dropout"
    assert results[0][0] == pytest.approx(results[1][0], abs=1e-10)
    torch.testing.assert_close(results[0][1], results[1][1], rtol=0, atol=1e-10)


@pytest.mark.parametrize("peer", PEERS)
def test_fairseqs_models_train_with_this_packages_costs(peer: str) -> None:
    model, sample = make_peer(peer).train(), make_sample(SOURCES, TARGETS)
    costs = {}
    for alpha in ("0", "5"):
        torch.manual_seed(1)
        loss, _, log = make_criterion("rdrop", "--rdrop-alpha", alpha)(model, sample)
        costs[alpha] = loss.item()
    assert log["rdrop_kl_loss"] > 0
    assert costs["5"] == pytest.approx(costs["0"] + 2.5 * log["rdrop_kl_loss"].item(), rel=1e-5)
    loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    model.eval()
    summed = SummedNLL(Namespace(target_dictionary=DICTIONARY))(model, sample)[0]
    expected = make_criterion("label_smoothed_cross_entropy")(model, sample)[0]
    assert summed.item() == pytest.approx(expected.item(), rel=1e-5)


def test_trees_are_read_twice() -> None:
    model = trees.make_model().train()
    loss, _, log = make_criterion("rdrop")(model, trees.make_batch(trees.SOURCES, trees.TARGETS, trees.TREES))
    assert log["rdrop_kl_loss"] == 0, "this model has no dropout"
    expected = SummedNLL(Namespace(target_dictionary=DICTIONARY))(
        model, trees.make_batch(trees.SOURCES, trees.TARGETS, trees.TREES)
    )[0]
    torch.testing.assert_close(loss, expected, rtol=0, atol=1e-10)


def test_validation_is_that_without_it_and_leaves_the_batch_alone() -> None:
    model, sample = make_model(dropout=0.4), make_sample(SOURCES, TARGETS)
    before = copy.deepcopy(sample)
    found, expected = (
        make_criterion(name, "--label-smoothing", "0.1")(model, sample)
        for name in ("rdrop", "label_smoothed_cross_entropy")
    )
    assert found[0].item() == expected[0].item()
    assert found[1:] == expected[1:]
    make_criterion("rdrop")(model.train(), sample)
    for name, tensor in before["net_input"].items():
        assert torch.equal(sample["net_input"][name], tensor)


def test_logged_means_are_per_word() -> None:
    log = {"loss": 30.0, "nll_loss": 20.0, "ntokens": 10, "nsentences": 2, "sample_size": 10}
    with metrics.aggregate(new_root=True) as logged:
        RDrop.reduce_metrics([{**log, "rdrop_kl_loss": 4.0}, {**log, "rdrop_kl_loss": 1.0}])
    values = logged.get_smoothed_values()
    assert values["rdrop_kl_loss"] == pytest.approx(5 / 20 / math.log(2), abs=1e-4)
    assert values["nll_loss"] == pytest.approx(2 / math.log(2), abs=1e-3)
    with metrics.aggregate(new_root=True) as logged:
        RDrop.reduce_metrics([log])
    assert "rdrop_kl_loss" not in logged.get_smoothed_values()


@pytest.mark.parametrize(("option", "value"), [("--rdrop-alpha", "-1.0"), ("--label-smoothing", "1.0")])
def test_impossible_weights_are_refused(option: str, value: str) -> None:
    with pytest.raises(InputError, match=f"{option} is {value}, but it must be"):
        make_criterion("rdrop", f"{option}={value}")
