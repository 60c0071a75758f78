"""The table of patches, how it is applied, and RNNSEARCH_PATCHES=none."""

import json
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rnnsearch_fairseq import patches
from rnnsearch_fairseq.patches import PATCHES
from tests.commands import PAPER, SEARCH, generate, preprocess, run, train

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "rnnsearch_fairseq" / "patches" / "README.md"
# Prints the targets that are not fairseq's own any more. The command of `python -m` is the module __main__.
REPORT = """
import json, pkgutil, sys
import fairseq_cli.train
targets = json.loads(sys.argv.pop())
before = {target: pkgutil.resolve_name(target) for target in targets}
import rnnsearch_fairseq
print(json.dumps([target for target in targets if pkgutil.resolve_name(target) is not before[target]]))
"""


def test_the_table_is_short_and_explained() -> None:
    """With "adadelta" of fairseq's registry, which the package's own replaces."""
    assert len(PATCHES) + 1 <= 15
    explained = re.findall(r"^\| `([\w.]+)` \|", README.read_text(encoding="utf-8"), re.MULTILINE)
    assert explained == [target.removeprefix("fairseq.") for target in [*PATCHES, "fairseq.optim.OPTIMIZER_REGISTRY"]]


@pytest.mark.parametrize("chosen", [None, "none"])
def test_the_variable_leaves_fairseq_as_it_is(chosen: str | None) -> None:
    environment = {name: value for name, value in os.environ.items() if name != patches.VARIABLE}
    environment |= {"PYTHONPATH": str(ROOT)} | ({} if chosen is None else {patches.VARIABLE: chosen})
    command = [sys.executable, "-c", REPORT, json.dumps([*PATCHES])]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == ([] if chosen else [*PATCHES])


@pytest.mark.patched
def test_a_second_call_changes_nothing() -> None:
    before = {target: pkgutil.resolve_name(target) for target in PATCHES}
    patches.apply()
    assert all(pkgutil.resolve_name(target) is before[target] for target in PATCHES)


@pytest.mark.slow
@pytest.mark.patched
def test_a_command_that_is_a_module_is_patched_and_ends_in_one_sentence(tmp_path: Path) -> None:
    words = ["-m", "fairseq_cli.train", tmp_path / "none", "--user-dir", ROOT / "rnnsearch_fairseq"]
    words += ["--arch", "bahdanau_gru", "--batch-size", "8", "--cpu", "--save-dir", tmp_path / "saved"]
    done = run("python", *words, "--task", "pooled_translation", cwd=tmp_path, status=1)
    assert re.search(r"^error: \S+none: no such folder of data, .*; give", done.stderr, re.MULTILINE)
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.train
def test_training_and_generation_do_without_patches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for part in ("train", "valid", "test"):
        for language in ("en", "fr"):
            (tmp_path / f"{part}.{language}").write_text("the cat sees a black horse .\na cat ( 3.14 )\n" * 8)
    monkeypatch.setenv(patches.VARIABLE, "none")
    preprocess(tmp_path, "bin", "--trainpref", "train", "--validpref", "valid", "--testpref", "test")
    words = ["--batch-size", "8", "--max-epoch", "1", "--cpu"]
    assert "done training" in train(tmp_path / "bin", tmp_path / "model", *SEARCH, *PAPER, *words)
    words = ["--batch-size", "8", "--max-len-b", "5", "--cpu"]
    translated = generate(tmp_path / "bin", tmp_path / "model/checkpoint1.pt", *words)
    assert sorted(translated.order) == list(range(16))
