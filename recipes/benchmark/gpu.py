"""Measurements that only gpu.sh takes: ``python -m recipes.benchmark.gpu STEP OUT [SIZES] 'NAME: OPTIONS' -- OPTIONS``

The words after OUT are those of ``python -m recipes.benchmark train``, with one setup; each step uses its model. A row
of a Markdown table is printed as soon as it is measured, so that a killed step keeps its results.
"""

import functools
import gzip
import json
import logging
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.profiler import ProfilerActivity, profile
from torch.utils.benchmark import Timer

from recipes.benchmark.cases import Case, parse_arguments
from recipes.benchmark.workloads import Training, finish, make_trainer
from rnnsearch_fairseq.modules.attention import Memory

GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if GPU else "cpu")
PROFILED = 3  # updates
PRODUCTS = 50  # one after the other, so that the GPU never waits for the next
Work = Callable[[], Any]


def print_rows(header: str, measurements: dict[str, Callable[[], str]]) -> int:
    """Print a row for each measurement; return 1 if one failed, which does not end the others."""
    columns = header.count("|") + 2
    print(f"| | {header} |\n{'|---' * columns}|", flush=True)
    failed = 0
    for name, take in measurements.items():
        try:
            cells = take()
        except Exception as error:
            traceback.print_exc()
            cells, failed = f"{type(error).__name__}, see log.txt", 1
        print(f"| {name} | {cells} |", flush=True)
    return failed


def seconds_of(work: Work) -> float:
    """The median time of ``work``, by torch's timer, which waits for the GPU."""
    return Timer("work()", globals={"work": work}, num_threads=torch.get_num_threads()).blocked_autorange().median


def run_profile(case: Case, out: Path) -> int:
    """Profile updates to ``profile.txt`` and ``trace.json.gz``, and count the kernels of an update."""
    training = Training(case.options, case.size, PROFILED)
    milliseconds = 1e3 * seconds_of(training.work) / PROFILED
    with profile(activities=[ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * GPU) as watched:
        training.work()
        finish()
    order = "self_cuda_time_total" if GPU else "self_cpu_time_total"
    (out / "profile.txt").write_text(watched.key_averages().table(sort_by=order, row_limit=60), encoding="utf-8")
    watched.export_chrome_trace(str(out / "trace.json.gz"))
    with gzip.open(out / "trace.json.gz", "rt", encoding="utf-8") as file:
        counts = count_events(json.load(file)["traceEvents"], PROFILED)
    counts = {"ms, not profiled": milliseconds, **counts}
    return print_rows("an update", {name: lambda count=count: f"{count:.4g}" for name, count in counts.items()})


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


def time_products(case: Case, out: Path) -> int:
    """Time linear layers in bf16, of one position's rows and of all positions'."""
    rows, vocabulary = case.size.batch, case.size.vocabulary or 0
    shapes = [(rows, width, 3000) for width in (500, 504, 620, 624)]
    shapes += [(rows * case.size.target, width, vocabulary) for width in (500, 504)]
    return print_rows(
        "µs | TFLOP/s", {f"{r} × {k} × {c}": functools.partial(time_product, r, k, c) for r, k, c in shapes}
    )


def time_product(rows: int, width: int, columns: int) -> str:
    """Time the product of inputs ``(rows, width)`` and a weight ``(columns, width)``, many times in a row."""
    inputs, weight = (torch.randn(length, width, device=DEVICE, dtype=torch.bfloat16) for length in (rows, columns))

    def work() -> None:
        for _ in range(PRODUCTS):
            F.linear(inputs, weight)

    seconds = seconds_of(work) / PRODUCTS
    return f"{1e6 * seconds:.4g} | {2 * rows * width * columns / seconds / 1e12:.4g}"


def time_scans(case: Case, out: Path) -> int:
    """Time the loops of encoder and decoder, forward and back in bf16."""
    model = make_trainer(case.options, case.size.vocabulary).model
    shape = (case.size.batch, case.size.source, case.size.target)
    works = {
        "encoder": encoder_work(model.encoder.network.to(DEVICE, torch.bfloat16), *shape),
        "decoder": decoder_work(model.decoder.network.to(DEVICE, torch.bfloat16), *shape),
    }
    return print_rows("ms", {name: lambda work=work: f"{1e3 * seconds_of(work):.4g}" for name, work in works.items()})


def randn(*shape: int) -> Tensor:
    """A leaf in bf16 that needs a gradient."""
    return torch.randn(*shape, device=DEVICE, dtype=torch.bfloat16, requires_grad=True)


def encoder_work(encoder: Any, pairs: int, source: int, target: int) -> Work:
    """The encoder and its gradients, from words."""
    words = torch.randint(4, encoder.embedding.table.num_embeddings, (pairs, source), device=DEVICE)
    return gradients_of(lambda: [encoder(words)[0]], list(encoder.parameters()))


def decoder_work(decoder: Any, pairs: int, source: int, target: int) -> Work:
    """The decoder's scan and its gradients, from embedded words, first state, annotations and keys."""
    size, alignment = decoder.unit.hidden_size, decoder.attention.energy.in_features
    words, state = randn(target, pairs, decoder.embedding.table.embedding_dim), randn(pairs, size)
    annotations, keys = randn(pairs, source, 2 * size), randn(pairs, source, alignment)

    def forward() -> Sequence[Tensor]:
        return decoder.scan(words, state, None, Memory(annotations, keys, None))[:2]

    attention = [decoder.attention.from_state.weight, decoder.attention.energy.weight]
    return gradients_of(forward, [words, state, annotations, keys, *decoder.unit.parameters(), *attention])


def gradients_of(forward: Callable[[], Sequence[Tensor]], inputs: Sequence[Tensor]) -> Work:
    """Compute the gradients of ``inputs``, for fixed random gradients of the outputs."""
    factors = [torch.randn_like(output) for output in forward()]
    return lambda: torch.autograd.grad(forward(), inputs, factors)


def write_model(case: Case, out: Path) -> int:
    """Write a checkpoint of random weights, its dictionaries, and two batches of random sentences as raw text."""
    trainer = make_trainer([*case.options, "--no-save-optimizer-state"], case.size.vocabulary)
    trainer.save_checkpoint(str(out / "model.pt"), {"train_iterator": {"epoch": 1}})
    task = trainer.task
    for side, dictionary in (("source", task.source_dictionary), ("target", task.target_dictionary)):
        dictionary.save(str(out / f"dict.{side}.txt"))
        numbers = torch.randint(dictionary.nspecial, len(dictionary), (2 * case.size.batch, case.size.source - 1))
        lines = [" ".join(dictionary[number] for number in row) for row in numbers.tolist()]
        (out / f"test.source-target.{side}").write_text("\n".join(lines) + "\n")
    return 0


STEPS = {
    "profile": run_profile,
    "products": time_products,
    "scans": time_scans,
    "model": write_model,
}


def main() -> int:
    """Run one step; returns its exit status."""
    step, out, *words = sys.argv[1:]
    logging.disable(logging.INFO)
    torch.manual_seed(1)
    (case,) = parse_arguments(["train", *words]).cases
    return STEPS[step](case, Path(out))


if __name__ == "__main__":
    sys.exit(main())
