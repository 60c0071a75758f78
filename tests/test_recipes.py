"""The recipes say what they do, keep off folders that are not theirs, run, are stopped, and go on."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from recipes.grammar import write_corpus
from recipes.reproduce.epochs import read_train_log
from tests.plots.builders import SIMPLE

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[1]
WAIT = 300  # seconds, of a slow machine
TINY = [*("--embedding-size", "8", "--hidden-size", "8", "--alignment-size", "8", "--maxout-size", "8")]
TINY += [*("--optimizer", "adam", "--lr", "0.01", "--cpu", "--num-workers", "0", "--log-interval", "10")]
CALLED = [
    path
    for path in [*sorted(ROOT.glob("recipes/**/*.sh")), ROOT / "tests/run.sh"]
    if path.read_text(encoding="utf-8").startswith("#!")
]
# Those that write to a folder, each with the options that come before it.
WITH_DATA = ["--data", "data", "--out"]
WRITERS = {
    "recipes/quickstart.sh": ["--out"],
    "recipes/docs_en_fr/model.sh": WITH_DATA,
    "recipes/docs_en_fr/run.sh": WITH_DATA,
    "recipes/multi30k_en_fr/best.sh": WITH_DATA,
    "recipes/multi30k_en_fr/reproduce.sh": WITH_DATA,
    "recipes/multi30k_en_fr/run.sh": WITH_DATA,
    "recipes/reproduce/adadelta.sh": ["--out"],
    "recipes/reproduce/grammar.sh": ["--out"],
    "recipes/reproduce/long_sentences.sh": ["--out"],
    "recipes/reproduce/run.sh": ["--src", "en", "--trg", "fr", *WITH_DATA],
    "recipes/tanaka_en_ja/run.sh": WITH_DATA,
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The recipes, their data, and in place of the programs that they call some that fail: each leaves a file that says
    so in ``touched``.
    """
    shutil.copytree(ROOT / "recipes", tmp_path / "recipes", ignore=shutil.ignore_patterns("*.png", "*.safetensors"))
    (tmp_path / "tests").mkdir()
    shutil.copy(ROOT / "tests/run.sh", tmp_path / "tests")
    (tmp_path / "pyproject.toml").touch()
    parts = ("train", "dev", "val", "valid", "test", "test_2016_flickr")
    names = [f"{part}.{side}" for part in parts for side in ("en", "fr", "ja")]
    for path in ("bin", "data", "runs/grammar/text", "touched"):
        (tmp_path / path).mkdir(parents=True)
    for name in names:
        (tmp_path / "data" / name).write_text("a b c\n")
        (tmp_path / "runs/grammar/text" / name).write_text("a b c\n")
    (tmp_path / "runs/grammar/text/.done").touch()
    for name in ("python", "python3", "rnnsearch", "fairseq-preprocess", "fairseq-train", "ruff", "lmplz", "curl"):
        program = tmp_path / "bin" / name
        program.write_text(f"#!/usr/bin/env bash\ntouch {tmp_path}/touched/{name}\nexit 1\n")
        program.chmod(0o755)
    return tmp_path


def call(checkout: Path, script: str, *words: str, status: int) -> str:
    """What a recipe prints that ends with ``status``."""
    path = f"{checkout}/bin:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHON": "python", "OUT": f"{checkout}/unasked"}
    done = subprocess.run(
        ["bash", str(checkout / script), *words], cwd=checkout, env=environment, capture_output=True, timeout=WAIT
    )
    printed = done.stdout.decode() + done.stderr.decode()
    assert done.returncode == status, printed
    return printed


def be_set_up(checkout: Path) -> None:
    with open(checkout / "recipes/setup.sh", "a") as setup:
        setup.write("set_up() { USER_DIR=plugin; }\n")


def test_every_recipe_that_writes_is_tested() -> None:
    reading = {"recipes/setup.sh", "tests/run.sh"}  # what they write, others do
    reading.add("recipes/reproduce/phrase_based.sh")  # it goes on in the folder of run.sh
    assert {str(path.relative_to(ROOT)) for path in CALLED} == reading | WRITERS.keys()


