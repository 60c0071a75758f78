"""Label-smoothed cross entropy with one tensor of scores: the numbers are fairseq's."""

from argparse import Namespace
from typing import Any

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from torch import Tensor

from rnnsearch_fairseq import plugin
from rnnsearch_fairseq.plugin.criterions import SmoothedNLL
from tests.builders import make_dictionary, make_model, make_sample
from tests.plugin import builders as trees

SOURCES = [[7, 5, 9, 2], [4, 2], [11, 12, 2], [6, 6, 6, 6, 2]]
TARGETS = [[5, 2], [9, 8, 7, 6, 2], [4, 4, 2], [20, 2]]
TASK = Namespace(target_dictionary=make_dictionary(17))


@pytest.mark.parametrize("sentence_avg", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("kind", ["rnnsearch", "tree2seq"])
def test_the_numbers_are_fairseqs(kind: str, smoothing: float, sentence_avg: bool) -> None:
    model, sample = make_model(dropout=0.3), make_sample(SOURCES, TARGETS)
    if kind == "tree2seq":
        model, sample = trees.make_model(), trees.make_batch(trees.SOURCES, trees.TARGETS, trees.TREES)
    criterions = [
        SmoothedNLL(TASK, sentence_avg, smoothing),
        LabelSmoothedCrossEntropyCriterion(TASK, sentence_avg, smoothing),
    ]

    def run(criterion: LabelSmoothedCrossEntropyCriterion) -> tuple[Any, ...]:
        torch.manual_seed(1)  # of dropout
        model.zero_grad()
        loss, divisor, log = criterion(model, sample)
        if loss.requires_grad:
            loss.backward()
        gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        return loss.detach(), log, divisor, gradients

    for training in (True, False):
        model.train(training)
        with torch.set_grad_enabled(training):
            ours, theirs = map(run, criterions)
        assert ours[2] == theirs[2] and ours[1].keys() == theirs[1].keys()
        torch.testing.assert_close(ours[:2], theirs[:2], rtol=1e-6, atol=0, check_dtype=False)
        assert not any(isinstance(value, Tensor) and value.requires_grad for value in ours[1].values())
        assert bool(ours[3]) == training
        torch.testing.assert_close(ours[3], theirs[3], rtol=0, atol=1e-5)  # in float32


def test_other_models_are_computed_by_fairseq(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin.criterions, "smoothed_loss", None)
    inner, sample = make_model(), make_sample(SOURCES, TARGETS)

    class Other(torch.nn.Module):
        get_normalized_probs, get_targets = inner.get_normalized_probs, inner.get_targets

        def forward(self, **net_input: Tensor) -> tuple[Tensor, dict]:
            return inner(**net_input)

    loss, _, _ = SmoothedNLL(TASK, False, 0.1)(Other(), sample)
    assert loss.requires_grad
