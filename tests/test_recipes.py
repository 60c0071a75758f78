"""The recipes say what they do, keep off folders that are not theirs, run, are stopped, and go on."""

import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import fairseq.options
import pytest

from recipes.reproduce.epochs import read_train_log
from rnnsearch_fairseq.grammar import write_corpus
from rnnsearch_fairseq.serve.main import parse_arguments

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[1]
WAIT = 300  # seconds, of a slow machine
TINY = [*("--embedding-size", "8", "--hidden-size", "8", "--alignment-size", "8", "--maxout-size", "8")]
TINY += [*("--optimizer", "adam", "--lr", "0.01", "--cpu", "--num-workers", "0")]
CALLED = [
    path
    for path in [*sorted(ROOT.glob("recipes/**/*.sh")), ROOT / "tests/run.sh"]
    if path.read_text(encoding="utf-8").startswith("#!")
]
# Those that write to a folder, each with the options that come before it.
PAIR = ["--data", "data", "--src", "en", "--trg", "fr"]
WRITERS = {
    "recipes/quickstart.sh": [],
    "recipes/aspec_en_ja/data.sh": ["--data", "data", "--out"],
    "recipes/benchmark/gpu.sh": ["--out"],
    "recipes/aspec_en_ja/run.sh": ["--data", "data", "--out"],
    "recipes/multi30k_en_fr/best.sh": ["--data", "data", "--out"],
    "recipes/multi30k_en_fr/passages.sh": ["--data", "data", "--out"],
    "recipes/multi30k_en_fr/readings.sh": ["--data", "data", "--out"],
    "recipes/multi30k_en_fr/reproduce.sh": ["--data", "data", "--out"],
    "recipes/multi30k_en_fr/run.sh": ["--data", "data", "--out"],
    "recipes/news_en_fr/run.sh": ["--data", "data", "--out"],
    "recipes/reproduce/grammar.sh": ["--out"],
    "recipes/reproduce/run.sh": [*PAIR, "--out"],
    "recipes/tanaka_en_ja/run.sh": ["--data", "data", "--out"],
    "recipes/wmt14_en_fr/data.sh": ["--data", "data", "--out"],
    "recipes/wmt14_en_fr/evaluate.sh": ["--out"],
    "recipes/wmt14_en_fr/train.sh": ["RNNsearch-50", "1", "--out"],
}
TRAINERS = {script for script in WRITERS if '--save-dir "' in (ROOT / script).read_text(encoding="utf-8")}
UNMARKED = ["recipes/wmt14_en_fr/evaluate.sh", "recipes/wmt14_en_fr/train.sh"]  # they go on in the folder of data.sh


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The recipes, their data, and in place of the programs that they call some that fail: each leaves a file that says
    so in ``touched``.
    """
    shutil.copytree(ROOT / "recipes", tmp_path / "recipes", ignore=shutil.ignore_patterns("*.png"))
    (tmp_path / "tests").mkdir()
    shutil.copy(ROOT / "tests/run.sh", tmp_path / "tests")
    (tmp_path / "pyproject.toml").touch()
    parts = ("train", "dev", "val", "valid", "test", "test_2016_flickr")
    parts += ("news-test2008", *(f"newstest{year}" for year in range(2009, 2014)))
    names = [f"{part}.{side}" for part in parts for side in ("en", "fr", "ja")]
    for path in ("bin", "data", "runs/grammar", "touched"):
        (tmp_path / path).mkdir(parents=True)
    for name in names:
        (tmp_path / "data" / name).write_text("a b c\n")
        (tmp_path / "runs/grammar" / name).write_text("a b c\n")
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
    said = done.stdout.decode() + done.stderr.decode()
    assert done.returncode == status, said
    return said


def be_set_up(checkout: Path) -> None:
    with open(checkout / "recipes/setup.sh", "a") as setup:
        setup.write("set_up() { USER_DIR=plugin; }\n")


def test_every_recipe_that_writes_is_tested() -> None:
    reading = {"recipes/setup.sh", "recipes/wmt14_en_fr/slurm.sh", "tests/run.sh"}  # what they write, others do
    assert {str(path.relative_to(ROOT)) for path in CALLED} == reading | WRITERS.keys()


@pytest.mark.parametrize("path", CALLED, ids=lambda path: str(path.relative_to(ROOT)))
def test_help_tells_how_a_recipe_is_called_and_does_nothing_else(checkout: Path, path: Path) -> None:
    script = str(path.relative_to(ROOT))
    before = sorted(checkout.rglob("*"))
    for words in (["--help"], ["-h"], ["--out", "folder", "--help"]):
        said = call(checkout, script, *words, status=0)
        assert re.search(rf"^  .*{re.escape(script)}", said, re.MULTILINE), said
        head = re.match(r"#!.*\n(?:#SBATCH.*\n)*((?:#.*\n)+)", path.read_text(encoding="utf-8"))
        assert head and said == re.sub("^# ?", "", head[1], flags=re.MULTILINE)
    assert sorted(checkout.rglob("*")) == before


def test_setup_installs_when_it_is_called_itself(checkout: Path) -> None:
    assert "no Python 3.10 to 3.12" in call(checkout, "recipes/setup.sh", status=1)
    installed = checkout / ".venv/.installed"
    installed.parent.mkdir()
    installed.write_text("torch " + subprocess.check_output(["cksum"], stdin=subprocess.DEVNULL, text=True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCH", "torch")
        assert "source .venv/bin/activate" in call(checkout, "recipes/setup.sh", status=0)


@pytest.mark.parametrize("script", WRITERS)
def test_a_word_that_means_nothing_is_no_folder(checkout: Path, script: str) -> None:
    be_set_up(checkout)
    if script != "recipes/quickstart.sh":  # its folder has no option
        assert "--out needs a value" in call(checkout, script, *WRITERS[script], "--colour", status=1)
    # The corpus of grammar.sh is there: that the program fails shows no more than that it goes on to run.sh.
    assert "unknown option --colour" in call(checkout, script, *WRITERS[script][:-1], "--colour", "red", status=1)
    assert not any((checkout / "touched").iterdir())
    assert not [path for path in checkout.rglob("*") if path.name in ("--colour", "red")]


@pytest.mark.parametrize("script", WRITERS)
def test_a_folder_that_no_recipe_made_is_kept(checkout: Path, script: str) -> None:
    be_set_up(checkout)
    theirs = checkout / "theirs"
    for name in ("text/train.en", "bin/dict.en.txt", "thesis.tex"):
        (theirs / name).parent.mkdir(parents=True, exist_ok=True)
        (theirs / name).write_text("years of work\n")
    before = sorted(theirs.rglob("*"))
    said = call(checkout, script, *WRITERS[script], str(theirs), status=1)
    assert ("theirs has no data; make it by" if script in UNMARKED else "theirs has files, and no mark") in said
    assert not any((checkout / "touched").iterdir())
    assert sorted(theirs.rglob("*")) == before
    assert {path.read_text() for path in before if path.is_file()} == {"years of work\n"}


@pytest.mark.parametrize("script", [script for script in WRITERS if script not in UNMARKED])
def test_a_recipe_goes_on_in_its_own_folder_but_not_in_another_s(checkout: Path, script: str) -> None:
    be_set_up(checkout)
    own, left = checkout / "own folder", checkout / "own folder/left"

    def goes_on() -> bool:
        """Whether the recipe comes to the first of the programs, which fails."""
        shutil.rmtree(checkout / "touched")
        (checkout / "touched").mkdir()
        call(checkout, script, *WRITERS[script], str(own), status=1)
        return any((checkout / "touched").iterdir())

    own.mkdir()
    assert goes_on()
    left.write_text("of the first run\n")
    assert goes_on()
    assert left.exists() == (script != "recipes/quickstart.sh")  # which begins anew
    left.write_text("of the first run\n")
    (own / ".made-by").write_text("another\n")
    assert not goes_on() and left.exists()


def sourced(script: str, cwd: Path, stdin: str = "") -> str:
    """What a script prints that begins with the functions of setup.sh."""
    script = f"source {ROOT}/recipes/setup.sh; {script}"
    return subprocess.run(
        ["bash", "-c", script], cwd=cwd, input=stdin, check=True, capture_output=True, text=True, timeout=WAIT
    ).stdout


def test_translations_come_in_the_order_of_the_sources(tmp_path: Path) -> None:
    generated = tmp_path / "generated"
    generated.write_text("S-10\tten\nH-10\t-1.0\tx y\nD-10\t-1.0\tX y\nH-2\t-0.5\tun@@ e\nD-2\t-0.5\tune\n")
    for kind, expected in (("", "un@@ e\nx y\n"), ("D", "une\nX y\n")):
        assert sourced(f"translations {generated} {kind}", tmp_path) == expected


def test_after_a_failure_no_more_models_are_trained(tmp_path: Path) -> None:
    train = "set -euo pipefail; { echo $*; [ $1 != b ]; } | cat; echo trained $1"
    script = f"train() {{ {train}; }}; export -f train; each_line 1 train || echo ended"
    assert sourced(script, tmp_path, "a 1  2\nb\nc\n") == "a 1 2\ntrained a\nb\nended\n"
    assert sourced(script, tmp_path, "a\nc\n") == "a\ntrained a\nc\ntrained c\n"


def test_every_recipe_that_trains_shows_how_it_goes_and_how_to_use_the_model() -> None:
    assert {"recipes/quickstart.sh", "recipes/reproduce/run.sh"} < TRAINERS
    for script in TRAINERS:
        text = (ROOT / script).read_text(encoding="utf-8")
        assert re.search(r"\|\s+show_progress ", text), script
        # Functions that other bash processes call are handed to them.
        for functions in re.findall(r"^export -f (.*)$", text, re.MULTILINE):
            assert "show_progress" in functions.split(), script
        last = text.rstrip("\n").rpartition("\n\n")[2]
        assert re.search(r"show_(tree_)?model |^ +tell$", last, re.MULTILINE), script


def test_short_lines_are_shown_and_all_are_kept(tmp_path: Path) -> None:
    line, said = "2026-11-22 15:58:39 | INFO | progress | ", "update 3 of 5 | perplexity 1.0 | 2 words/s | 1 s left"
    printed = f"2026-11-22 15:58:38 | INFO | train_inner | epoch 1\n{line}{said}\n"
    assert sourced("show_progress log", tmp_path, printed) == f"  {said}\n"
    assert sourced("show_progress log runs/a-b", tmp_path, printed) == f"  runs/a-b: {said}\n"
    assert (tmp_path / "log").read_text() == 2 * printed
    assert sourced("show_progress log", tmp_path, "nothing\n") == ""


def test_the_commands_for_a_model_can_be_pasted(
    checkout: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the top of the checkout, wherever the recipe was called, and wherever it wrote; the programs know them."""
    away = tmp_path_factory.mktemp("away")
    (checkout / ".venv/bin").mkdir(parents=True)
    (checkout / ".venv/bin/activate").write_text(f"PATH={checkout}/bin:$PATH\n")
    for name in ("fairseq-interactive", "rnnsearch"):
        program = checkout / "bin" / name
        program.write_text('#!/usr/bin/env bash\nprintf "%s\\n" "${0##*/}" "$@"\n')
        program.chmod(0o755)
    inside, outside = checkout / "runs/own out", away / "own out"
    for out, shown in ((inside, Path("runs/own out")), (outside, outside)):
        given = os.path.relpath(out, away) if out == outside else out
        script = f'OUT="{given}"; source "$ROOT/recipes/tree_models.sh"; show_tree_model "$OUT/a.pt:$OUT/b.pt"'
        script = f"source {checkout}/recipes/setup.sh; {script}"
        said = subprocess.run(["bash", "-c", script], cwd=away, check=True, capture_output=True, text=True).stdout
        commands = "".join(re.findall(r"^  .*\n", said, re.MULTILINE))
        done = subprocess.run(["bash", "-ec", commands], cwd=checkout, check=True, capture_output=True, text=True)
        search = [
            "--search",
            "tree2seq",
            "--beam",
            "20",
            "--max-len-b",
            "100",
            "--length-statistics",
            f"{shown}/lengths",
        ]
        path, data = ["--path", f"{shown}/a.pt:{shown}/b.pt"], f"{shown}/bin"
        interactive = [data, "--user-dir", "rnnsearch_fairseq", "-s", "en", "-t", "ja", *path, *search]
        interactive += ["--task", "tree_translation"]
        serve = ["serve", *path, "--data", data, *search]
        assert done.stdout.splitlines() == ["fairseq-interactive", *interactive, "rnnsearch", *serve]
    monkeypatch.chdir(ROOT)
    parser = fairseq.options.get_interactive_generation_parser()
    args = fairseq.options.parse_args_and_arch(parser, interactive)
    assert (args.task, args.search, args.max_len_b) == ("tree_translation", "tree2seq", 100)
    assert parse_arguments(serve[1:])[1] == {
        "search": "tree2seq",
        "beam": 20,
        "max_len_b": 100,
        "length_statistics": f"{outside}/lengths",
    }


