"""The GPU kernels compiled to machine code without a GPU: which registers and memory they take."""

import importlib.util
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from rnnsearch_fairseq.modules.fused import dispatch
from tests.builders import pad
from tests.modules.builders import SOURCES, Whole
from tests.modules.fused.trees import tree_outputs

pytest.importorskip("triton")

CUOBJDUMP = Path(importlib.util.find_spec("triton.backends.nvidia").origin).parent / "bin/cuobjdump"
HELPERS = {"_place", "_load", "_tanh", "_energies", "_dot", "_products"}  # functions inside kernels


class Resources(NamedTuple):
    """What a kernel takes: registers and bytes of spills of a thread, and bytes of a program's shared memory."""

    registers: int
    spills: int
    shared: int


# The most at n = 1000, on sm_80 and sm_90, in float32 and bfloat16. A multiprocessor has 65,536 registers: with 128 of
# them, two programs of 8 warps fit. ``_attend_backward`` has fewer programs (a sentence each) than there are
# multiprocessors, and needs no room for two.
MOST = {
    "_apply_cell": Resources(56, 0, 0),
    "_apply_cell_backward": Resources(56, 0, 0),
    "_apply_gates": Resources(40, 0, 0),
    "_update_state": Resources(40, 0, 0),
    "_update_state_backward": Resources(48, 0, 0),
    "_reset_backward": Resources(40, 0, 0),
    "_attend": Resources(128, 0, 5120),
    "_attend_backward": Resources(160, 16, 9216),
    "_attend_states_backward": Resources(128, 0, 5120),
    "_softmax_cost": Resources(32, 0, 2048),
    "_adadelta": Resources(128, 0, 9216),
}
Compile = Callable[[int, torch.dtype, int], list[tuple[str, Any]]]


@pytest.fixture
def compile_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compile:
    """Compiles the kernels for the arguments of the scans, the cost and the optimizer; they are not run.

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
        parameter, state = (torch.zeros(size, dtype=of) for of in (dtype, torch.promote_types(dtype, torch.float32)))
        settings = {"lr": 1.0, "rho": 0.95, "eps": 1e-6, "weight_decay": 0.0}
        triton_kernels.adadelta(parameter, parameter, state, state, 1.0, **settings)
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
    assert {name for name, _ in compiled} == kernels_of_the_module == MOST.keys()
    for _, kernel in compiled:
        assert f".target sm_{arch}" in kernel.asm["ptx"]
        assert kernel.asm["cubin"]


@pytest.mark.skipif(not CUOBJDUMP.exists(), reason="this Triton brings no cuobjdump, which reads machine code")
@pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("arch", [80, 90])
def test_kernels_keep_to_their_budgets(arch: int, dtype: torch.dtype, compile_kernels: Compile, tmp_path: Path) -> None:
    taken = [(name, resources(kernel, tmp_path / "cubin")) for name, kernel in compile_kernels(arch, dtype, 1000)]
    over = [(name, found) for name, found in taken if any(number > most for number, most in zip(found, MOST[name]))]
    assert over == []


def resources(kernel: Any, file: Path) -> Resources:
    """What the machine code of a kernel takes; ``file`` is written."""
    file.write_bytes(kernel.asm["cubin"])
    command = [str(CUOBJDUMP), "--dump-resource-usage", str(file)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    numbers = {name: int(number) for name, number in re.findall(r"(REG|STACK|SHARED|LOCAL):(\d+)", text)}
    return Resources(numbers["REG"], numbers["STACK"] + numbers["LOCAL"], numbers["SHARED"] + kernel.metadata.shared)