@pytest.mark.parametrize("path", CALLED, ids=lambda path: str(path.relative_to(ROOT)))
def test_help_tells_how_a_recipe_is_called_and_does_nothing_else(checkout: Path, path: Path) -> None:
    script = str(path.relative_to(ROOT))
    before = sorted(checkout.rglob("*"))
    printed = call(checkout, script, "--out", "folder", "--help", status=0)
    assert re.search(rf"^  .*{re.escape(script)}", printed, re.MULTILINE), printed
    head = re.match(r"#!.*\n(?:#SBATCH.*\n)*((?:#.*\n)+)", path.read_text(encoding="utf-8"))
    assert head and printed == re.sub("^# ?", "", head[1], flags=re.MULTILINE)
    assert sorted(checkout.rglob("*")) == before


def test_setup_installs_when_it_is_called_itself(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no Python 3.10 to 3.14" in call(checkout, "recipes/setup.sh", status=1)
    installed = checkout / ".venv/.installed"
    installed.parent.mkdir()
    installed.write_text("torch " + subprocess.check_output(["cksum"], stdin=subprocess.DEVNULL, text=True))
    monkeypatch.setenv("TORCH", "torch")
    assert "source .venv/bin/activate" in call(checkout, "recipes/setup.sh", status=0)


def test_setup_takes_the_first_python_that_works(tmp_path: Path) -> None:
    for name, program in (("python3.11", "false"), ("python3.13", sys.executable), ("python3.10", sys.executable)):
        (tmp_path / name).write_text(f'#!/bin/sh\nexec {program} "$@"\n')
        (tmp_path / name).chmod(0o755)
    assert sourced(f"PATH={tmp_path} find_python", tmp_path) == "python3.13\n"


@pytest.mark.parametrize("script", WRITERS)
def test_a_recipe_writes_to_a_folder_of_its_own_only(checkout: Path, script: str) -> None:
    be_set_up(checkout)
    touched = checkout / "touched"
    # The corpus of grammar.sh is there: that the program fails shows no more than that it goes on to run.sh.
    assert "unknown option --colour" in call(checkout, script, *WRITERS[script][:-1], "--colour", "red", status=1)
    theirs = checkout / "their folder"
    theirs.mkdir()
    (theirs / "thesis.tex").write_text("years of work\n")
    printed = call(checkout, script, *WRITERS[script], str(theirs), status=1)
    assert "has files, and no mark" in printed
    assert [path.name for path in theirs.iterdir()] == ["thesis.tex"]
    assert not any(touched.iterdir()) and not (checkout / "red").exists()
    own = checkout / "own folder"
    own.mkdir()
    for _ in range(2):  # the second call finds the folder of the first
        call(checkout, script, *WRITERS[script], str(own), status=1)  # by the first of the programs
        assert any(touched.iterdir())
        shutil.rmtree(touched)
        touched.mkdir()
    (own / ".made-by").write_text("another\n")
    assert "a folder of the recipe another" in call(checkout, script, *WRITERS[script], str(own), status=1)
    assert not any(touched.iterdir())


def sourced(script: str, cwd: Path, stdin: str = "") -> str:
    """What a script prints that begins with the functions of setup.sh."""
    script = f"source {ROOT}/recipes/setup.sh; {script}"
    return subprocess.run(
        ["bash", "-c", script], cwd=cwd, input=stdin, check=True, capture_output=True, text=True, timeout=WAIT
    ).stdout


def test_translations_come_in_the_order_of_the_sources(tmp_path: Path) -> None:
    generated = tmp_path / "generated"
    generated.write_text("S-10\tten\nH-10\t-1.0\tx y\nD-10\t-1.0\tX y\nH-2\t-0.5\tun@@ e\n")
    assert sourced(f"translations {generated}", tmp_path) == "un@@ e\nx y\n"


def test_after_a_failure_no_more_models_are_trained(tmp_path: Path) -> None:
    train = "set -euo pipefail; { echo $*; [ $1 != b ]; } | cat; echo trained $1"
    script = f"train() {{ {train}; }}; export -f train; each_line 1 train || echo ended"
    assert sourced(script, tmp_path, "a 1  2\nb\nc\n") == "a 1 2\ntrained a\nb\nended\n"
    assert sourced(script, tmp_path, "a\nc\n") == "a\ntrained a\nc\ntrained c\n"


def test_short_lines_are_shown_and_all_are_kept(tmp_path: Path) -> None:
    expected = "update 100 | perplexity 548.7 | 3300 words/s", "update 363 | valid perplexity 304.2"
    assert sourced("show_progress log", tmp_path, SIMPLE).splitlines() == [f"  {line}" for line in expected]
    named = sourced("show_progress log runs/a-b", tmp_path, SIMPLE).splitlines()
    assert named == [f"  runs/a-b: {line}" for line in expected]
    assert (tmp_path / "log").read_text() == 2 * SIMPLE
    assert sourced("show_progress log", tmp_path, "nothing\n") == ""


def test_programs_of_the_recipes_run_in_any_folder(tmp_path: Path) -> None:
    for name in ("reference", "hypothesis"):
        (tmp_path / name).write_text("a b c d\n")
    path = f"PATH={Path(sys.executable).parent}:$PATH"
    printed = sourced(f"{path}; tool reproduce.token_scores reference hypothesis", tmp_path)
    assert printed == "hypothesis\tBLEU 100.00\tRIBES 100.00\n"


def test_the_commands_for_a_model_can_be_pasted(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """At the top of the checkout, wherever the recipe was called, and wherever it wrote."""
    away = tmp_path_factory.mktemp("away")
    (checkout / ".venv/bin").mkdir(parents=True)
    (checkout / ".venv/bin/activate").write_text(f"PATH={checkout}/bin:$PATH\n")
    (checkout / "bin/rnnsearch").write_text('#!/usr/bin/env bash\nprintf "%s\\n" "$@"\n')
    outside = away / "own out"
    for out, shown in ((checkout / "runs/own out", Path("runs/own out")), (Path("own out"), outside)):
        script = f'OUT="{out}"; source "$ROOT/recipes/tree_models.sh"; show_tree_model "$OUT/a.pt:$OUT/b.pt"'
        script = f"source {checkout}/recipes/setup.sh; {script}"
        printed = subprocess.run(["bash", "-c", script], cwd=away, check=True, capture_output=True, text=True).stdout
        commands = "".join(re.findall(r"^  .*\n", printed, re.MULTILINE))
        done = subprocess.run(["bash", "-ec", commands], cwd=checkout, check=True, capture_output=True, text=True)
        words = ["--model", f"{shown}/a.pt:{shown}/b.pt", "--search", "tree2seq", "--beam", "20", "--max-len-b", "100"]
        words += ["--length-statistics", f"{shown}/lengths"]
        assert done.stdout.splitlines() == ["translate", *words, "serve", *words]


@pytest.mark.skipif(not (ROOT / ".venv/.installed").exists(), reason="recipes/setup.sh has not made .venv here")
def test_reproduce_is_killed_and_goes_on(tmp_path: Path) -> None:
    write_corpus(tmp_path / "text", {"train": 300, "valid": 10, "test": 30})
    out = tmp_path / "out"
    command = ["bash", f"{ROOT}/recipes/reproduce/run.sh", "--tokens", tmp_path / "text", "--src", "en", "--trg", "fr"]
    command += ["--models", "RNNencdec-30,RNNsearch-50", "--budget", "40", "--interval", "2", "--words", "200"]
    command += ["--rare", "20", "--out", out, "--", *TINY]
    log = out / "runs/RNNencdec-30/train.log"
    kept = kill_after_a_checkpoint(command, log)
    printed = subprocess.run(command, check=True, timeout=WAIT, capture_output=True, text=True).stdout
    assert re.search(r"^  RNNsearch-50: update 40 \| valid perplexity [\d,.]+$", printed, re.MULTILINE)
    (translate,) = re.findall(r"^  rnnsearch translate .*", printed, re.MULTILINE)
    pasted = f"source .venv/bin/activate\n{translate}"
    done = subprocess.run(
        ["bash", "-ec", pasted], cwd=ROOT, input="the cat sees her .\n\n", capture_output=True, text=True
    )
    assert done.stdout.count("\n") == 2, done.stdout + done.stderr

    (resumed,) = map(int, re.findall(r"Loaded checkpoint .* @ (\d+) updates", log.read_text()))
    assert kept <= resumed < 72
    for model, updates in (("RNNencdec-30", 72), ("RNNsearch-50", 40)):  # 1.8 times as many, as in Table 2
        assert read_train_log(out / "runs" / model / "train.log")[-1].updates == updates
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
