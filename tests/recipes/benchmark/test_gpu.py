"""The measurements on a GPU: their order, limits and results, without a GPU. What a GPU is like, no test says."""

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from recipes.benchmark import gpu
from recipes.benchmark.gpu_measure import count_events
from tests.modules.fused.test_triton_kernels import Absent

ROOT = Path(__file__).resolve().parents[3]
LIMIT = 12345.0  # of the step that hangs
STEPS = ["versions", "tests", "updates", "profile", "micro", "scans", "large", "translation", "memcheck"]

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")


def step(name: str, script: str, limit: float | None = 1000) -> gpu.Step:
    return gpu.Step(name, "a test", limit, ["bash", "-c", script])


def test_a_step_that_fails_or_hangs_does_not_end_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    child = tmp_path / "child"

    class Impatient(subprocess.Popen):
        """Has waited long enough as soon as the step that hangs has started its child."""

        def wait(self, timeout: float | None = None) -> int:
            while timeout == LIMIT:
                if child.exists() and child.read_text().endswith("\n"):
                    raise subprocess.TimeoutExpired("hangs", timeout)
                time.sleep(0.01)
            return super().wait(timeout)

    monkeypatch.setattr(gpu.subprocess, "Popen", Impatient)
    say = 'echo \'{"name": "speed", "value": %d}\' >> $RECORDS; '
    hang = f"trap '' TERM; sleep infinity & echo '{{\"name\": \"cut' >> $RECORDS; echo $! > {child}; wait"
    gpu.run_steps(
        [
            step("good", say % 1 + say % 2),
            step("fails", say % 3 + "echo why >&2; exit 3"),
            step("hangs", say % 4 + hang, LIMIT),
            gpu.Step("absent", "a test", 1000, ["/no/such/program"]),
            step("wrong", 'echo \'{"name": "part", "error": "too fast"}\' >> $RECORDS'),
            step("last", say % 5 + "echo $MARK", None),
        ],
        tmp_path,
        limit=10 * LIMIT,
        environment={"MARK": "of all steps"},
        date="today",
    )
    results = json.loads((tmp_path / "results.json").read_text())
    found = {name: (step["status"], step.get("reason")) for name, step in results["steps"].items()}
    assert found == {
        "good": ("ok", None),
        "fails": ("failed", "exit status 3: why"),
        "hangs": ("timed out", "killed after 12345 s"),
        "absent": ("failed", "[Errno 2] No such file or directory: '/no/such/program'"),
        "wrong": ("failed", "part: too fast"),
        "last": ("ok", None),
    }
    values = {name: step["results"].get("speed", {}).get("value") for name, step in results["steps"].items()}
    assert values == {"good": 2, "fails": 3, "hangs": 4, "absent": None, "wrong": None, "last": 5}
    assert "of all steps" in (tmp_path / "log.txt").read_text()
    report = (tmp_path / "results.md").read_text()
    assert "| fails | failed |" in report and "| speed | 5 |" in report
    assert all(decision["answer"] == "not measured" for decision in results["decisions"])
    state = Path("/proc", child.read_text().strip(), "stat")
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"


def test_steps_that_come_too_late_are_dropped_and_named(tmp_path: Path) -> None:
    gpu.run_steps([step("one", "exit 0"), step("two", "exit 0")], tmp_path, gpu.LEAST / 2, {})
    steps = json.loads((tmp_path / "results.json").read_text())["steps"]
    assert {name: (step["status"], step["reason"]) for name, step in steps.items()} == {
        "one": ("dropped", "no time was left"),
        "two": ("dropped", "no time was left"),
    }


@pytest.mark.parametrize(
    ("milliseconds", "microseconds", "products", "answers"),
    [
        ((1.2, 2.0), (1.4, 1.9), (13.2, 10.0), ["yes", "yes", "yes"]),
        ((1.3, 2.0), (1.6, 1.7), (13.0, 10.0), ["no", "no", "no"]),
        ((1.2, None), (None, 1.5), (None, 10.0), ["not measured", "yes", "not measured"]),
        ((None, None), (None, None), (None, None), ["not measured"] * 3),
    ],
)
def test_the_decisions_follow_from_what_was_measured(
    milliseconds: tuple, microseconds: tuple, products: tuple, answers: list[str]
) -> None:
    barriers = ("grid barrier, polled by load", "grid barrier, polled by atomic")
    micro = {name: {"us": value} for name, value in zip(barriers, microseconds)}
    micro |= {f"80 x {width} x 3000": {"us": value} for width, value in zip((500, 504), products)}
    scans = {name: {"graph ms": value} for name, value in zip(("encoder", "decoder"), milliseconds)}
    steps = {"scans": {"results": scans}, "micro": {"results": micro}}
    assert [decision["answer"] for decision in gpu.decide(steps)] == answers


