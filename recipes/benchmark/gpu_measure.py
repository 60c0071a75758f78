"""The steps that gpu.py runs, each in its own process: ``python -m recipes.benchmark.gpu_measure STEP --out DIR``.

A step records each result at once, so that a killed step keeps its results.
"""

import argparse
import functools
import gzip
import importlib.metadata
import importlib.util
import json
import logging
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch.nn.functional as F
from torch import Tensor

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "tests/modules/fused/triton_kernels_cases.py"
GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if GPU else "cpu")
TRAINING = ["--task", "pooled_translation", "--criterion", "summed_nll", "--optimizer", "adadelta", "--clip-norm", "1"]
PRECISIONS = {"bf16": ["--bf16"], "amp (fp16)": ["--amp"], "float32": [], "TF32": []}
TF32 = "TF32"
GRAPH_NODES = 1000
BARRIERS = 1000


@dataclass(frozen=True)
class Sizes:
    """Sizes of the model and the batches; ``options`` holds the model's options that differ from the paper's."""

    embedding: int = 620
    hidden: int = 1000
    alignment: int = 1000
    vocabulary: int = 30_004  # fairseq's four symbols and the paper's 30,000 words
    pairs: int = 80
    many_pairs: int = 1280
    words: int = 28
    updates: int = 20
    rounds: int = 5
    repeats: int = 50
    options: tuple[str, ...] = ()


TINY_WIDTHS = ["--embedding-size", "6", "--hidden-size", "8", "--alignment-size", "7", "--maxout-size", "4"]
TINY = Sizes(6, 8, 7, 60, 4, 8, 5, 2, 2, 2, tuple(TINY_WIDTHS))


def record(name: str, **values: Any) -> None:
    """Report a result to gpu.py; it replaces an earlier one of this name."""
    line = json.dumps({"name": name, **values}, ensure_ascii=False)
    print(line, flush=True)
    if "RECORDS" in os.environ:
        with open(os.environ["RECORDS"], "a", encoding="utf-8") as file:
            file.write(line + "\n")


def attempt(name: str, work: Callable[..., dict[str, Any] | None], *args: Any) -> None:
    """Record the results of ``work``, or its failure; other work continues."""
    try:
        values = work(*args)
    except Exception as error:
        traceback.print_exc()
        record(name, error=f"{type(error).__name__}: {error}"[:500])
    else:
        if values is not None:
            record(name, **values)


def finish() -> None:
    """Wait until the GPU has finished."""
    if GPU:
        torch.cuda.synchronize()


def seconds_of(work: Callable[[], Any], repeats: int) -> float:
    """The median time of ``work``; on a GPU between events, including the gaps between kernels."""
    for _ in range(3):
        work()
    finish()
    times = []
    for _ in range(repeats):
        if GPU:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            work()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) / 1e3)
        else:
            began = time.perf_counter()
            work()
            times.append(time.perf_counter() - began)
    return statistics.median(times)


def capture(work: Callable[[], Any]) -> Callable[[], Any]:
    """Return a function that replays ``work`` as one CUDA graph; without a GPU, ``work`` itself."""
    if not GPU:
        return work
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return functools.partial(_replay, graph, work)


def _replay(graph: "torch.cuda.CUDAGraph", work: Callable[[], Any]) -> None:
    """Replay the graph; the reference to ``work`` keeps the tensors that the graph reads."""
    graph.replay()


# versions


