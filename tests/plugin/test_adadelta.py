"""Adadelta against NumPy, and what a command line makes of it."""

import functools
from shlex import split

import numpy as np
import torch
from fairseq.optim import build_optimizer
from omegaconf import DictConfig

from rnnsearch_fairseq.plugin.optim import Adadelta
from tests.builders import parse_training


@functools.cache
def parse(*words: str, optimizer: str = "adadelta") -> DictConfig:
    return parse_training("--arch", "bahdanau_gru", "--optimizer", optimizer, *words)


def build(*words: str, values: np.ndarray | None = None) -> tuple[Adadelta, torch.nn.Parameter]:
    parameter = torch.nn.Parameter(torch.zeros(3) if values is None else torch.from_numpy(values.copy()))
    optimizer = build_optimizer(parse(*words).optimizer, [parameter])
    assert type(optimizer) is Adadelta
    return optimizer, parameter


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


def test_the_papers_settings_are_the_defaults_of_adadelta_only() -> None:
    assert list(parse(optimizer="sgd").optimization.lr) == [0.25]
    for words, values in (
        ([], (1.0, 0.95, 1e-6, 0.0)),
        (split("--lr 0.5 --adadelta-rho 0.9 --adadelta-eps 1e-8 --weight-decay 0.01"), (0.5, 0.9, 1e-8, 0.01)),
    ):
        assert list(parse(*words).optimization.lr) == [values[0]]
        group = build(*words)[0].optimizer.param_groups[0]
        assert tuple(group[name] for name in ("lr", "rho", "eps", "weight_decay")) == values
