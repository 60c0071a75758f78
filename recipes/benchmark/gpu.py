"""Run the steps of a measurement on a GPU in turn; called by gpu.sh.

Each step is a process with a time limit, so a step that fails, hangs or loses the GPU does not affect the next. This
module does not import PyTorch. Results are written after each step.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

LEAST = 5  # a step begins only if this many seconds are left
SECONDS_TO_DIE = 10  # wait for a killed process
DRY_RUN_FACTOR = 5  # times a step's limit, for a dry run on a busy processor
PROBE = "import torch; raise SystemExit(not torch.cuda.is_available())"


@dataclass(frozen=True)
class Step:
    """A command and its limit in seconds; None: all the time that is left.

    ``environment`` is added to the common environment.
    """

    name: str
    tells: str
    limit: float | None
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)


def make_steps(out: Path, wheels: Path | None, site: Path, dry_run: bool) -> list[Step]:
    """Make all steps, in order.

    Args:
        out: folder for the steps' files.
        wheels: folder of wheels to install into ``site``, if any.
    """

    def measure(name: str) -> list[str]:
        words = [sys.executable, "-m", "recipes.benchmark.gpu_measure", name, "--out", str(out)]
        return words + ["--dry-run"] * dry_run

    def step(name: str, tells: str, limit: int | None, environment: Mapping[str, str] | None = None) -> Step:
        seconds = limit and limit * (DRY_RUN_FACTOR if dry_run else 1)
        return Step(name, tells, seconds, measure(name), environment or {})

    kernels = {"TRITON_INTERPRET": "1"} if dry_run else {}
    steps = []
    if wheels:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        offline = ["--no-index", "--no-deps", "--no-compile", "--no-cache-dir", "--upgrade", "--target", str(site)]
        files = sorted(map(str, wheels.glob("*.whl")))
        steps.append(Step("wheels", "installs missing packages", 30, [*pip, *offline, *files]))
    # Without PyTorch's memory pool, each tensor is a CUDA allocation, so the checker knows its bounds.
    unpooled = {**kernels, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    checker = [] if dry_run else [find_sanitizer(), "--tool", "memcheck", "--error-exitcode", "9"]
    last = step("memcheck", "the kernels' memory accesses, checked", None, unpooled)
    return [
        *steps,
        step("versions", "machine and libraries", 20),
        step("tests", "tests of the kernels and scans", 90, kernels),
        step("updates", "updates of the paper's model, 80 pairs of 28 words", 150),
        step("profile", "where an update goes", 40),
        step("micro", "single products, a grid barrier, a kernel in a graph", 60, kernels),
        step("scans", "the loops over words, forward and back", 60, kernels),
        step("large", "updates of 1,280 pairs of 28 words", 40),
        step("translation", "translation with a beam of 12", 60),
        replace(last, command=[*checker, *last.command]),
    ]


def find_sanitizer() -> str:
    """Find compute-sanitizer, which may be in a CUDA toolkit outside PATH."""
    places = [os.environ.get("PATH", ""), "/usr/local/cuda/bin", "/usr/local/cuda/compute-sanitizer"]
    return shutil.which("compute-sanitizer", path=os.pathsep.join(places)) or "compute-sanitizer"


def run_steps(steps: Sequence[Step], out: Path, limit: float, environment: Mapping[str, str], **facts: Any) -> None:
    """Run the steps until ``limit`` seconds are over, and write ``results.json`` and ``results.md`` after each.

    Args:
        out: folder of the results; the steps' output goes to ``log.txt`` there.
        environment: the common environment of all steps.
        facts: further entries of the results.
    """
    started = time.monotonic()
    results: dict[str, Any] = {**facts, "limit_s": round(limit, 1), "steps": {}}
    (out / "log.txt").write_text("")
    for step in steps:
        left = limit - (time.monotonic() - started)
        if left < LEAST:
            outcome: dict[str, Any] = {"status": "dropped", "reason": "no time was left", "results": {}}
        else:
            own = left if step.limit is None else min(step.limit, left)
            outcome = run_step(step, out / "log.txt", own, {**environment, **step.environment})
        results["steps"][step.name] = {"tells": step.tells, **outcome}
        results["seconds"] = round(time.monotonic() - started, 1)
        results["decisions"] = decide({} if results.get("dry_run") else results["steps"])
        write_results(out, results)
        print(f"{step.name}: {outcome['status']} {outcome.get('reason', '')}".rstrip(), flush=True)


def run_step(step: Step, log: Path, limit: float, environment: Mapping[str, str]) -> dict[str, Any]:
    """Run a step, kill its processes after ``limit`` seconds, and return its status and results.

    The step writes results as lines of JSON to the file in the variable RECORDS; see ``gpu_measure.record``.
    """
    print(f"\n== {step.name}: {step.tells}; at most {limit:.0f} s", flush=True)
    began, said = time.monotonic(), log.stat().st_size
    with tempfile.TemporaryDirectory() as folder, open(log, "ab") as out:
        records = Path(folder, "records")
        out.write(f"\n== {step.name}\n".encode())
        out.flush()
        variables = {**os.environ, "PYTHONUNBUFFERED": "1", **environment, "RECORDS": str(records)}
        try:
            process = subprocess.Popen(
                step.command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=variables, start_new_session=True
            )
        except OSError as error:
            return {"status": "failed", "reason": str(error), "seconds": 0.0, "limit_s": limit, "results": {}}
        status = wait_or_kill(process, limit)
        results = read_records(records)
    wrong = [name for name, result in results.items() if "error" in result]
    if status is None:
        outcome = {"status": "timed out", "reason": f"killed after {limit:.0f} s"}
    elif status:
        outcome = {"status": "failed", "reason": f"exit status {status}: {last_line(log, said)}"}
    elif wrong:
        outcome = {"status": "failed", "reason": "; ".join(f"{name}: {results[name]['error']}" for name in wrong)}
    else:
        outcome = {"status": "ok"}
    return {**outcome, "seconds": round(time.monotonic() - began, 1), "limit_s": round(limit, 1), "results": results}


def wait_or_kill(process: subprocess.Popen, limit: float) -> int | None:
    """Wait for a session leader; return its exit status, or None after ``limit`` seconds, and kill its session."""
    try:
        return process.wait(limit)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):  # a process inside the driver may not die
            process.wait(SECONDS_TO_DIE)


def read_records(path: Path) -> dict[str, dict[str, Any]]:
    """Read a step's records by name; the last record of a name counts, and incomplete lines are skipped."""
    found: dict[str, dict[str, Any]] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        with contextlib.suppress(json.JSONDecodeError):
            record = json.loads(line)
            found[record.pop("name")] = record
    return found


