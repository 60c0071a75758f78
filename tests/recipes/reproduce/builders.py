"""Small files for the programs of the reproduction, and a way to call these."""

import contextlib
import io
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest import mock


def write(path: Path, lines: Sequence[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def record(number: int, source: str, target: str, alignment: list[list[float]]) -> str:
    """A line of rnnsearch score."""
    words = {"source": [*source.split(), "</s>"], "target": [*target.split(), "</s>"]}
    return json.dumps({"id": number, **words, "alignment": alignment})


def printed_by(main: Callable[[], object], *words: object) -> str:
    """What a program prints when it is called with these words."""
    with (
        mock.patch.object(sys, "argv", ["program", *map(str, words)]),
        contextlib.redirect_stdout(io.StringIO()) as out,
    ):
        main()
    return out.getvalue()
