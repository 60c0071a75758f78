"""The GPU kernels on a machine without a GPU: interpreted, compiled, and replaced by PyTorch's."""

import importlib.util
import logging
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from rnnsearch_fairseq.modules.fused import kernels, rnn
from tests.builders import pad
from tests.modules.builders import SOURCES, Whole

CASES = Path(__file__).with_name("triton_kernels_cases.py")
KERNELS = {"_apply_gates", "_update_state", "_update_state_backward", "_reset_backward", "_attend", "_attend_backward"}

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")


@pytest.mark.slow
@needs_triton
def test_kernels_are_pytorch() -> None:
    """In a process of its own: Triton interprets either all kernels or none, and PyTorch's optimizers compile some."""
    environment = os.environ | ({} if torch.cuda.is_available() else {"TRITON_INTERPRET": "1"})
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(CASES)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_triton
@pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")
@pytest.mark.parametrize(
    ("arch", "dtype", "size"), [(80, torch.float32, 3), (90, torch.float64, 3), (90, torch.bfloat16, 1000)], ids=str
)
def test_kernels_compile(
    arch: int, dtype: torch.dtype, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernels compile to GPU machine code for the arguments of the scans; they are not run."""
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver, jit

    from rnnsearch_fairseq.modules.fused import triton_kernels

    def compile_only(kernel: Any, *args: Any, warmup: bool, **options: Any) -> None:
        compiled[kernel.__name__] = run(kernel, *args, warmup=True, **options).asm

    compiled: dict[str, dict[str, Any]] = {}
    run = jit.JITFunction.run
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(driver, "_active", Absent(GPUTarget("cuda", arch, 32)))
    monkeypatch.setattr(jit.JITFunction, "run", compile_only)
    monkeypatch.setattr(rnn, "_kernels_for", lambda tensor: triton_kernels)
    model = Whole(size, fused=True, size=size).to(dtype)
    outputs = model(pad(SOURCES["ragged"]), torch.randint(2, 7, (2, 3)))
    sum(output.sum() for output in outputs).backward()
    assert compiled.keys() == KERNELS
    for asm in compiled.values():
        assert f".target sm_{arch}" in asm["ptx"]
        assert asm["cubin"]


class Absent:
    """The driver of a GPU that is not there."""

    def __init__(self, target: Any) -> None:
        self.get_current_target = lambda: target
        self.get_current_device = lambda: target.arch  # the key of Triton's cache of compiled kernels
        self.get_current_stream = lambda device: 0


@pytest.mark.parametrize("missing", [True, pytest.param(False, marks=needs_triton)], ids=["no Triton", "no GPU for it"])
def test_without_triton_pytorch_kernels_are_used(
    missing: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if missing:
        monkeypatch.setitem(sys.modules, "rnnsearch_fairseq.modules.fused.triton_kernels", None)
        monkeypatch.delattr("rnnsearch_fairseq.modules.fused.triton_kernels", raising=False)
    rnn._gpu_kernels.cache_clear()
    tensor = SimpleNamespace(is_cuda=True, device=torch.device("cpu"))
    with caplog.at_level(logging.WARNING):
        assert [rnn._kernels_for(tensor) for _ in range(2)] == [kernels, kernels]
    assert caplog.text.count("Triton's kernels do not run on cpu") == 1


def test_a_cpu_needs_no_triton() -> None:
    assert rnn._kernels_for(torch.zeros(1)) is kernels
