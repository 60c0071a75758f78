"""Run the commands that a recipe's README shows."""

import re
from pathlib import Path

from tests.commands import PACKAGE, type_in


def run_block(recipe: str, containing: str, checkout: Path, **programs: str) -> None:
    """Run the block of commands that contains a text, at the top of a stand-in for the checkout.

    ``programs`` are scripts of bash that stand in for programs.
    """
    readme = (PACKAGE.parent / "recipes" / recipe / "README.md").read_text()
    (block,) = [block for block in re.findall(r"```sh\n(.*?)```", readme, re.DOTALL) if containing in block]
    folder = checkout / ".venv/bin"
    folder.mkdir(parents=True, exist_ok=True)
    for name, script in {"activate": "", **programs}.items():
        (folder / name).write_text(f"#!/usr/bin/env bash\n{script}\n")
        (folder / name).chmod(0o755)
    block = block.replace("--workers 8", "--workers 1")
    type_in(f'export PATH="{folder}:$PATH" OUT=runs/{recipe}\n{block}', checkout)
