"""Label-smoothed cross entropy with one tensor of scores: the numbers are fairseq's."""

from argparse import Namespace
from typing import Any

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion as Criterion
from fairseq.models import BaseFairseqModel
from torch import Tensor

from rnnsearch_fairseq.patches import ORIGINALS, speed
from tests.builders import make_dictionary, make_model, make_sample
from tests.models import builders as trees

pytestmark = pytest.mark.patched

SOURCES = [[7, 5, 9, 2], [4, 2], [11, 12, 2], [6, 6, 6, 6, 2]]
TARGETS = [[5, 2], [9, 8, 7, 6, 2], [4, 4, 2], [20, 2]]
TASK = Namespace(target_dictionary=make_dictionary(17))


def both(criterion: Criterion, model: BaseFairseqModel, sample: dict[str, Any]) -> list[tuple[Any, list[Tensor]]]:
    """What the replacement and fairseq's own method return, and the gradients that their costs have."""
    found = []
    for forward in (Criterion.forward, ORIGINALS[Criterion, "forward"]):
        torch.manual_seed(1)  # of dropout
        model.zero_grad()
        loss, divisor, log = forward(criterion, model, sample)
        if loss.requires_grad:
            loss.backward()
        gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        found.append(((loss.detach(), divisor, log), gradients))
    return found


@pytest.mark.parametrize("sentence_avg", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("kind", ["rnnsearch", "tree2seq"])
def test_the_numbers_are_fairseqs(kind: str, smoothing: float, sentence_avg: bool) -> None:
    model, sample = make_model(dropout=0.3), make_sample(SOURCES, TARGETS)
    if kind == "tree2seq":
        model, sample = trees.make_model(), trees.make_batch(trees.SOURCES, trees.TARGETS, trees.TREES)
    criterion = Criterion(TASK, sentence_avg, smoothing)
    for training in (True, False):
        model.train(training)
        with torch.set_grad_enabled(training):
            (ours, gradients), (theirs, expected) = both(criterion, model, sample)
        assert ours[1] == theirs[1] and ours[2].keys() == theirs[2].keys()
        torch.testing.assert_close((ours[0], ours[2]), (theirs[0], theirs[2]), rtol=1e-12, atol=0)
        assert not any(isinstance(value, Tensor) and value.requires_grad for value in ours[2].values())
        assert bool(gradients) == training
        torch.testing.assert_close(gradients, expected, rtol=0, atol=1e-10)


def test_the_cost_may_be_changed_in_place() -> None:
    """As fairseq does with that of a batch that only fills up."""
    model = make_model()
    loss, _, _ = Criterion(TASK, False, 0.1)(model, make_sample(SOURCES, TARGETS))
    loss *= 0
    loss.backward()
    assert all(parameter.grad.eq(0).all() for parameter in model.parameters())


class Derived(Criterion):
    def compute_loss(self, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        loss, nll = super().compute_loss(*args, **kwargs)
        return 2 * loss, nll


@pytest.mark.parametrize(
    ("criterion", "reduce"),
    [
        (Criterion(TASK, False, 0.1), False),
        (Criterion(TASK, False, 0.1, ignore_prefix_size=1), True),
        (Criterion(TASK, False, 0.1, report_accuracy=True), True),
        (Derived(TASK, False, 0.1), True),
    ],
    ids=["unreduced", "prefix", "accuracy", "derived"],
)
def test_other_costs_are_computed_by_fairseq(
    criterion: Criterion, reduce: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speed, "smoothed_loss", None)
    model, sample = make_model(), make_sample(SOURCES, TARGETS)
    loss, _, log = criterion(model, sample, reduce)
    expected, _, _ = ORIGINALS[Criterion, "forward"](criterion, model, sample, reduce)
    assert torch.equal(loss, expected)
    assert ("n_correct" in log) == criterion.report_accuracy


def test_other_models_are_computed_by_fairseq(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "smoothed_loss", None)
    inner, sample = make_model(), make_sample(SOURCES, TARGETS)

    class Other(torch.nn.Module):
        get_normalized_probs, get_targets = inner.get_normalized_probs, inner.get_targets

        def forward(self, **net_input: Tensor) -> tuple[Tensor, dict]:
            return inner(**net_input)

    loss, _, _ = Criterion(TASK, False, 0.1)(Other(), sample)
    assert loss.requires_grad
