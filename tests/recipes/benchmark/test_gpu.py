"""The measurements on a GPU: their order, limits and results, without a GPU. What a GPU is like, no test says."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
STEPS = ["versions", "tests", "updates", "profile", "products", "scans", "large", "model", "translation", "memcheck"]
# Stands in for Python: says which step it runs, and fails or hangs in some of them.
PYTHON = """#!/usr/bin/env bash
case "$*" in
    *is_available*) exit 1 ;;
    *collect_env*) echo "$PYTHONPATH" ;;
    *train*float32:*) echo half a table; echo why >&2; exit 3 ;;
    *profile*) echo first row; trap '' TERM; sleep infinity & echo $! > {child}; wait ;;
    *) echo "says ${{*: -1}}" ;;
esac
"""
# Stands in for timeout, with a limit of a second for the step that hangs.
TIMEOUT = """#!/usr/bin/env bash
[[ "$*" != *" profile "* ]] || set -- "$1" "$2" 1 "${{@:4}}"
exec {timeout} "$@"
"""


def measure_with(tmp_path: Path, *words: str) -> tuple[Path, str]:
    """Run gpu.sh with the stand-ins; returns the folder of results, and what it printed."""
    folder, out = tmp_path / "programs", tmp_path / "out"
    folder.mkdir()
    timeout = subprocess.run(["bash", "-c", "type -P timeout"], capture_output=True, text=True).stdout.strip()
    for name, text in (
        ("python", PYTHON.format(child=tmp_path / "child")),
        ("timeout", TIMEOUT.format(timeout=timeout)),
    ):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    variables = os.environ | {"PYTHON": str(folder / "python"), "PATH": f"{folder}:{os.environ['PATH']}"}
    command = ["bash", f"{ROOT}/recipes/benchmark/gpu.sh", "--out", str(out), *words]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and "not all steps ended well" in done.stderr, done.stderr
    return out, done.stdout


def test_a_step_that_fails_or_hangs_does_not_end_the_next(tmp_path: Path) -> None:
    out, printed = measure_with(tmp_path)
    results, log = (out / "results.md").read_text(), (out / "log.txt").read_text()
    assert results in printed and "a dry run: no number here is about a GPU" in results
    parts = {part.partition(":")[0]: part for part in results.split("\n## ")[1:]}
    assert list(parts) == STEPS
    assert f"{ROOT}:" in parts["versions"]
    assert "half a table\n\nupdates: failed with exit status 3: why, " in parts["updates"] and "why\n" in log
    assert re.search(r"first row\n\nprofile: killed, \d+ s", parts["profile"])
    for step in set(STEPS) - {"updates", "profile"}:
        assert f"\n\n{step}: ok, " in parts[step]
    assert "says test_softmax_of_large_energies" in parts["memcheck"]
    state = Path("/proc", (tmp_path / "child").read_text().strip(), "stat")
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_a_dry_run_takes_every_step(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = ["bash", f"{ROOT}/recipes/benchmark/gpu.sh", "--dry-run", "--limit", "3000"]
    variables = os.environ | {"PYTHON": sys.executable}
    done = subprocess.run([*command, "--out", out], env=variables, capture_output=True, text=True, timeout=3000)
    results, log = (out / "results.md").read_text(), (out / "log.txt").read_text()
    assert results in done.stdout
    for step in STEPS:
        assert f"\n{step}: ok, " in results, results + log
    for row in ("| bf16 |", "| encoder |", "| decoder |", "| beam of 12 |"):
        assert f"\n{row}" in results
    assert done.returncode == 0 and "passed" in results and "failed" not in results
    assert (out / "trace.json.gz").stat().st_size and (out / "profile.txt").stat().st_size
