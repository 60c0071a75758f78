"""Run the commands that a recipe's README shows."""

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run_block(recipe: str, containing: str, checkout: Path, **programs: str) -> str:
    """Run the block of commands that contains a text, at the top of a stand-in for the checkout; returns its output.

    ``programs`` are scripts of bash that stand in for programs.
    """
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "recipes" / recipe / "README.md").read_text(), re.DOTALL)
    (block,) = [block.replace("--workers 8", "--workers 1") for block in blocks if containing in block]
    for name in ("rnnsearch_fairseq", "recipes"):
        if not (checkout / name).exists():
            (checkout / name).symlink_to(ROOT / name)
    (checkout / ".venv/bin").mkdir(parents=True, exist_ok=True)
    (checkout / ".venv/bin/activate").touch()
    for name, script in programs.items():
        (checkout / ".venv/bin" / name).write_text(f"#!/usr/bin/env bash\n{script}\n")
        (checkout / ".venv/bin" / name).chmod(0o755)
    path = os.pathsep.join([str(checkout / ".venv/bin"), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "OUT": f"runs/{recipe}"}
    command = ["bash", "-euo", "pipefail", "-c", block]
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
