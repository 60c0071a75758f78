"""What fairseq does without the plugin, it does with it: its own tests."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FAIRSEQ_TESTS = ROOT.parent / "shared" / "peer" / "fairseq-tests"
# Of these, those that take long or that only the data format needs are left out.
SOME = ("checkpoint_utils", "iterators", "label_smoothing", "sequence_generator", "sequence_scorer", "train")


def run_fairseq_tests(*words: str) -> dict[str, str]:
    """The outcome of each test: PASSED, FAILED, ..."""
    command = ["python", "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=FAIRSEQ_TESTS, env=environment, capture_output=True, text=True, timeout=500)
    return {test: outcome for outcome, test in re.findall(r"^(PASSED|FAILED|ERROR) (tests/\S+)", done.stdout, re.M)}


@pytest.mark.slow
@pytest.mark.skipif(not FAIRSEQ_TESTS.is_dir(), reason=f"fairseq's own tests are not in {FAIRSEQ_TESTS}")
def test_what_fails_with_the_plugin_fails_without_it() -> None:
    pytest.importorskip("parameterized")
    files = [f"tests/test_{name}.py" for name in SOME]
    loaded = run_fairseq_tests("-p", "fairseq", "-p", "rnnsearch_fairseq", *files)
    failed = [test for test, outcome in loaded.items() if outcome != "PASSED"]
    assert len(loaded) - len(failed) > 30
    assert not failed or "PASSED" not in run_fairseq_tests(*failed).values(), failed
