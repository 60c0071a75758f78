"""fairseq's commands with the plugin, run as a user runs them, and what they print."""

import collections
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from shlex import split

import rnnsearch_fairseq

BIN = Path(sys.executable).parent
PLUGIN = ["--user-dir", str(Path(rnnsearch_fairseq.__file__).parent)]
TINY = split("--embedding-size 32 --hidden-size 32 --alignment-size 32 --maxout-size 32")
SEARCH = ["--arch", "bahdanau_gru_small", *TINY]
PAPER = split("--task pooled_translation --max-words 10 --optimizer adadelta --clip-norm 1 --criterion summed_nll")


def run(
    command: str, *words: str | Path, cwd: Path, stdin: str = "", status: int = 0
) -> subprocess.CompletedProcess[str]:
    """Run a command as a user would, away from the repository and on one CPU core."""
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


def preprocess(
    corpus: Path, destination: Path | str, *words: str | Path, status: int = 0
) -> subprocess.CompletedProcess[str]:
    command = ["fairseq-preprocess", *PLUGIN, "-s", "en", "-t", "fr", "--destdir", destination, *words]
    return run(*command, cwd=corpus, status=status)


def training_words(data: Path, folder: Path | str, *words: str | Path) -> list[str]:
    words = (data, *PLUGIN, "--save-dir", folder, "--num-workers", "0", "--log-format", "json", *words)
    return [str(word) for word in words]


def train(data: Path, folder: Path, *words: str | Path, status: int = 0, processes: int = 1) -> str:
    """Train, and return all that was printed."""
    command = ["fairseq-train"]
    if processes > 1:
        command = ["torchrun", "--standalone", "--nproc-per-node", str(processes), str(BIN / "fairseq-train")]
    done = run(*command, *training_words(data, folder, *words), cwd=data.parent, status=status)
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

    def numbers(self, kind: str) -> dict[int, list[float]]:
        return {number: [float(word) for word in words] for number, words in self.words(kind).items()}


def generate(data: Path, checkpoint: Path | str, *words: str | Path, subset: str = "test") -> Output:
    subset_words = ["--gen-subset", subset, "--num-workers", "0"]
    return Output(
        run("fairseq-generate", data, *PLUGIN, "--path", checkpoint, *subset_words, *words, cwd=data.parent).stdout
    )


def interactive(data: Path, checkpoint: Path, lines: Sequence[str], *words: str) -> Output:
    text = "".join(line + "\n" for line in lines)
    command = ["fairseq-interactive", data, *PLUGIN, "--path", checkpoint, *words]
    return Output(run(*command, cwd=data.parent, stdin=text).stdout)