def versions(sizes: Sizes, out: Path) -> None:
    """Record the machine and its libraries."""
    record("torch", value=torch.__version__)
    for name in ("triton", "fairseq-fixed", "numpy"):
        attempt(name, lambda name=name: {"value": importlib.metadata.version(name)})
    record("python", value=platform.python_version())
    record("processor", value=f"{os.cpu_count()} cores, {platform.machine()}")
    attempt("checkout", lambda: {"value": says("git", "-C", str(ROOT), "describe", "--always", "--dirty")[0]})
    if GPU:
        facts = torch.cuda.get_device_properties(0)
        record("GPU", value=facts.name, multiprocessors=facts.multi_processor_count, bytes=facts.total_memory)
        record("CUDA", value=torch.version.cuda, capability=".".join(map(str, torch.cuda.get_device_capability())))
        query = ("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
        attempt("driver", lambda: {"value": says(*query)[0]})
        attempt("nvcc", lambda: {"value": says("nvcc", "--version")[-1]})


def says(*command: str) -> list[str]:
    """Run a program and return the lines of its output, at least one."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=10)
    return (done.stdout + done.stderr).strip().splitlines() or [f"exit status {done.returncode}"]


# tests


class Recorder:
    """A pytest plugin that records the passed and failed tests after each test."""

    def __init__(self) -> None:
        self.passed, self.failed = 0, []

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.passed and report.when == "call":
            self.passed += 1
        elif report.failed:
            self.failed.append(report.nodeid.partition("::")[2])
            crash = getattr(report.longrepr, "reprcrash", None)
            why = (crash.message if crash else str(report.longrepr)).strip().partition("\n")[0]
            record(self.failed[-1], error=f"{report.when}: {why}"[:500])
        record("cases", passed=self.passed, failed=len(self.failed))


def run_tests(chosen: str, processes: int) -> None:
    """Run the test cases of the kernels and scans that match pytest's expression ``chosen``.

    Raises:
        SystemExit: always, with pytest's status.
    """
    import pytest

    words = [str(CASES), "-q", "-p", "no:cacheprovider", "--rootdir", str(ROOT), "-k", chosen]
    if processes > 1 and importlib.util.find_spec("xdist"):
        words += ["-n", str(processes)]
    raise SystemExit(pytest.main(words, plugins=[Recorder()]))


def tests(sizes: Sizes, out: Path) -> None:
    """Run all cases, or those in float32 in a dry run; several processes share the compilation."""
    run_tests("test" if GPU else "float32", min(8, os.cpu_count() or 1) if GPU else 1)


def memcheck(sizes: Sizes, out: Path) -> None:
    """Run each kernel in float32, and the scans; gpu.py starts this in compute-sanitizer."""
    run_tests("float32 or test_scans" if GPU else "test_softmax_of_large_energies", 1)


# updates


def training(name: str, precision: Sequence[str], sizes: Sizes, pairs: int, updates: int) -> Any:
    """Make a benchmark setup that trains on random words; TF32 is allowed if ``name`` is TF32."""
    from recipes.benchmark.workloads import Training

    class InTF32(Training):
        def work(self) -> None:
            torch.set_float32_matmul_precision("high")
            try:
                super().work()
            finally:
                torch.set_float32_matmul_precision("highest")

    words = ["--arch", "bahdanau_gru", *sizes.options, *TRAINING, "--batch-size", str(pairs), *precision]
    kind = InTF32 if name == TF32 else Training
    return kind(name, words, updates, (sizes.words, sizes.words), sizes.vocabulary)


def rates(work: Any) -> dict[str, Any]:
    """The rates of a timed training; updates with non-finite gradients count as skipped."""
    from recipes.benchmark.workloads import WARM_UP

    wall, updates = work.timing.wall, len(work.batches)
    median = statistics.median(wall)
    made = min(WARM_UP, updates) + updates * (1 + len(wall))  # the operations are counted over one round
    return {
        "updates/s": updates / median,
        "slowest to fastest round": f"{updates / max(wall):.4g} to {updates / min(wall):.4g}",
        "target words/s": work.timing.count / median,
        "ms an update": 1e3 * median / updates,
        "TFLOP/s": work.timing.operations / median / 1e12,
        "skipped": made - work.trainer.get_num_updates(),
    }


def updates(sizes: Sizes, out: Path) -> None:
    """Time the precisions in turns; each is recorded after its first round."""
    from recipes.benchmark.workloads import measure

    trainings = []

    def begin(name: str, precision: Sequence[str]) -> dict[str, Any]:
        if GPU:
            torch.cuda.reset_peak_memory_stats()
        work = training(name, precision, sizes, sizes.pairs, sizes.updates)
        measure([work], 1)
        trainings.append(work)
        return rates(work)

    for name, precision in PRECISIONS.items():
        attempt(name, begin, name, precision)
    measure(trainings, sizes.rounds)
    for work in trainings:
        record(work.timing.name, **rates(work))


def large(sizes: Sizes, out: Path) -> None:
    """Time updates in bf16 with many pairs."""
    from recipes.benchmark.workloads import measure

    work = training("bf16", PRECISIONS["bf16"], sizes, sizes.many_pairs, max(2, sizes.updates // 5))
    measure([work], sizes.rounds)
    memory = {"GB at the peak": torch.cuda.max_memory_allocated() / 1e9} if GPU else {}
    record(f"bf16, {sizes.many_pairs:,} pairs", **rates(work), **memory)


# profile


def profile(sizes: Sizes, out: Path) -> None:
    """Profile three updates in bf16 to ``profile.txt`` and ``trace.json.gz``, and count the kernels of an update."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as watch

    count = 3
    work = training("bf16", PRECISIONS["bf16"], sizes, sizes.pairs, count)
    plain = seconds_of(work.work, 5) / count
    with watch(activities=[ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * GPU) as watched:
        work.work()
        finish()
    order = "self_cuda_time_total" if GPU else "self_cpu_time_total"
    (out / "profile.txt").write_text(watched.key_averages().table(sort_by=order, row_limit=60), encoding="utf-8")
    trace = out / "trace.json.gz"
    watched.export_chrome_trace(str(trace))
    with gzip.open(trace, "rt", encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    record("an update in bf16", **{"ms, not profiled": 1e3 * plain}, **count_events(events, count))


def count_events(events: Sequence[dict[str, Any]], updates: int) -> dict[str, float]:
    """Count an update's kernels, launches, synchronisations and copies to the host, and the device's busy ms."""
    device = [event for event in events if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    calls = [event["name"] for event in events if event.get("cat") in ("cuda_runtime", "cuda_driver")]
    return {
        "kernels and copies": len(device) / updates,
        "launches": sum("Launch" in call for call in calls) / updates,
        "synchronisations": sum(call.endswith("Synchronize") for call in calls) / updates,
        "copies to the host": sum("DtoH" in event["name"] for event in device) / updates,
        "busy ms": sum(event["dur"] for event in device) / 1e3 / updates,
    }


# single operations


def micro(sizes: Sizes, out: Path) -> None:
    """Time products, the grid barrier, and a kernel's cost in a graph, alone, and launched by Triton."""
    for how in ("load", "atomic"):
        attempt(f"grid barrier, polled by {how}", barrier, how == "load", sizes)
    for width in (500, 504, 620, 624):
        attempt(f"80 x {width} x 3000", product, 80, width, 3000, 50 if GPU else 2, sizes)
    attempt("one kernel", kernel_gap, sizes)
    attempt("one launch by Triton", triton_launch, sizes)
    for width, columns in ((500, sizes.vocabulary), (504, sizes.vocabulary), (620, 3000), (624, 3000)):
        rows = sizes.pairs * sizes.words
        attempt(f"{rows} x {width} x {columns}", product, rows, width, columns, 5 if GPU else 1, sizes)
    for name, dtype in (("bf16", torch.bfloat16), ("float32", torch.float32), (TF32, torch.float32)):
        attempt(f"large product, {name}", large_product, dtype, name == TF32, sizes)


def product(rows: int, width: int, columns: int, count: int, sizes: Sizes) -> dict[str, Any]:
    """Time a linear layer in bf16, inputs (rows, width) and weight (columns, width), ``count`` times in a graph."""
    inputs, weight = (
        torch.randn(length, width, device=DEVICE, dtype=torch.bfloat16) for length in (rows, columns)
    )  # fmt: skip

    def work() -> None:
        for _ in range(count):
            F.linear(inputs, weight)

    seconds = seconds_of(capture(work), sizes.repeats) / count
    return {"us": 1e6 * seconds, "TFLOP/s": 2 * rows * width * columns / seconds / 1e12}


def large_product(dtype: torch.dtype, tf32: bool, sizes: Sizes) -> dict[str, Any]:
    """Time the product of two large square matrices: the machine's rate."""
    side = 8192 if GPU else 64
    first, second = (torch.randn(side, side, device=DEVICE).to(dtype) for _ in range(2))
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    seconds = seconds_of(lambda: first @ second, min(sizes.repeats, 10))
    torch.set_float32_matmul_precision("highest")
    return {"us": 1e6 * seconds, "TFLOP/s": 2 * side**3 / seconds / 1e12}


def barrier(by_load: bool, sizes: Sizes) -> dict[str, Any]:
    """Time one barrier of a program on each multiprocessor: the time of many barriers minus the time of one.

    Raises:
        RuntimeError: programs gave up waiting.
    """
    from recipes.benchmark.grid_barrier import pass_barriers

    programs = torch.cuda.get_device_properties(0).multi_processor_count if GPU else 1
    counter = torch.zeros(2, dtype=torch.int32, device=DEVICE)

    def passing(barriers: int) -> float:
        def work() -> None:
            counter[:1].zero_()
            pass_barriers(counter, programs, barriers, by_load)

        work()
        finish()
        if counter[1]:
            raise RuntimeError(f"{counter[1]} of {programs} programs gave up at a barrier")
        return seconds_of(work, sizes.repeats)

    many = BARRIERS if GPU else 5
    seconds = passing(many) - passing(1)
    if counter[1]:
        raise RuntimeError(f"{counter[1]} times a program gave up at a barrier")
    return {"us": 1e6 * seconds / (many - 1), "programs": programs}


def kernel_gap(sizes: Sizes) -> dict[str, Any]:
    """Time a kernel of one number, in a graph of many and started one by one."""
    number, count = torch.zeros(1, device=DEVICE), GRAPH_NODES if GPU else 10

    def work() -> None:
        for _ in range(count):
            number.add_(1)

    in_graph, alone = seconds_of(capture(work), sizes.repeats), seconds_of(work, min(sizes.repeats, 10))
    return {"us": 1e6 * in_graph / count, "us, one by one": 1e6 * alone / count}


def triton_launch(sizes: Sizes) -> dict[str, Any]:
    """Time the host's launch of one of the scans' kernels."""
    from rnnsearch_fairseq.modules.fused import triton_kernels

    tensors, count = torch.zeros(4, sizes.pairs, sizes.hidden, device=DEVICE), 200 if GPU else 2
    triton_kernels.update_state(*tensors)
    times = []
    for _ in range(5):
        finish()
        began = time.perf_counter()
        for _ in range(count):
            triton_kernels.update_state(*tensors)
        times.append(time.perf_counter() - began)
    finish()
    return {"us": 1e6 * statistics.median(times) / count}


# scans


def scans(sizes: Sizes, out: Path) -> None:
    """Time both loops, forward and backward in bf16, eager and as a graph; compare Triton's gradients to PyTorch's."""
    for name, make in (("encoder", encoder_work), ("decoder", decoder_work)):
        attempt(name, time_scan, make, sizes)
        attempt(f"{name}, Triton against PyTorch in float32", compare_scan, make, sizes)


def encoder_work(sizes: Sizes, dtype: torch.dtype) -> Callable[[], Sequence[Tensor]]:
    """The encoder's scan in both directions and its gradients, from embedded words."""
    from rnnsearch_fairseq.modules.fused.rnn import FusedEncoder

    encoder = FusedEncoder(8, sizes.embedding, sizes.hidden, padding_idx=1).to(DEVICE, dtype)
    words = torch.randn(sizes.pairs, sizes.words, sizes.embedding, device=DEVICE, dtype=dtype, requires_grad=True)
    both = [(encoder.forward_unit, False), (encoder.backward_unit, True)]
    given = [words, *(parameter for unit, _ in both for parameter in unit.parameters())]

    def forward() -> list[Tensor]:
        return [encoder.read(unit, words, None, backward) for unit, backward in both]

    return functools.partial(forward_and_back, forward, given, {})


def decoder_work(sizes: Sizes, dtype: torch.dtype) -> Callable[[], Sequence[Tensor]]:
    """The decoder's scan and its gradients, from embedded words, first state, annotations and keys."""
    from rnnsearch_fairseq.modules.attention import Memory
    from rnnsearch_fairseq.modules.fused.rnn import FusedDecoder

    widths = (sizes.embedding, sizes.hidden, 2 * sizes.hidden, sizes.alignment)
    decoder = FusedDecoder(8, *widths, maxout_size=2, pool_size=2, padding_idx=1).to(DEVICE, dtype)

    def randn(*shape: int) -> Tensor:
        return torch.randn(*shape, device=DEVICE, dtype=dtype, requires_grad=True)

    words, state = randn(sizes.words, sizes.pairs, sizes.embedding), randn(sizes.pairs, sizes.hidden)
    annotations = randn(sizes.pairs, sizes.words, 2 * sizes.hidden)
    memory = Memory(annotations, randn(sizes.pairs, sizes.words, sizes.alignment), None)

    def forward() -> list[Tensor]:
        found = decoder.scan(words, state, None, memory)
        return [found.read, found.contexts]

    attention = [decoder.attention.from_state.weight, decoder.attention.energy.weight]
    given = [words, state, annotations, memory.keys, *decoder.unit.parameters(), *attention]
    return functools.partial(forward_and_back, forward, given, {})


def forward_and_back(
    forward: Callable[[], Sequence[Tensor]], given: Sequence[Tensor], factors: dict[int, Tensor]
) -> Sequence[Tensor]:
    """The gradients of ``given``; the outputs' gradients are random numbers, drawn at the first call."""
    outputs = forward()
    for place, output in enumerate(outputs):
        if place not in factors:
            factors[place] = torch.randn_like(output)
    return torch.autograd.grad(outputs, given, [factors[place] for place in range(len(outputs))])


def time_scan(make: Callable[..., Callable[[], Any]], sizes: Sizes) -> dict[str, Any]:
    """The milliseconds of a scan, eager and as a graph."""
    work = make(sizes, torch.bfloat16)
    eager = 1e3 * seconds_of(work, sizes.repeats)
    graph = 1e3 * seconds_of(capture(work), sizes.repeats)
    return {"eager ms": eager, "graph ms": graph, "times as fast": eager / graph}


def compare_scan(make: Callable[..., Callable[[], Any]], sizes: Sizes) -> dict[str, Any]:
    """The largest difference between Triton's and PyTorch's gradients, relative to the norm.

    Raises:
        RuntimeError: the difference is larger than float32's rounding.
    """
    from rnnsearch_fairseq.modules.fused import kernels, rnn, triton_kernels

    work, found = make(sizes, torch.float32), []
    for chosen in (triton_kernels, kernels):
        with mock.patch.object(rnn, "_kernels_for", lambda tensor, chosen=chosen: chosen):
            found.append([gradient.double() for gradient in work()])
    largest = max(float((ours - theirs).norm() / theirs.norm()) for ours, theirs in zip(*found, strict=True))
    if not largest < 1e-3:
        raise RuntimeError(f"the gradients differ by {largest:.2g} of their norm")
    return {"relative difference": largest}


# translation


def translation(sizes: Sizes, out: Path) -> None:
    """Time the translation of two batches with random weights, so that each search reaches the longest length."""
    from recipes.benchmark.workloads import Translation, measure

    with tempfile.TemporaryDirectory() as folder:
        write_model(Path(folder), sizes)
        words = [folder, "--path", f"{folder}/model.pt", "--task", "translation", "-s", "source", "-t", "target"]
        words += ["--dataset-impl", "raw", "--gen-subset", "test", "--batch-size", str(sizes.pairs)]
        words += ["--max-len-a", "0", "--max-len-b", str(sizes.words)]
        for beam in (12, 1):
            work = Translation(f"beam of {beam}", [*words, "--beam", str(beam)], 2)
            for _ in range(min(sizes.rounds, 3)):
                measure([work], 1)
                median = statistics.median(work.timing.wall)
                steps = len(work.batches) * (sizes.words + 1)
                speed = {"sentences/s": work.timing.count / median, "ms a word": 1e3 * median / steps}
                record(work.timing.name, **speed)


def write_model(folder: Path, sizes: Sizes) -> None:
    """Write a checkpoint of random weights, its dictionaries, and two batches of random sentences as raw text."""
    from recipes.benchmark.setups import Setup, configure

    options = ["--arch", "bahdanau_gru", *sizes.options, *TRAINING, "--no-save-optimizer-state"]
    setup = Setup("model", configure("model", options, sizes.vocabulary), sizes.vocabulary)
    setup.trainer.save_checkpoint(str(folder / "model.pt"), {"train_iterator": {"epoch": 1}})
    for side, dictionary in zip(("source", "target"), setup.dictionaries):
        dictionary.save(str(folder / f"dict.{side}.txt"))
        numbers = torch.randint(dictionary.nspecial, len(dictionary), (2 * sizes.pairs, sizes.words - 1))
        lines = [" ".join(dictionary[number] for number in row) for row in numbers.tolist()]
        (folder / f"test.source-target.{side}").write_text("\n".join(lines) + "\n")


STEPS = {
    "versions": versions,
    "tests": tests,
    "updates": updates,
    "profile": profile,
    "micro": micro,
    "scans": scans,
    "large": large,
    "translation": translation,
    "memcheck": memcheck,
}


def main() -> None:
    """Run one step."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("step", choices=STEPS)
    parser.add_argument("--out", type=Path, required=True, help="folder for the step's files")
    parser.add_argument("--dry-run", action="store_true", help="tiny sizes")
    args = parser.parse_args()
    logging.disable(logging.INFO)
    torch.manual_seed(1)
    STEPS[args.step](TINY if args.dry_run else Sizes(), args.out)


if __name__ == "__main__":
    sys.exit(main())
