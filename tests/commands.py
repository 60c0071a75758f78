"""Commands of fairseq with the plugin, and ours, and what they print."""

import contextlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from shlex import split
from unittest import mock

import rnnsearch_fairseq

PACKAGE = Path(rnnsearch_fairseq.__file__).parent
ROOT = PACKAGE.parent
PLUGIN = ["--user-dir", str(PACKAGE)]
TINY = split("--embedding-size 32 --hidden-size 32 --alignment-size 32 --maxout-size 32")


def run(
    command: str, *words: str | Path, cwd: Path, stdin: str = "", status: int = 0
) -> subprocess.CompletedProcess[str]:
    """Run a command away from the repository; ``python -m recipes.NAME`` is a command, too."""
    done = subprocess.run(
        [command, *map(str, words)],
        cwd=cwd,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(ROOT)},
        input=stdin,
        check=False,
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == status, f"{done.args}\n{done.stdout[-8000:]}\n{done.stderr[-8000:]}"
    return done


def preprocess(corpus: Path, *words: str | Path) -> None:
    """Binarize the corpus in ``corpus/bin``."""
    run("fairseq-preprocess", *PLUGIN, "--destdir", "bin", *words, cwd=corpus)


def type_in(script: str, folder: Path) -> str:
    """Run commands of bash at the top of a stand-in for a checkout, with the package and the recipes of this one."""
    for name in ("rnnsearch_fairseq", "recipes"):
        if not (folder / name).exists():
            (folder / name).symlink_to(ROOT / name)
    return run("bash", "-euo", "pipefail", "-c", script, cwd=folder).stdout


def run_block(recipe: str, containing: str, checkout: Path, **programs: str) -> None:
    """Run the block of commands that contains a text, at the top of a stand-in for the checkout.

    ``programs`` are scripts of bash that stand in for programs.
    """
    readme = (ROOT / "recipes" / recipe / "README.md").read_text()
    (block,) = [block for block in re.findall(r"```sh\n(.*?)```", readme, re.DOTALL) if containing in block]
    folder = checkout / ".venv/bin"
    folder.mkdir(parents=True, exist_ok=True)
    for name, script in {"activate": "", **programs}.items():
        (folder / name).write_text(f"#!/usr/bin/env bash\n{script}\n")
        (folder / name).chmod(0o755)
    block = block.replace("--workers 8", "--workers 1")
    type_in(f'export PATH="{folder}:$PATH" OUT=runs/{recipe}\n{block}', checkout)


def printed_by(main: Callable[[], object], *words: object) -> str:
    """What the function of a command prints when it is called with these words."""
    arguments = mock.patch.object(sys, "argv", ["program", *map(str, words)])
    with arguments, contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), "utf-8")) as out:
        main()
    out.seek(0)
    return out.read()
