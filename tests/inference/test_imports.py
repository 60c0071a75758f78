"""The rooms that translate know neither fairseq nor the rooms that train."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "rnnsearch_fairseq"
CORE = ("modules", "search", "text", "inference", "plots", "grammar", "serve", "groundhog")
PLUGIN = ("models", "criterions", "optim", "tasks", "data", "config", "patches")


def imported(path: Path) -> set[str]:
    """The modules that a file imports, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


@pytest.mark.parametrize("room", CORE)
def test_a_room_of_the_core_needs_no_fairseq(room: str) -> None:
    for path in [*(PACKAGE / room).rglob("*.py"), PACKAGE / "cli.py", PACKAGE / "errors.py", PACKAGE / "output.py"]:
        for name in imported(path):
            assert name.split(".")[0] not in ("fairseq", "fairseq_cli", "omegaconf", "hydra"), path
            parts = name.split(".")
            assert parts[:1] != ["rnnsearch_fairseq"] or not set(parts[1:2]) & set(PLUGIN), path
