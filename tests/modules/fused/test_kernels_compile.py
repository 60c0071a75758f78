"""The GPU kernels compiled to machine code without a GPU."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from rnnsearch_fairseq.modules.fused import dispatch
from tests.builders import pad
from tests.modules.builders import SOURCES, Whole
from tests.modules.fused.trees import tree_outputs

pytest.importorskip("triton")

HELPERS = {"_place", "_load", "_tanh", "_dot", "_products"}  # functions inside kernels
Compile = Callable[[int, torch.dtype, int], list[tuple[str, Any]]]


@pytest.fixture
def compile_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compile:
    """Compiles the kernels for the arguments of the scans and the cost; they are not run.

    The arguments are the architecture, the precision, and the number of units; the results are the names of the
    kernels, and Triton's compiled kernels.
    """
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver, jit

    from rnnsearch_fairseq.modules.fused import triton_kernels

    def compile_all(arch: int, dtype: torch.dtype, size: int) -> list[tuple[str, Any]]:
        monkeypatch.setattr(driver, "_active", Absent(GPUTarget("cuda", arch, 32)))
        model = Whole(size, fused=True, size=size).to(dtype)
        outputs = model(pad(SOURCES["ragged"]), torch.randint(2, 7, (2, 3)))
        sum(output.sum() for output in outputs).backward()
        sum(output.sum() for output in tree_outputs(size, dtype, fused=True)[0]).backward()
        scores, targets = torch.zeros(2, 30 * size, dtype=dtype), torch.zeros(2, dtype=torch.long)
        for smoothing in (0.0, 0.1):
            triton_kernels.softmax_cost(scores, targets, 1, True, smoothing)
        return compiled

    def compile_only(kernel: Any, *args: Any, warmup: bool, **options: Any) -> None:
        compiled.append((kernel.__name__, run(kernel, *args, warmup=True, **options)))

    compiled: list[tuple[str, Any]] = []
    run = jit.JITFunction.run
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(jit.JITFunction, "run", compile_only)
    monkeypatch.setattr(dispatch, "on_gpu", lambda tensor: True)
    monkeypatch.setattr(dispatch, "kernels_for", lambda tensor: triton_kernels)
    return compile_all


class Absent:
    """The driver of a GPU that is not there."""

    def __init__(self, target: Any) -> None:
        self.get_current_target = lambda: target
        self.get_current_device = lambda: target.arch  # the key of Triton's cache of compiled kernels
        self.get_current_stream = lambda device: 0


@pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")
@pytest.mark.parametrize(("arch", "dtype"), [(80, torch.float32), (90, torch.float64)], ids=str)
def test_kernels_compile(arch: int, dtype: torch.dtype, compile_kernels: Compile) -> None:
    from triton.runtime import jit

    from rnnsearch_fairseq.modules.fused import triton_kernels

    compiled = compile_kernels(arch, dtype, 3)
    kernels_of_the_module = {
        name
        for name, value in vars(triton_kernels).items()
        if isinstance(value, jit.JITFunction) and name not in HELPERS
    }
    assert {name for name, _ in compiled} == kernels_of_the_module
    for _, kernel in compiled:
        assert f".target sm_{arch}" in kernel.asm["ptx"]
        assert kernel.asm["cubin"]
