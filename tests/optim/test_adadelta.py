"""Adadelta against NumPy, and what a command line makes of it."""

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from fairseq.optim import OPTIMIZER_DATACLASS_REGISTRY, OPTIMIZER_REGISTRY, build_optimizer
from omegaconf import DictConfig

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.optim.adadelta import Adadelta, AdadeltaConfig
from tests.builders import parse_training


def parse(*words: str) -> DictConfig:
    return parse_training("--arch", "bahdanau_gru", "--optimizer", "adadelta", *words)


def build(*words: str, values: np.ndarray | None = None) -> tuple[Adadelta, torch.nn.Parameter]:
    parameter = torch.nn.Parameter(torch.zeros(3) if values is None else torch.from_numpy(values.copy()))
    optimizer = build_optimizer(parse(*words).optimizer, [parameter])
    assert type(optimizer) is Adadelta
    return optimizer, parameter


def test_adadelta_is_ours_and_has_a_dataclass() -> None:
    assert OPTIMIZER_REGISTRY["adadelta"] is Adadelta
    assert OPTIMIZER_DATACLASS_REGISTRY["adadelta"] is AdadeltaConfig
    assert Adadelta.__module__ == "rnnsearch_fairseq.optim.adadelta"


def test_twenty_steps_equal_the_algorithm_of_the_paper() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(4, 3))
    optimizer, parameter = build(values=x)
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


def test_alone_it_has_the_papers_settings() -> None:
    cfg = parse()
    assert list(cfg.optimization.lr) == [1.0]
    assert list(cfg.optimizer.lr) == [1.0]
    assert (cfg.optimizer.adadelta_rho, cfg.optimizer.adadelta_eps, cfg.optimizer.weight_decay) == (0.95, 1e-6, 0.0)
    optimizer, _ = build()
    expected = {"lr": 1.0, "rho": 0.95, "eps": 1e-6, "weight_decay": 0.0}
    assert optimizer.optimizer_config == expected
    assert {name: optimizer.optimizer.param_groups[0][name] for name in expected} == expected


def test_given_settings_win() -> None:
    words = ["--lr", "0.5", "--adadelta-rho", "0.9", "--adadelta-eps", "1e-8", "--weight-decay", "0.01"]
    assert list(parse(*words).optimization.lr) == [0.5]
    optimizer, _ = build(*words)
    assert optimizer.optimizer_config == {"lr": 0.5, "rho": 0.9, "eps": 1e-8, "weight_decay": 0.01}


def test_other_optimizers_keep_fairseqs_learning_rate() -> None:
    cfg = parse_training("--arch", "bahdanau_gru", "--optimizer", "sgd")
    assert list(cfg.optimization.lr) == [0.25]


@pytest.mark.parametrize(
    "words",
    [
        ["--adadelta-rho", "1.5"],
        ["--adadelta-rho", "-0.1"],
        ["--adadelta-eps", "-0.5"],
        ["--lr", "-1"],
        ["--weight-decay", "-1"],
    ],
)
def test_settings_out_of_range_are_refused(words: list[str]) -> None:
    with pytest.raises(InputError, match=r"adadelta: Invalid .*--adadelta-rho"):
        build(*words)


def test_state_is_resumed() -> None:
    def run(optimizer: Adadelta, parameter: torch.nn.Parameter, steps: int) -> None:
        for number in range(steps):
            parameter.grad = torch.tensor([1.0, -2.0, 0.5]) * (number + 1)
            optimizer.step()

    whole, parameter = build()
    run(whole, parameter, 3)
    saved: dict[str, Any] = deepcopy(whole.state_dict())  # its tensors are the live ones
    resumed, other = build()
    other.data.copy_(parameter.data)
    resumed.load_state_dict(deepcopy(saved))
    run(whole, parameter, 2)
    run(resumed, other, 2)
    assert torch.equal(parameter, other)
    # As fairseq's trainer does it: a checkpoint's settings stay.
    slower, _ = build("--adadelta-rho", "0.5")
    slower.load_state_dict(saved, optimizer_overrides={})
    assert slower.optimizer.param_groups[0]["rho"] == 0.95