def last_line(log: Path, begin: int) -> str:
    """The last non-empty line in the log from byte ``begin`` on."""
    with open(log, "rb") as file:
        file.seek(begin)
        lines = [line.strip() for line in file.read().decode(errors="replace").splitlines()]
    return next((line for line in reversed(lines) if line), "")


def decide(steps: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Answer the design questions from the measurements, each with the consequence of a yes."""

    def find(step: str, result: str, number: str) -> float | None:
        return steps.get(step, {}).get("results", {}).get(result, {}).get(number)

    def answer(question: str, measured: float | None, unit: str, bound: Callable[[float], bool], then: str) -> Any:
        told = "not measured" if measured is None else "yes" if bound(measured) else "no"
        return {"question": question, "measured": measured, "unit": unit, "answer": told, "if yes": then}

    scans = [find("scans", name, "graph ms") for name in ("encoder", "decoder")]
    barriers = [find("micro", f"grid barrier, polled by {how}", "us") for how in ("load", "atomic")]
    plain, padded = (find("micro", f"80 x {width} x 3000", "us") for width in (500, 504))
    return [
        answer(
            "both scans under a graph take at most 3.2 ms",
            None if None in scans else sum(filter(None, scans)),
            "ms",
            lambda time: time <= 3.2,
            "designs A and B: fewer kernels, and CUDA graphs",
        ),
        answer(
            "a grid barrier takes at most 1.5 us",
            min((time for time in barriers if time is not None), default=None),
            "us",
            lambda time: time <= 1.5,
            "design C: persistent scans",
        ),
        answer(
            "a product with K = 504 is over 1.3 times as fast as with K = 500",
            plain / padded if plain and padded else None,
            "times",
            lambda ratio: ratio > 1.3,
            "pad l = 500 to 504 and m = 620 to 624",
        ),
    ]


def write_results(out: Path, results: Mapping[str, Any]) -> None:
    """Write the results as JSON and as Markdown."""
    (out / "results.json").write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (out / "results.md").write_text(report(results), encoding="utf-8")


def report(results: Mapping[str, Any]) -> str:
    """Format the results as Markdown: the steps, their measurements, and the decisions."""
    kind = "a dry run: no number here is about a GPU" if results.get("dry_run") else "on a GPU"
    parts = [f"# Measurements of {results.get('date')}, {kind}", f"In {results['seconds']} of {results['limit_s']} s."]
    rows = [
        [name, step["status"], show(step.get("seconds")), show(step.get("limit_s")), step.get("reason", "")]
        for name, step in results["steps"].items()
    ]
    parts.append(table(["step", "status", "seconds", "limit", "reason"], rows))
    for name, step in results["steps"].items():
        found = step["results"]
        columns = list(dict.fromkeys(column for result in found.values() for column in result))
        if found:
            parts.append(f"## {name}: {step['tells']}")
            cells = [[key, *(show(result.get(column)) for column in columns)] for key, result in found.items()]
            parts.append(table(["", *columns], cells))
    parts.append("## Decisions")
    keys = ["question", "measured", "unit", "answer", "if yes"]
    parts.append(table(keys, [[show(decision[key]) for key in keys] for decision in results["decisions"]]))
    return "\n\n".join(parts) + "\n"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format a Markdown table."""
    clean = [[re.sub(r"\s+", " ", cell).replace("|", "\\|") for cell in row] for row in [header, *rows]]
    lines = [f"| {' | '.join(row)} |" for row in clean]
    return "\n".join([lines[0], "|---" * len(header) + "|", *lines[1:]])


def show(value: Any) -> str:
    """Format a number with at least three digits, None as nothing, anything else as it is."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def has_gpu() -> bool:
    """Whether this Python's PyTorch finds a GPU."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        return subprocess.run([sys.executable, "-c", PROBE], capture_output=True, timeout=60).returncode == 0
    return False


def main() -> None:
    """Run all steps, and print the report."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    parser.add_argument("--wheels", type=Path, help="folder of wheels to install first")
    parser.add_argument("--limit", type=float, required=True, help="seconds for all steps together")
    parser.add_argument("--dry-run", action="store_true", help="tiny sizes, on the processor")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # so that the running step is killed, too
    began = time.monotonic()
    dry_run = args.dry_run or not has_gpu()
    with tempfile.TemporaryDirectory() as site:
        places = [os.getcwd(), site, *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {"PYTHONPATH": os.pathsep.join(places)}
        if dry_run:
            environment["CUDA_VISIBLE_DEVICES"] = ""
        steps = make_steps(args.out, args.wheels, Path(site), dry_run)
        facts = {"date": datetime.now().isoformat(" ", "minutes"), "dry_run": dry_run}
        run_steps(steps, args.out, args.limit - (time.monotonic() - began), environment, **facts)
    print(f"\n{(args.out / 'results.md').read_text(encoding='utf-8')}")


if __name__ == "__main__":
    main()
