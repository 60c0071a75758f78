"""``adadelta`` against NumPy; when ``halve_on_worse`` lowers the learning rate, and what a checkpoint keeps of it."""

import json
from shlex import split

import numpy as np
import pytest
import torch
from fairseq.optim import build_optimizer
from fairseq.optim.lr_scheduler import build_lr_scheduler
from omegaconf import OmegaConf

from rnnsearch_fairseq.plugin.optim import Adadelta, HalveOnWorse
from tests.builders import parse_training as parse

LOSSES = [5.0, 6.0, 5.5, 5.5, 5.501, 5.2, 7.0, 6.9]
RATES = [1.0, 0.5, 0.5, 0.5, 0.25, 0.25, 0.125, 0.125]


def test_twenty_steps_equal_the_algorithm_of_the_paper() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(4, 3))
    parameter = torch.nn.Parameter(torch.from_numpy(x.copy()))
    optimizer = build_optimizer(parse("--arch", "bahdanau_gru", "--optimizer", "adadelta").optimizer, [parameter])
    assert type(optimizer) is Adadelta
    rho, eps = 0.95, 1e-6
    squared_gradient, squared_step = np.zeros_like(x), np.zeros_like(x)
    for _ in range(20):
        # Gradients from 1e-4 to 10, so that epsilon matters in both roots; and zeros.
        gradient = rng.normal(size=x.shape) * 10.0 ** rng.uniform(-4, 1, size=x.shape) * (rng.random(x.shape) > 0.1)
        parameter.grad = torch.from_numpy(gradient.copy())
        optimizer.step()
        squared_gradient = rho * squared_gradient + (1 - rho) * gradient**2
        step = -np.sqrt(squared_step + eps) / np.sqrt(squared_gradient + eps) * gradient
        squared_step = rho * squared_step + (1 - rho) * step**2
        x = x + step
        np.testing.assert_allclose(parameter.detach(), x, rtol=0, atol=1e-12)


def test_options_of_adadelta_reach_the_optimizer() -> None:
    words = "--arch bahdanau_gru --optimizer adadelta --lr 0.5 --adadelta-rho 0.9 --adadelta-eps 1e-8 --wd 0.01"
    optimizer = build_optimizer(parse(*split(words)).optimizer, [torch.nn.Parameter(torch.zeros(3))])
    assert optimizer.optimizer_config == {"lr": 0.5, "rho": 0.9, "eps": 1e-8, "weight_decay": 0.01}


def make_scheduler(**options: float | bool) -> HalveOnWorse:
    cfg = parse("--arch", "anmt_small", "--optimizer", "sgd", "--lr", "1.0", "--lr-scheduler", "halve_on_worse")
    optimizer = build_optimizer(cfg.optimizer, [torch.nn.Parameter(torch.zeros(1))])
    scheduler = build_lr_scheduler(OmegaConf.merge(cfg.lr_scheduler, options), optimizer)
    assert type(scheduler) is HalveOnWorse
    return scheduler


@pytest.mark.parametrize("saved", range(1, len(LOSSES)))
def test_a_resumed_training_has_the_same_rates(saved: int) -> None:
    scheduler, resumed = make_scheduler(), make_scheduler()
    assert [scheduler.step(epoch, loss) for epoch, loss in enumerate(LOSSES[:saved], 1)] == RATES[:saved]
    resumed.load_state_dict(json.loads(json.dumps(scheduler.state_dict())))
    resumed.optimizer.load_state_dict(scheduler.optimizer.state_dict())
    resumed.step(saved)  # fairseq does so after it loads a checkpoint
    assert [resumed.step(epoch, loss) for epoch, loss in enumerate(LOSSES[saved:], saved + 1)] == RATES[saved:]


@pytest.mark.parametrize(
    ("options", "losses", "rates"),
    [
        ({}, [5.0, None, 5.5], [1.0, 1.0, 0.5]),  # an epoch without a validation
        ({"lr_shrink": 0.1, "maximize_best_checkpoint_metric": True}, [20.0, 21.0, 20.0, 20.5], [1.0, 1.0, 0.1, 0.1]),
    ],
)
def test_the_rate_falls_when_the_loss_is_worse_than_after_the_epoch_before(
    options: dict[str, float | bool], losses: list[float | None], rates: list[float]
) -> None:
    scheduler = make_scheduler(**options)
    assert [scheduler.step(epoch, loss) for epoch, loss in enumerate(losses, 1)] == pytest.approx(rates)
