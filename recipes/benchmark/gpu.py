"""Run the steps of a measurement on a GPU one after another: gpu.sh calls this.

Each step is a process of its own with a limit in seconds: a step that fails, hangs or loses the GPU does not end the
next. Nothing here imports PyTorch. The results are written anew after each step.
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

LEAST = 5  # seconds that must be left for a step to begin
LAST_WORDS = 10  # seconds that a process has to vanish once it is killed
PATIENCE = 5  # times as long may a step of a dry run take, on a processor that others use
PROBE = "import torch; raise SystemExit(not torch.cuda.is_available())"


@dataclass(frozen=True)
class Step:
    """A command and the seconds that it may take, all that are left if ``limit`` is None.

    ``environment`` goes on top of that of all steps.
    """

    name: str
    tells: str
    limit: float | None
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)


def make_steps(out: Path, wheels: Path | None, site: Path, dry_run: bool) -> list[Step]:
    """All steps, in the order in which they run.

    Args:
        out: folder for the files that a step leaves.
        wheels: folder of the wheels to install, if any, into ``site``.
    """

    def measure(name: str) -> list[str]:
        words = [sys.executable, "-m", "recipes.benchmark.gpu_measure", name, "--out", str(out)]
        return words + ["--dry-run"] * dry_run

    def step(name: str, tells: str, limit: int | None, environment: Mapping[str, str] | None = None) -> Step:
        seconds = limit and limit * (PATIENCE if dry_run else 1)
        return Step(name, tells, seconds, measure(name), environment or {})

    kernels = {"TRITON_INTERPRET": "1"} if dry_run else {}
    steps = []
    if wheels:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        offline = ["--no-index", "--no-deps", "--no-compile", "--no-cache-dir", "--upgrade", "--target", str(site)]
        files = sorted(map(str, wheels.glob("*.whl")))
        steps.append(Step("wheels", "installs what PyTorch's Python lacks", 30, [*pip, *offline, *files]))
    # Without its own memory pool, PyTorch asks CUDA for each tensor, and the checker sees where each one ends.
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
    """compute-sanitizer, which a CUDA toolkit may have outside of PATH."""
    places = [os.environ.get("PATH", ""), "/usr/local/cuda/bin", "/usr/local/cuda/compute-sanitizer"]
    return shutil.which("compute-sanitizer", path=os.pathsep.join(places)) or "compute-sanitizer"


def run_steps(steps: Sequence[Step], out: Path, limit: float, environment: Mapping[str, str], **facts: Any) -> None:
    """Run the steps until ``limit`` seconds are over, and write ``results.json`` and ``results.md`` after each.

    Args:
        out: folder of the results; ``log.txt`` there gets what the steps print.
        environment: of all steps.
        facts: what else is to stand in the results.
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
    """Run a step, kill all that is left of it after ``limit`` seconds, and give its status and results.

    The step reports by lines of JSON in the file that the variable RECORDS names: see ``gpu_measure.record``.
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
    """The exit status of a process that leads a session, None if it did not end in time; its session is killed."""
    try:
        return process.wait(limit)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):  # a process inside the driver may outlive its signal
            process.wait(LAST_WORDS)


def read_records(path: Path) -> dict[str, dict[str, Any]]:
    """What a step has recorded, by name; the last record of a name counts. A line that was cut off is left out."""
    found: dict[str, dict[str, Any]] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        with contextlib.suppress(json.JSONDecodeError):
            record = json.loads(line)
            found[record.pop("name")] = record
    return found


def last_line(log: Path, begin: int) -> str:
    """The last line in the log from byte ``begin`` on that is not empty."""
    with open(log, "rb") as file:
        file.seek(begin)
        lines = [line.strip() for line in file.read().decode(errors="replace").splitlines()]
    return next((line for line in reversed(lines) if line), "")


def decide(steps: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The questions of the design, each with what was measured, the answer, and what follows from a yes."""

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
    """As JSON and as Markdown."""
    (out / "results.json").write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (out / "results.md").write_text(report(results), encoding="utf-8")


def report(results: Mapping[str, Any]) -> str:
    """The results as Markdown: the steps, what each has measured, and the decisions."""
    kind = "a dry run: no number here says anything of a GPU" if results.get("dry_run") else "on a GPU"
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
    """In Markdown, a row a line."""
    clean = [[re.sub(r"\s+", " ", cell).replace("|", "\\|") for cell in row] for row in [header, *rows]]
    lines = [f"| {' | '.join(row)} |" for row in clean]
    return "\n".join([lines[0], "|---" * len(header) + "|", *lines[1:]])


def show(value: Any) -> str:
    """A number to three digits at least, nothing for None, anything else as it is."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def has_gpu() -> bool:
    """Whether this Python's PyTorch finds one."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        return subprocess.run([sys.executable, "-c", PROBE], capture_output=True, timeout=60).returncode == 0
    return False


def main() -> None:
    """Run all steps, and print the report."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    parser.add_argument("--wheels", type=Path, help="folder of wheels to install first")
    parser.add_argument("--limit", type=float, required=True, help="seconds of all steps together")
    parser.add_argument("--dry-run", action="store_true", help="tiny sizes, on the processor")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # so that the step which runs is killed, too
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
