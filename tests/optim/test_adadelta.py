"""Adadelta against NumPy, and what a command line makes of it."""

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from fairseq.optim import (
    OPTIMIZER_DATACLASS_REGISTRY,
    OPTIMIZER_REGISTRY,
    MemoryEfficientFP16Optimizer,
    build_optimizer,
)
from fairseq.utils import clip_grad_norm_
from omegaconf import DictConfig

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.modules.fused import dispatch, kernels
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


def test_state_is_resumed_and_the_command_line_wins_over_the_checkpoint() -> None:
    def run(optimizer: Adadelta, parameter: torch.nn.Parameter, steps: int) -> None:
        for number in range(steps):
            parameter.grad = torch.tensor([1.0, -2.0, 0.5]) * (number + 1)
            optimizer.step()

    whole, parameter = build()
    run(whole, parameter, 3)
    saved: dict[str, Any] = deepcopy(whole.state_dict())  # its tensors are the live ones
    resumed, other = build()
    other.data.copy_(parameter.data)
    resumed.load_state_dict(deepcopy(saved), optimizer_overrides=resumed.optimizer_config)
    run(whole, parameter, 2)
    run(resumed, other, 2)
    assert torch.equal(parameter, other)
    slower, _ = build("--lr", "0.5")
    slower.load_state_dict(saved, optimizer_overrides=slower.optimizer_config)
    assert slower.get_lr() == 0.5


# -- parameters in half precision --

HALVES = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])


def build_half(dtype: torch.dtype, value: torch.Tensor) -> tuple[MemoryEfficientFP16Optimizer, torch.nn.Parameter]:
    """As --memory-efficient-fp16 or --memory-efficient-bf16 makes it."""
    option = "--memory-efficient-fp16" if dtype == torch.float16 else "--memory-efficient-bf16"
    parameter = torch.nn.Parameter(value.to(dtype))
    return MemoryEfficientFP16Optimizer.build_optimizer(parse(option), [parameter]), parameter


def step_half(optimizer: MemoryEfficientFP16Optimizer, parameter: torch.nn.Parameter, seed: int) -> torch.Tensor:
    """A step by a gradient of about 1e-3, 1e-6 and 1e-9, which float16 holds by its scale only; that gradient."""
    gradient = torch.randn(3, generator=torch.Generator().manual_seed(seed)) * torch.tensor([1e-3, 1e-6, 1e-9])
    optimizer.zero_grad()
    scale = 2.0**15
    if optimizer.scaler is not None:
        optimizer.scaler.loss_scale = scale
        optimizer.zero_grad()  # takes over the scale
    else:
        optimizer.multiply_grads(1 / scale)
    parameter.grad = (gradient * scale).to(parameter.dtype)
    used = parameter.grad.float() / scale
    optimizer.step()
    return used


@HALVES
def test_half_precision_is_stepped_in_float32(dtype: torch.dtype) -> None:
    """Each step is that of float64 arithmetic, rounded once, as the parameters are."""
    optimizer, parameter = build_half(dtype, torch.tensor([0.5, -0.01, 0.001]))
    x, squared_gradient, squared_step = parameter.detach().double().numpy(), np.zeros(3), np.zeros(3)
    for seed in range(20):
        gradient = step_half(optimizer, parameter, seed).double().numpy()
        squared_gradient = 0.95 * squared_gradient + 0.05 * gradient**2
        step = -np.sqrt(squared_step + 1e-6) / np.sqrt(squared_gradient + 1e-6) * gradient
        squared_step = 0.95 * squared_step + 0.05 * step**2
        np.testing.assert_allclose(
            parameter.detach().double(), x + step, rtol=1.01 * torch.finfo(dtype).eps / 2, atol=1e-7
        )
        x = parameter.detach().double().numpy()
    kept = optimizer.optimizer.state[parameter]
    assert parameter.dtype == dtype
    for name, expected in (("square_avg", squared_gradient), ("acc_delta", squared_step)):
        assert kept[name].dtype == torch.float32
        assert (expected > 0).all()
        np.testing.assert_allclose(kept[name], expected, rtol=1e-3)


@HALVES
def test_half_precision_is_resumed_exactly(dtype: torch.dtype) -> None:
    whole, parameter = build_half(dtype, torch.tensor([0.5, -0.01, 0.001]))
    for seed in range(3):
        step_half(whole, parameter, seed)
    resumed, other = build_half(dtype, parameter.detach())
    resumed.load_state_dict(deepcopy(whole.state_dict()))
    for seed in range(3, 6):
        step_half(whole, parameter, seed)
        step_half(resumed, other, seed)
    assert torch.equal(parameter, other)
    states = [optimizer.optimizer.state[kept] for optimizer, kept in ((whole, parameter), (resumed, other))]
    assert all(torch.equal(states[0][name], states[1][name]) for name in ("step", "square_avg", "acc_delta"))


def test_gradients_are_multiplied_unless_by_one() -> None:
    optimizer, parameter = build()
    parameter.grad = torch.tensor([1.0, -2.0, 0.5])
    written = parameter.grad._version
    optimizer.multiply_grads(1.0)
    assert parameter.grad._version == written
    optimizer.multiply_grads(0.5)
    optimizer.multiply_grads(torch.tensor(4.0))
    assert parameter.grad.tolist() == [2.0, -4.0, 1.0]


# -- on a GPU --


@pytest.mark.parametrize("words", [[], ["--weight-decay", "0.1", "--lr", "0.5"]], ids=["paper", "decay"])
@pytest.mark.parametrize("scale", [1.0, 4.0, torch.tensor(0.5)], ids=str)
def test_an_update_on_a_gpu_is_torchs(
    words: list[str], scale: float | torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs, expected = build(*words)
    ours, parameter = build(*words)
    monkeypatch.setattr(dispatch, "on_gpu", lambda tensor: tensor is parameter)
    monkeypatch.setattr(dispatch, "kernels_for", lambda tensor: kernels)
    for seed in range(4):
        gradient = torch.randn(3, generator=torch.Generator().manual_seed(seed))
        expected.grad, parameter.grad = gradient.clone(), gradient * scale
        theirs.step()
        ours.step(scale=scale)
        torch.testing.assert_close(parameter, expected, rtol=1e-6, atol=1e-9)
    assert ours.supports_step_with_scale and not theirs.supports_step_with_scale
    states = [optimizer.optimizer.state[kept] for optimizer, kept in ((theirs, expected), (ours, parameter))]
    assert states[0].keys() == states[1].keys()
    for name, value in states[0].items():
        torch.testing.assert_close(states[1][name], value, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("max_norm", [0.0, 1.0, 100.0])
def test_clipping_on_a_gpu_is_fairseqs(dtype: torch.dtype, max_norm: float, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(1)
    parameters = [torch.nn.Parameter(torch.zeros(size, dtype=dtype)) for size in (3, 5, 2)]
    for parameter in parameters[:2]:  # the third has no gradient
        parameter.grad = torch.randn(parameter.shape, generator=generator).to(dtype)
    others = deepcopy(parameters)
    for parameter, other in zip(parameters[:2], others):
        other.grad = parameter.grad.clone()
    expected = clip_grad_norm_(others, max_norm, lambda norm: 2 * norm)
    monkeypatch.setattr(dispatch, "on_gpu", lambda tensor: True)
    optimizer = build_optimizer(parse().optimizer, parameters)
    found = optimizer.clip_grad_norm(max_norm, lambda norm: 2 * norm)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected)
    for parameter, other in zip(parameters[:2], others):
        torch.testing.assert_close(parameter.grad, other.grad)
