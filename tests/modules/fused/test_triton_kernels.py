"""The GPU kernels on a machine without a GPU: interpreted, compiled, and replaced by PyTorch's."""

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
from rnnsearch_fairseq.modules.fused.loss import smoothed_loss
from tests.builders import pad
from tests.modules.builders import SOURCES, Whole, tree_outputs

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


def test_where_triton_does_not_run_pytorch_kernels_are_used(caplog: pytest.LogCaptureFixture) -> None:
    dispatch._gpu_kernels.cache_clear()
    tensor = SimpleNamespace(is_cuda=True, device=torch.device("cpu"), dtype=torch.float32)
    with caplog.at_level(logging.WARNING):
        assert [dispatch.kernels_for(tensor) for _ in range(2)] == [kernels, kernels]
    assert caplog.text.count("Triton's kernels do not run on cpu") == 1


def run_everything(size: int, dtype: torch.dtype) -> None:
    """Both networks' scans, forward and backward, and the cost."""
    model = Whole(size, fused=True, size=size).to(dtype)
    targets = torch.randint(2, 7, (2, 3))
    outputs = model(pad(SOURCES["ragged"]), targets)
    sum(output.sum() for output in [*outputs, *tree_outputs(size, dtype, fused=True)[0]]).backward()
    smoothed_loss(outputs[0], torch.randn(7, 2, dtype=dtype), torch.randn(7, dtype=dtype), targets, 0.1)


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
    names = ("apply_gates", "update_state", "attend", "apply_cell", "softmax_cost")
    for name in names:
        monkeypatch.setattr(kernels, name, guarded(name, getattr(kernels, name)))
    monkeypatch.setattr(dispatch, "on_gpu", lambda tensor: True)
    monkeypatch.setattr(dispatch, "kernels_for", lambda tensor: kernels)
    run_everything(3, torch.float32)
    assert ran == set(names)


@needs_triton
@pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")
@pytest.mark.parametrize(("arch", "dtype"), [(80, torch.float32), (90, torch.bfloat16)], ids=str)
def test_kernels_compile(arch: int, dtype: torch.dtype, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To machine code, which the interpreter does not show; they are not run."""
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver, jit

    from rnnsearch_fairseq.modules.fused import triton_kernels

    def compile_only(kernel: Any, *args: Any, warmup: bool, **options: Any) -> None:
        assert f".target sm_{arch}" in run(kernel, *args, warmup=True, **options).asm["ptx"]
        compiled.add(kernel.__name__)

    compiled: set[str] = set()
    run = jit.JITFunction.run
    gpu = SimpleNamespace(
        get_current_target=lambda: GPUTarget("cuda", arch, 32),
        get_current_device=lambda: arch,  # the key of Triton's cache of compiled kernels
        get_current_stream=lambda device: 0,
    )
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(driver, "_active", gpu)
    monkeypatch.setattr(jit.JITFunction, "run", compile_only)
    monkeypatch.setattr(dispatch, "on_gpu", lambda tensor: True)
    monkeypatch.setattr(dispatch, "kernels_for", lambda tensor: triton_kernels)
    run_everything(3, dtype)
    kernels_and_helpers = {name for name, value in vars(triton_kernels).items() if isinstance(value, jit.JITFunction)}
    assert compiled == kernels_and_helpers - {"_place", "_load", "_tanh", "_dot", "_products"}