@pytest.mark.skipif(not (ROOT / ".venv/.installed").exists(), reason="recipes/setup.sh has not made .venv here")
def test_reproduce_is_killed_and_goes_on(tmp_path: Path) -> None:
    write_corpus(tmp_path / "text", {"train": 300, "valid": 10, "test": 30})
    out = tmp_path / "out"
    command = ["bash", f"{ROOT}/recipes/reproduce/run.sh", "--tokens", tmp_path / "text", "--src", "en", "--trg", "fr"]
    command += ["--models", "RNNencdec-30,RNNsearch-50", "--budget", "40", "--interval", "2", "--words", "200"]
    command += ["--rare", "20", "--out", out, "--", *TINY]
    log = out / "runs/RNNencdec-30/train.log"
    kept = kill_after_a_checkpoint(command, log)
    said = subprocess.run(command, check=True, timeout=WAIT, capture_output=True, text=True).stdout
    assert re.search(r"^  RNNsearch-50: update 40 \| valid perplexity [\d,.]+$", said, re.MULTILINE)
    (interactive,) = re.findall(r"^  fairseq-interactive .*", said, re.MULTILINE)
    pasted = f"source .venv/bin/activate\n{interactive} --cpu"
    done = subprocess.run(
        ["bash", "-ec", pasted], cwd=ROOT, input="the cat sees her .\n", capture_output=True, text=True
    )
    assert re.search(r"^H-0\t", done.stdout, re.MULTILINE), done.stdout + done.stderr

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
