"""The recipes say what they do, run, are stopped, and go on."""

import contextlib
import gzip
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from recipes.grammar import write_corpus
from recipes.reproduce.epochs import read_train_log
from tests.commands import ROOT, run

WAIT = 300  # seconds, of a slow machine
TINY = [*("--embedding-size", "8", "--hidden-size", "8", "--alignment-size", "8", "--maxout-size", "8")]
TINY += [*("--optimizer", "adam", "--lr", "0.01", "--cpu", "--num-workers", "0", "--log-interval", "10")]
CALLED = [
    path
    for path in [*sorted(ROOT.glob("recipes/**/*.sh")), ROOT / "tests/run.sh"]
    if path.read_text(encoding="utf-8").startswith("#!")
]


@pytest.mark.parametrize("path", CALLED, ids=lambda path: str(path.relative_to(ROOT)))
def test_help_tells_how_a_recipe_is_called_and_does_nothing_else(path: Path, tmp_path: Path) -> None:
    command = ["bash", path, "--out", "folder", "--help"]
    done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    script = str(path.relative_to(ROOT))
    assert re.search(rf"^  .*{re.escape(script)}", done.stdout, re.MULTILINE), done.stdout
    head = re.match(r"#!.*\n((?:#.*\n)+)", path.read_text(encoding="utf-8"))
    assert head and done.stdout == re.sub("^# ?", "", head[1], flags=re.MULTILINE)
    assert not any(tmp_path.iterdir())


THIS = f'exec {sys.executable} "$@"'
OLD = "import importlib.util, sys; sys.version_info = (3, 9, 2); importlib.util.find_spec = {'venv': 1}.get"
NO_INDEX = 'case "$*" in *--index-url*) echo ERROR >&2; exit 1 ;; *) echo "$@" ;; esac'
SET_UP = "ROOT=$PWD TORCH=torch; install_package() { echo all; }; install_tools() { echo tools; }; set_up; set_up"
CHANGED = {"pyproject.toml": "one", "recipes/requirements/wheels.txt": "", ".venv/x": ""}
STEP = "step() { echo step; mkdir $1; [ -f ready ]; }"
DIGEST = hashlib.sha256(b"text").hexdigest()
OPTIONS = 'parse_options "out= dry-run --"'


@pytest.mark.parametrize(
    ("files", "script", "printed"),
    [
        # The first Python that works is taken, and of one that does not, it is said what it lacks.
        ({"python3.11": "false", "python3.13": THIS, "python3.10": THIS}, "PATH=$PWD find_python", "python3.13\n"),
        (
            {"python3.9": f'exec {sys.executable} -c "{OLD}\n$2"'},
            "PYTHON=./python3.9 find_python",
            r"[^\n]*\(\./python3.9 has no ensurepip, has no headers, is 3.9\); install[^\n]*\n",
        ),
        # Where the index of CPU builds is away, more is downloaded. No command is here, so there is no GPU.
        (
            {".venv/bin/python": NO_INDEX},
            "ROOT=$PWD TORCH=torch; command() { false; }; install_pytorch",
            "[^\n]*about 2.5 GB[^\n]*\n-m pip --disable-pip-version-check install torch\n",
        ),
        # An environment of the user's is not replaced.
        ({"python3.11": THIS, ".venv/x": ""}, "ROOT=$PWD; install_package; ls .venv", r"error: [^\n]*move it away.*"),
        # PyTorch stays where only the package has changed.
        (CHANGED, f"{SET_UP}; echo two > pyproject.toml; set_up; TORCH=other; set_up", "all\ntools\nall\n"),
        # A step is done once, and a broken one again.
        ({}, f'trap "ls out" EXIT; {STEP}; once out/text step', "step\ntext.part\n"),
        (
            {"ready": "", "out/text.part/old": ""},
            f"{STEP}; once out/text step; once out/text step; ls out",
            "step\nthere already: out/text\ntext\n",
        ),
        # A download is compared with what the results were made of.
        ({"text.gz": gzip.compress(b"text")}, f"once got download file://$PWD/text.gz {DIGEST}; cat got", "text"),
        ({"text": "other"}, f"once got download file://$PWD/text {DIGEST}", ".*error: .* is not the file that.*"),
        # The commands for a model can be pasted, at the top of the checkout, wherever the recipe was called.
        (
            {},
            'show_model "$ROOT/runs/an out/a.pt:an out/b.pt" --beam 5 | grep -m 1 "^  rnnsearch translate" > line; '
            'rnnsearch() { printf "%s\\n" "$@"; }; source ./line | sed "s:$PWD:HERE:"',
            "translate\n--model\nruns/an out/a.pt:HERE/an out/b.pt\n--beam\n5\n",
        ),
        # Options set variables.
        ({}, f'{OPTIONS} --out "a b" --dry-run -- --lr 1; echo "$OUT,$DRY_RUN,${{REST[*]}}"', "a b,1,--lr 1\n"),
        *(({}, f"{OPTIONS} {words}", "error: .+") for words in ("--colour red", "--out", "out")),
    ],
)
def test_functions_of_setup(files: dict[str, str | bytes], script: str, printed: str, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        text = f"#!/bin/sh\n{text}\n" if "python" in name else text
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        (tmp_path / name).chmod(0o755)
    script = f"source {ROOT}/recipes/setup.sh; {{ {script}; }} 2>&1"
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, stdout=subprocess.PIPE, text=True, timeout=WAIT)
    assert re.fullmatch(printed, done.stdout, re.DOTALL), done.stdout


