"""The GPU kernels on a machine without a GPU: interpreted, and replaced by PyTorch's."""

import importlib.util
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from rnnsearch_fairseq.modules.fused import dispatch, kernels
from rnnsearch_fairseq.modules.fused.loss import softmax_loss
from tests.builders import pad
from tests.modules.builders import SOURCES, Whole
from tests.modules.fused.trees import tree_outputs

CASES = Path(__file__).with_name("triton_kernels_cases.py")

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")


@pytest.mark.slow
@needs_triton
def test_kernels_are_pytorch() -> None:
    """In a process of its own: Triton interprets either all kernels or none."""
    environment = os.environ | ({} if torch.cuda.is_available() else {"TRITON_INTERPRET": "1"})
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(CASES)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("missing", [True, pytest.param(False, marks=needs_triton)], ids=["no Triton", "no GPU for it"])
def test_without_triton_pytorch_kernels_are_used(
    missing: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if missing:
        monkeypatch.setitem(sys.modules, "rnnsearch_fairseq.modules.fused.triton_kernels", None)
        monkeypatch.delattr("rnnsearch_fairseq.modules.fused.triton_kernels", raising=False)
    dispatch._gpu_kernels.cache_clear()
    tensor = SimpleNamespace(is_cuda=True, device=torch.device("cpu"), dtype=torch.float32)
    with caplog.at_level(logging.WARNING):
        assert [dispatch.kernels_for(tensor) for _ in range(2)] == [kernels, kernels]
    assert caplog.text.count("Triton's kernels do not run on cpu") == 1


class Idle:
    """A kernel that does nothing, or cannot be launched."""

    def __init__(self, works: bool) -> None:
        self.works = works

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        if not self.works:
            raise RuntimeError("out of resource: shared memory")
        return lambda *args, **options: None


@needs_triton
@pytest.mark.parametrize(
    "broken",
    [
        *(None, "_apply_gates", "_attend", "_attend_backward", "_softmax_cost"),
        *("_apply_cell", "_apply_cell_backward", "_attend_states_backward"),
    ],
)
def test_one_kernel_that_does_not_run_is_enough_for_pytorchs(
    broken: str | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from rnnsearch_fairseq.modules.fused import triton_kernels

    for name, value in vars(triton_kernels).copy().items():
        if hasattr(value, "fn"):
            monkeypatch.setattr(triton_kernels, name, Idle(works=name != broken))
    dispatch._gpu_kernels.cache_clear()
    tensor = SimpleNamespace(is_cuda=True, device=torch.device("cpu"), dtype=torch.bfloat16)
    with caplog.at_level(logging.WARNING):
        assert dispatch.kernels_for(tensor) is (kernels if broken else triton_kernels)
    assert ("out of resource" in caplog.text) == bool(broken)
    dispatch._gpu_kernels.cache_clear()


def test_kernels_run_on_the_device_of_their_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton launches on the current device, which is cuda:0 even for a model on cuda:1."""
    current: list[torch.Tensor] = []

    @contextmanager
    def device_of(tensor: torch.Tensor) -> Iterator[None]:
        current.append(tensor)
        yield
        current.pop()

    def guarded(name: str, function: Any) -> Any:
        def run(*args: Any, **kwargs: Any) -> Any:
            assert current and isinstance(current[-1], torch.Tensor), name
            ran.add(name)
            return function(*args, **kwargs)

        return run

    ran: set[str] = set()
    monkeypatch.setattr(torch.cuda, "device_of", device_of)
    names = ("apply_gates", "update_state", "attend", "apply_cell", "attend_states", "softmax_cost")
    for name in names:
        monkeypatch.setattr(kernels, name, guarded(name, getattr(kernels, name)))
    model, words, targets = Whole(4, fused=True), pad(SOURCES["ragged"]), torch.randint(2, 7, (2, 3))
    for on_gpu in (False, True):
        monkeypatch.setattr(dispatch, "on_gpu", lambda tensor, on_gpu=on_gpu: on_gpu)
        monkeypatch.setattr(dispatch, "kernels_for", lambda tensor: kernels)
        features, *_ = model(words, targets)
        softmax_loss(features, torch.randn(7, 2), torch.randn(7), targets)
        tree_outputs(3, torch.float32, fused=True)
    assert ran == set(names)


def test_a_cpu_needs_no_triton() -> None:
    assert dispatch.kernels_for(torch.zeros(1)) is kernels
