"""The scheduler ``halve_on_worse``: when it lowers the learning rate, and what a checkpoint keeps of it."""

import functools
import json

import pytest
import torch
from fairseq.optim import build_optimizer
from fairseq.optim.lr_scheduler import build_lr_scheduler

from rnnsearch_fairseq.plugin.optim import HalveOnWorse
from tests.builders import parse_training

LOSSES = [5.0, 6.0, 5.5, 5.5, 5.501, 5.2, 7.0, 6.9]
RATES = [1.0, 0.5, 0.5, 0.5, 0.25, 0.25, 0.125, 0.125]


parse = functools.cache(parse_training)


def make(*words: str) -> HalveOnWorse:
    words = ("--arch", "anmt_small", "--optimizer", "sgd", "--lr", "1.0", "--lr-scheduler", "halve_on_worse", *words)
    cfg = parse(*words)
    scheduler = build_lr_scheduler(
        cfg.lr_scheduler, build_optimizer(cfg.optimizer, [torch.nn.Parameter(torch.zeros(1))])
    )
    assert type(scheduler) is HalveOnWorse
    return scheduler


@pytest.mark.parametrize("saved", range(1, len(LOSSES)))
def test_a_resumed_training_has_the_same_rates(saved: int) -> None:
    scheduler = make()
    for epoch, loss in enumerate(LOSSES[:saved], 1):
        scheduler.step(epoch, loss)
    resumed = make()
    resumed.load_state_dict(json.loads(json.dumps(scheduler.state_dict())))
    resumed.optimizer.load_state_dict(scheduler.optimizer.state_dict())
    resumed.step(saved)  # fairseq does so after it loads a checkpoint
    rates = [resumed.step(epoch, loss) for epoch, loss in enumerate(LOSSES[saved:], saved + 1)]
    assert rates == RATES[saved:]


@pytest.mark.parametrize(
    ("words", "losses", "rates"),
    [
        ([], LOSSES, RATES),
        ([], [5.0, None, 5.5], [1.0, 1.0, 0.5]),  # an epoch without a validation
        (["--lr-shrink", "0.1", "--maximize-best-checkpoint-metric"], [20.0, 21.0, 20.0, 20.5], [1.0, 1.0, 0.1, 0.1]),
    ],
)
def test_the_rate_falls_when_the_loss_is_worse_than_after_the_epoch_before(
    words: list[str], losses: list[float | None], rates: list[float]
) -> None:
    scheduler = make(*words)
    assert [scheduler.step(epoch, loss) for epoch, loss in enumerate(losses, 1)] == pytest.approx(rates)
