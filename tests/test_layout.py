"""Each room knows only the rooms below it; only plugin/ knows fairseq; no file imports a file that imports it."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "rnnsearch_fairseq"
# From below to above: a room may import rooms that stand in earlier lines, and itself.
ROOMS = [["errors", "version"], ["command_line", "output"], ["modules"], ["search"], ["text"], ["inference"]]
ROOMS += [["documents"], ["corpus"], ["plots", "serve"], ["plugin"], ["cli"]]
ONLY_OF_THE_PLUGIN = {"fairseq", "fairseq_cli", "omegaconf", "hydra"}


def name_of(path: Path) -> str:
    """The module of a file, without the package: ``modules.decoder``; ``modules`` of its ``__init__``."""
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix("__init__").rstrip(".")


def room(name: str) -> str:
    return name.partition(".")[0]


FILES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def modules_imported(path: Path) -> set[str]:
    """The dotted names of the modules that a file imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name.partition(".")[2] in FILES else str(node.module) for name in names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


MODULES = {name: modules_imported(path) for name, path in FILES.items()}
# Of the package.
IMPORTS = {
    name: {other.partition(".")[2] for other in modules if room(other) == PACKAGE.name} - {name, ""}
    for name, modules in MODULES.items()
}


@pytest.mark.parametrize("name", [name for name in FILES if room(name) not in ("", "__main__")])
def test_imports_go_down(name: str) -> None:
    (level,) = [number for number, rooms in enumerate(ROOMS) if room(name) in rooms]
    assert {room(other) for other in IMPORTS[name]} <= {room(name)}.union(*ROOMS[:level])


def test_only_the_plugin_imports_fairseq() -> None:
    core = [name for name in FILES if room(name) != "plugin"]
    assert [name for name in core if not {*map(room, MODULES[name])}.isdisjoint(ONLY_OF_THE_PLUGIN)] == []


def test_the_equations_do_not_know_the_fused_ones() -> None:
    networks = {"modules.rnnsearch", "modules.tree2seq"}  # they choose between the two
    equations = [n for n in FILES if room(n) == "modules" and not n.startswith("modules.fused") and n not in networks]
    assert not any(other.startswith("modules.fused") for name in equations for other in IMPORTS[name])


def test_no_file_imports_a_file_that_imports_it() -> None:
    files = {name: {other for other in IMPORTS[name] if other in FILES} for name in FILES if name}
    list(TopologicalSorter(files).static_order())  # a CycleError names the files
