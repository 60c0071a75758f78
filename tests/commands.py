"""fairseq's commands with the plugin, and what they print."""

import collections
import importlib
import logging
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from shlex import split

import torch
from fairseq import checkpoint_utils

import rnnsearch_fairseq
from rnnsearch_fairseq.command_line import print_without_traceback

BIN = Path(sys.executable).parent
PLUGIN = ["--user-dir", str(Path(rnnsearch_fairseq.__file__).parent)]
TINY = split("--embedding-size 32 --hidden-size 32 --alignment-size 32 --maxout-size 32")
SEARCH = ["--arch", "bahdanau_gru_small", *TINY]
PAPER = split("--task rnnsearch --pool-batches 20 --max-words 10 --criterion summed_nll --optimizer adadelta")
PAPER += ["--clip-norm", "1"]


def run(
    command: str, *words: str | Path, cwd: Path, stdin: str = "", status: int = 0
) -> subprocess.CompletedProcess[str]:
    """Run a command as a user would: a new process, away from the repository and on one CPU core."""
    unwanted = {"PYTHONPATH", "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "LOCAL_RANK"}
    inherited = {name: value for name, value in os.environ.items() if name not in unwanted}
    done = subprocess.run(
        [str(BIN / command), *map(str, words)],
        cwd=cwd,
        env={**inherited, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        input=stdin,
        check=False,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )
    assert done.returncode == status, f"{done.args}\n{done.stdout[-8000:]}\n{done.stderr[-8000:]}"
    return done


def fork_command(
    command: str, words: list[str], log: Path, prepare: Callable[[], object] | None = None
) -> multiprocessing.process.BaseProcess:
    """Start ``fairseq-COMMAND`` in a fork of this process, which has imported fairseq already.

    Args:
        log: file for its output.
        prepare: called in the fork.
    """
    for module in (f"fairseq_cli.{command}", "torch._dynamo"):  # imported once here instead of in every fork
        importlib.import_module(module)
    log.write_bytes(b"")  # here, because the fork may be killed before it can
    process = multiprocessing.get_context("fork").Process(target=_run_command, args=(command, words, log, prepare))
    process.start()
    return process


def _run_command(command: str, words: list[str], log: Path, prepare: Callable[[], object] | None) -> None:
    os.dup2(os.open(log, os.O_WRONLY), 1)
    os.dup2(1, 2)
    sys.stdout = sys.stderr = os.fdopen(1, "w", buffering=1, closefd=False)
    form = "%(asctime)s | %(levelname)s | %(name)s | %(message)s"
    logging.basicConfig(format=form, level=logging.INFO, stream=sys.stdout, force=True)
    torch.set_num_threads(1)  # a fork has no threads of its parent
    # fairseq keeps the best score of the parent's trainings here.
    vars(checkpoint_utils.save_checkpoint).pop("best", None)
    sys.argv = [f"fairseq-{command}", *words]
    if prepare is not None:
        prepare()
    print_without_traceback()
    try:
        importlib.import_module(f"fairseq_cli.{command}").cli_main()
    except Exception:
        sys.excepthook(*sys.exc_info())
        sys.exit(1)


def run_forked(command: str, *words: str | Path, cwd: Path, stdin: str = "") -> str:
    """Run a command of fairseq, which must succeed, in a fork of this process; return all that it printed."""
    with tempfile.TemporaryDirectory() as folder:
        given, log = Path(folder, "in"), Path(folder, "log")
        given.write_text(stdin, encoding="utf-8")

        def prepare() -> None:
            sys.stdin = given.open(encoding="utf-8")
            os.chdir(cwd)
            torch.cuda.is_available = lambda: False

        process = fork_command(command.removeprefix("fairseq-"), [*map(str, words)], log, prepare)
        process.join(300)
        process.kill()
        printed = log.read_text(encoding="utf-8")
    assert process.exitcode == 0, f"{words}\n{printed[-8000:]}"
    return printed


def preprocess(corpus: Path, *words: str | Path) -> None:
    """Binarize the corpus in ``corpus/bin``."""
    run_forked("fairseq-preprocess", *PLUGIN, "--destdir", "bin", *words, cwd=corpus)


def train(data: Path, folder: Path, *words: str | Path, processes: int = 1) -> str:
    """Train, and return all that was printed."""
    words = (data, *PLUGIN, "--save-dir", folder, "--num-workers", "0", "--log-format", "json", *words)
    if processes == 1:
        return run_forked("fairseq-train", *words, cwd=data.parent)
    command = ["--standalone", "--nproc-per-node", str(processes), str(BIN / "fairseq-train"), *words]
    done = run("torchrun", *command, cwd=data.parent)
    return done.stdout + done.stderr


class Output:
    """The lines of `fairseq-generate` or `fairseq-interactive`: all[kind][number] are the fields of each such line."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.all: dict[str, dict[int, list[list[str]]]] = collections.defaultdict(lambda: collections.defaultdict(list))
        self.order: list[int] = []
        for kind, number, rest in re.findall(r"^([STHDPA])-(\d+)\t(.*)$", text, re.MULTILINE):
            self.all[kind][int(number)].append(rest.split("\t"))
            if kind == "H":
                self.order.append(int(number))

    def words(self, kind: str) -> dict[int, list[str]]:
        """Of each sentence the words of the first line of this kind."""
        return {number: lines[0][-1].split() for number, lines in self.all[kind].items()}


def generate(data: Path, checkpoint: Path | str, *words: str | Path, subset: str = "test") -> Output:
    subset_words = ["--gen-subset", subset, "--num-workers", "0"]
    command = ["fairseq-generate", data, *PLUGIN, "--path", checkpoint, *subset_words, *words]
    return Output(run_forked(*command, cwd=data.parent))