def test_kernels_and_calls_are_counted_in_a_trace() -> None:
    events = [
        {"cat": "kernel", "name": "gemm", "dur": 3000},
        {"cat": "gpu_memcpy", "name": "Memcpy DtoH (Device -> Pageable)", "dur": 1000},
        {"cat": "gpu_user_annotation", "name": "Optimizer.step", "dur": 9000},
        {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "dur": 5},
        {"cat": "cuda_driver", "name": "cuLaunchKernelEx", "dur": 5},
        {"cat": "cuda_runtime", "name": "cudaStreamSynchronize", "dur": 5},
        {"cat": "cpu_op", "name": "aten::mm", "dur": 5},
        {"ph": "M", "name": "process_name"},
    ]
    assert count_events(events, 2) == {
        "kernels and copies": 1,
        "launches": 1,
        "synchronisations": 0.5,
        "copies to the host": 0.5,
        "busy ms": 2,
    }


@needs_triton
@pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")
@pytest.mark.parametrize("by_load", [True, False])
def test_the_barrier_compiles_for_programs_that_run_at_once(
    by_load: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver, jit

    from recipes.benchmark import grid_barrier

    compiled = []
    run: Callable = jit.JITFunction.run

    def compile_only(kernel: Any, *args: Any, warmup: bool, **options: Any) -> None:
        compiled.append(run(kernel, *args, warmup=True, **options))

    class Counter(torch.Tensor):
        is_cuda = True

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(driver, "_active", Absent(GPUTarget("cuda", 90, 32)))
    monkeypatch.setattr(jit.JITFunction, "run", compile_only)
    grid_barrier.pass_barriers(torch.zeros(2, dtype=torch.int32).as_subclass(Counter), 132, 1000, by_load)
    (kernel,) = compiled
    assert kernel.metadata.launch_cooperative_grid and kernel.asm["cubin"]
    assert ".acq_rel" in kernel.asm["ptx"]


@needs_triton
def test_a_barrier_that_does_not_open_ends() -> None:
    """The interpreter runs one program after another: two never meet."""
    script = """
import torch
from recipes.benchmark import grid_barrier
grid_barrier.PATIENCE = 20
for programs in (1, 2):
    for by_load in (True, False):
        counter = torch.zeros(2, dtype=torch.int32)
        grid_barrier.pass_barriers(counter, programs, 3, by_load)
        print(counter.tolist())
"""
    variables = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", script], env=variables, capture_output=True, text=True, timeout=300)
    # The first of two gives up at its first barrier; the second finds both arrived, and gives up at its own second.
    assert done.stdout.splitlines() == ["[3, 0]", "[3, 0]", "[3, 2]", "[3, 2]"], done.stderr


@needs_triton
@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_a_dry_run_takes_every_step(tmp_path: Path) -> None:
    wheels, out = tmp_path / "wheels", tmp_path / "out"
    wheels.mkdir()
    (wheels / "broken-1.0-py3-none-any.whl").write_text("no archive")
    command = [
        "bash",
        f"{ROOT}/recipes/benchmark/gpu.sh",
        "--dry-run",
        "--wheels",
        wheels,
        "--out",
        out,
        "--limit",
        "3000",
    ]
    variables = os.environ | {"PYTHON": sys.executable}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=3000)
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads((out / "results.json").read_text())
    steps, log = results["steps"], (out / "log.txt").read_text()
    assert list(steps) == ["wheels", *STEPS]
    assert steps["wheels"]["status"] == "failed" and "broken-1.0" in log
    assert {steps[name]["status"] for name in STEPS} == {"ok"}, done.stdout + log
    assert all(steps[name]["results"] for name in STEPS)
    assert steps["updates"]["results"].keys() == {"bf16", "amp (fp16)", "float32", "TF32"}
    assert steps["scans"]["results"]["encoder"].keys() >= {"eager ms", "graph ms"}
    assert (out / "trace.json.gz").stat().st_size and (out / "profile.txt").stat().st_size
    assert results["dry_run"] and {decision["answer"] for decision in results["decisions"]} == {"not measured"}
    assert (out / "results.md").read_text() in done.stdout
    assert len(list(out.iterdir())) <= 8
