"""The recipes run, are stopped, and go on."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from rnnsearch_fairseq.analysis.train_log import read_train_log
from rnnsearch_fairseq.data.grammar import write_corpus

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[1]
WAIT = 300  # seconds, of a slow machine
TINY = [*("--embedding-size", "8", "--hidden-size", "8", "--alignment-size", "8", "--maxout-size", "8")]
TINY += [*("--optimizer", "adam", "--lr", "0.01", "--cpu", "--num-workers", "0")]


@pytest.mark.skipif(not (ROOT / ".venv/.installed").exists(), reason="recipes/setup.sh has not made .venv here")
def test_reproduce_is_killed_and_goes_on(tmp_path: Path) -> None:
    write_corpus(tmp_path / "text", {"train": 300, "valid": 10, "test": 30})
    out = tmp_path / "out"
    command = ["bash", f"{ROOT}/recipes/reproduce/run.sh", "--tokens", tmp_path / "text", "--src", "en", "--trg", "fr"]
    command += ["--models", "RNNencdec-30,RNNsearch-50", "--budget", "40", "--interval", "2", "--words", "200"]
    command += ["--rare", "20", "--out", out, "--", *TINY]
    log = out / "runs/RNNencdec-30/train.log"
    kept = kill_after_a_checkpoint(command, log)
    subprocess.run(command, check=True, timeout=WAIT)

    (resumed,) = map(int, re.findall(r"Loaded checkpoint .* @ (\d+) updates", log.read_text()))
    assert kept <= resumed < 40
    for model in ("RNNencdec-30", "RNNsearch-50"):
        assert read_train_log(out / "runs" / model / "train.log")[-1].updates == 40
    report = (out / "report/report.md").read_text()
    best = "RNNsearch-50"
    for name in ("RNNencdec-30", best, f"{best}, rare words copied", f"{best}, rare words looked up"):
        assert re.search(rf"\| {name} \| \d+\.\d\d \| \d+\.\d\d \|", report)
    assert re.search(r"\| RNNsearch-50 \| \d+\.\d\d \|", report.partition("Alignment error rate")[2])


def kill_after_a_checkpoint(command: list[object], log: Path) -> int:
    """Kill a recipe, and all it has started, in training; returns the updates of the last checkpoint of its log."""
    started = subprocess.Popen(list(map(str, command)), start_new_session=True)
    try:
        for _ in range(10 * WAIT):
            saved = re.findall(r"Saved checkpoint .* @ (\d+) updates", log.read_text() if log.exists() else "")
            if saved:
                return int(saved[-1])
            assert started.poll() is None
            time.sleep(0.1)
        raise AssertionError("no checkpoint")
    finally:
        os.killpg(started.pid, signal.SIGKILL)
        started.wait()
