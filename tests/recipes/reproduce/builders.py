"""Small files for the programs of the reproduction."""

import json
from collections.abc import Sequence
from pathlib import Path


def write(path: Path, lines: Sequence[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def record(number: int, source: str, target: str, alignment: list[list[float]]) -> str:
    """A line of rnnsearch score."""
    words = {"source": [*source.split(), "</s>"], "target": [*target.split(), "</s>"]}
    return json.dumps({"id": number, **words, "alignment": alignment})
