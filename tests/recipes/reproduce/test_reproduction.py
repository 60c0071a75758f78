"""What recipes/reproduce asks of fairseq's programs, for which others stand in."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = """#!/usr/bin/env bash
echo "$(basename "$0") $*" >> "$CALLS"
while [ $# -gt 1 ]; do
    case $1 in
        --destdir) mkdir -p "$2"; touch "$2"/dict.{en,fr}.txt ;;
        --save-dir) mkdir -p "$2"; touch "$2"/checkpoint_best.pt ;;
    esac
    shift
done
"""
ORIGINAL = "--search groundhog --unnormalized"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "recipes", tmp_path / "recipes", ignore=shutil.ignore_patterns("*.png"))
    with open(tmp_path / "recipes/setup.sh", "a") as setup:
        setup.write("set_up() { USER_DIR=plugin; }\n")
    (tmp_path / "bin").mkdir()
    for name in ("rnnsearch", "python", "fairseq-preprocess", "fairseq-train", "fairseq-generate"):
        (tmp_path / "bin" / name).write_text(PROGRAM)
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "text").mkdir()
    for name in ("train.en", "train.fr", "valid.en", "valid.fr", "test.en", "test.fr", "test.align"):
        (tmp_path / "text" / name).write_text(f"{name}\n")
    return tmp_path


def calls(checkout: Path, script: str, *words: str) -> list[str]:
    """The programs that a recipe calls, with their arguments."""
    environment = {**os.environ, "PATH": f"{checkout}/bin:{os.environ['PATH']}", "CALLS": f"{checkout}/calls"}
    command = ["bash", f"{checkout}/recipes/{script}", *words, "--out", f"{checkout}/out"]
    command += ["--", "--total-num-update", "BUDGET"]
    subprocess.run(command, cwd=checkout, env=environment, check=True, capture_output=True, timeout=60)
    return (checkout / "calls").read_text().splitlines()


def test_models_of_table_1_get_the_updates_of_table_2_and_both_searches(checkout: Path) -> None:
    text = ["--tokens", f"{checkout}/text", "--src", "en", "--trg", "fr"]
    called = calls(checkout, "reproduce/run.sh", *text, "--budget", "1000")
    trainings = [line for line in called if line.startswith("fairseq-train")]
    assert len(trainings) == 5
    assert all("--arch groundhog_search" in line for line in trainings)
    for line, updates, context, longest in zip(
        trainings, (1800, 1000, 2100, 1000), ("last", "attention") * 2, (30, 30, 50, 50)
    ):
        assert f"--max-update {updates} --context {context} --max-words {longest}" in line
        assert line.endswith(f"--total-num-update {updates}")
    assert "--patience 10 --context attention" in trainings[4] and trainings[4].endswith("--total-num-update 1000")
    translations = [line for line in called if line.startswith("fairseq-generate")]
    ends = [line.split("--batch-size 32")[1].strip() for line in translations]
    alone = [ORIGINAL, f"{ORIGINAL} --unkpen inf", ""]
    aligned = [f"{ORIGINAL} --print-alignment=soft", *alone[1:]]
    assert ends == alone + aligned + alone + aligned + aligned
    assert (checkout / "out/runs/data/test.align").read_text() == "test.align\n"
