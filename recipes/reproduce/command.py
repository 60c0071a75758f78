"""The parts that the command lines of this folder share."""

import argparse
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from rnnsearch_fairseq.errors import InputError


def command_line(
    description: str, output: str = "default: standard output", metavar: str = "FILE"
) -> argparse.ArgumentParser:
    """A command line with --output, and a description that is printed as it is."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    if output:
        parser.add_argument("--output", type=Path, metavar=metavar, help=output)
    return parser


def provenance() -> str:
    """The commit of the checkout and the command line that a report is made by."""
    git = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=7"]
    try:
        commit = subprocess.run(git, capture_output=True, check=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        commit = "not recorded"
    return f"Commit: {commit}. Command: {Path(sys.argv[0]).stem} {shlex.join(sys.argv[1:])}"


class NamedFiles(argparse.Action):
    """Words NAME=FILE become a dictionary of paths.

    Raises:
        InputError: a name is given twice.
    """

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        args: argparse.Namespace,
        values: Sequence[str],
        option: str | None = None,
    ) -> None:
        named: dict[str, Path] = {}
        for text in values:
            name, _, path = text.partition("=")
            if not (name and path):
                raise argparse.ArgumentError(self, f"{text!r} is not NAME=FILE")
            if name in named:
                raise InputError(f"{name}=...: given twice; give each file a name of its own")
            named[name] = Path(path)
        setattr(args, self.dest, named)
