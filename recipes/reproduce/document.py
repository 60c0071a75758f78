"""The Markdown of a report. Text is plain: the marks of Markdown in it are escaped."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

Section = tuple[str, list[str]]  # a title, and blocks of Markdown
SPECIAL = re.compile(r"[\\`*_\[\]|~#]")


def escape(text: str) -> str:
    """Text as Markdown."""
    return SPECIAL.sub(r"\\\g<0>", text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of plain text."""
    lines = [f"| {' | '.join(map(escape, cells))} |" for cells in (header, *rows)]
    return "\n".join([lines[0], f"| {' | '.join(['---'] * len(header))} |", *lines[1:]])


def bullets(items: Iterable[str]) -> str:
    """A list of plain text."""
    return "\n".join(f"- {escape(item)}" for item in items)


def missing(items: Sequence[str]) -> list[str]:
    """A paragraph that names the missing items; no paragraph if there are none."""
    return [escape(f"Missing: {', '.join(items)}.")] if items else []


def provenance() -> str:
    """The commit of the checkout, the versions of other packages and the command line that a report is made by."""
    git = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=7"]
    try:
        commit = subprocess.run(git, capture_output=True, check=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        commit = "not recorded"
    setup = Path(__file__).parents[1] / "setup.sh"
    shell = ["bash", "-c", 'source "$1" && environment', "bash", str(setup)]
    environment = subprocess.run(shell, capture_output=True, check=True, text=True).stdout.strip()
    command = f"{Path(sys.argv[0]).stem} {shlex.join(sys.argv[1:])}"
    return escape(f"Commit: {commit}. Environment: {environment}. Command: {command}")


def to_markdown(sections: Iterable[Section], title: str | None = None) -> str:
    """The whole document."""
    parts = [f"# {escape(title)}"] if title else []
    for heading, blocks in sections:
        parts += [f"## {escape(heading)}", *blocks]
    return "\n\n".join(parts) + "\n"