@pytest.fixture
def recipes(tmp_path: Path) -> Path:
    """The recipes of a checkout that is set up already, by the environment of this test."""
    done = f'set_up() {{ export USER_DIR="$ROOT/rnnsearch_fairseq"; }}\nROOT={ROOT}\n'
    folder = tmp_path / "recipes"
    for name in ("setup.sh", "quickstart.sh", "reproduce/run.sh"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text((ROOT / "recipes" / name).read_text() + (done if name == "setup.sh" else ""))
    return folder


@pytest.mark.slow
@pytest.mark.train
def test_quickstarts_model_reads_sentences_as_people_write_them(recipes: Path, tmp_path: Path) -> None:
    """Its own commands, with fewer sentences and updates; stopped by Ctrl-C, and started again."""
    script, out = recipes / "quickstart.sh", tmp_path / "out"
    text = script.read_text().replace("--max-epoch 5", "--max-update 20")
    script.write_text(text.replace("tool grammar", "tool grammar --train 2000 --valid 50 --test 20"))
    command = ["bash", script, "--out", out]
    _, status, said = stop(command, out / "log", r"begin training epoch (1)", signal.SIGINT)
    assert status == 130 and "failed" not in said, said
    (stopped,) = re.findall(r"^  SIGINT: training stops after update (\d+);", said, re.MULTILINE)
    assert said.endswith("\nstopped; run the same command again to go on\n")

    printed = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=WAIT)
    assert printed.returncode == 0, printed.stdout
    assert re.search(r"^  update 10 of 885 \| perplexity [\d.]+$", printed.stdout, re.MULTILINE)
    assert f"@ {stopped} updates)" in (out / "log").read_text().partition("Loaded checkpoint")[2]
    assert len((out / "test.hyp.fr").read_text().splitlines()) == 20
    assert "BLEU|" in printed.stdout and (out / "alignment.png").exists()
    (words,) = re.findall(r"^  rnnsearch translate (.*)", printed.stdout, re.MULTILINE)
    command = f"rnnsearch translate {words} --alignments {tmp_path}/read"
    run("bash", "-c", command, cwd=ROOT, stdin="The message of the lawyer is new, and I see Mary.\n")
    source = json.loads((tmp_path / "read").read_text())["source"]
    assert " ".join(source) == "the message of the lawyer is new , and I see Mary . </s>"


@pytest.mark.slow
@pytest.mark.train
def test_reproduce_is_killed_and_goes_on(recipes: Path, tmp_path: Path) -> None:
    write_corpus(tmp_path / "text", {"train": 300, "valid": 10, "test": 20})
    out = tmp_path / "out"
    command = ["bash", recipes / "reproduce/run.sh", "--tokens", tmp_path / "text", "--src", "en", "--trg", "fr"]
    command += ["--models", "RNNencdec-30,RNNsearch-50", "--budget", "24", "--interval", "8", "--words", "200"]
    command += ["--rare", "20", "--out", out, "--", *TINY]
    log = out / "runs/RNNencdec-30/train.log"
    kept, status, _ = stop(command, log, r"Saved checkpoint .* @ (\d+) updates", signal.SIGKILL)
    assert status == -signal.SIGKILL
    printed = subprocess.run(command, check=True, timeout=WAIT, capture_output=True, text=True).stdout
    assert re.search(r"^  RNNsearch-50: update 24 of 24 \| development perplexity [\d.]+$", printed, re.MULTILINE)

    (resumed,) = map(int, re.findall(r"Loaded checkpoint .* @ (\d+) updates", log.read_text()))
    assert kept <= resumed < 70
    for model, updates in (("RNNencdec-30", 70), ("RNNsearch-50", 24)):  # 2.94 times as many, as in Table 2
        assert read_train_log(out / "runs" / model / "train.log")[-1].updates == updates
    report = (out / "report/report.md").read_text()
    best = "RNNsearch-50"
    for name in ("RNNencdec-30", best, f"{best}, rare words copied", f"{best}, rare words looked up"):
        assert re.search(rf"\| {name} \| \d+\.\d\d \| \d+\.\d\d \|", report)
    assert re.search(r"\| RNNsearch-50 \| \d+\.\d\d \|", report.partition("Alignment error rate")[2])


def stop(command: list[object], log: Path, pattern: str, number: int) -> tuple[int, int | None, str]:
    """Signal a recipe, and all it has started, when ``pattern`` stands in its log.

    Returns the number that ``pattern`` found last, the recipe's status, and all that it printed.
    """
    started = subprocess.Popen(
        list(map(str, command)),
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # Tests in the background ignore Ctrl-C, and a shell cannot trap what it ignores from the start.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        for _ in range(10 * WAIT):
            if found := re.findall(pattern, log.read_text() if log.exists() else ""):
                os.killpg(started.pid, number)
                printed, _ = started.communicate(timeout=WAIT)
                return int(found[-1]), started.returncode, printed
            assert started.poll() is None, started.stdout.read()
            time.sleep(0.1)
        raise AssertionError(f"{log}: nothing of {pattern}")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        started.wait()
