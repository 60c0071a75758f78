"""Each room knows only the rooms below it; no file imports a file that imports it."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "rnnsearch_fairseq"
# From below to above: a room may import rooms that stand in earlier lines, and itself.
ROOMS = [
    ["errors"],
    ["modules", "files"],
    ["data"],
    ["models", "tasks", "criterions", "optim", "config"],
    ["search"],
    ["inference"],
    ["analysis", "groundhog", "corpora"],
    ["serve"],
    ["cli"],
]
TOP = ROOMS.index(["analysis", "groundhog", "corpora"])


def name_of(path: Path) -> str:
    """The module of a file, without the package: ``modules.decoder``; ``modules`` of its ``__init__``."""
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix("__init__").rstrip(".")


FILES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imports_of(path: Path) -> set[str]:
    """The modules of the package that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == PACKAGE.name:
            module = (node.module or "").partition(".")[2]
            names = {f"{module}.{alias.name}".lstrip(".") for alias in node.names}
            found |= {name if name in FILES else module for name in names}
        elif isinstance(node, ast.Import):
            names = {alias.name for alias in node.names if alias.name.startswith(f"{PACKAGE.name}.")}
            found |= {name.partition(".")[2] for name in names}
    return found - {name_of(path)}


IMPORTS = {name: imports_of(path) for name, path in FILES.items()}


def room(name: str) -> str:
    return name.partition(".")[0]


@pytest.mark.parametrize("name", [name for name in FILES if room(name) not in ("", "__main__", "patches")])
def test_imports_go_down(name: str) -> None:
    (level,) = [number for number, rooms in enumerate(ROOMS) if room(name) in rooms]
    below = {each for rooms in ROOMS[:level] for each in rooms}
    if level >= TOP:
        below.add("")  # the package's own file, which registers everything, and has the version
    assert {room(other) for other in IMPORTS[name]} <= {*below, room(name)}


def test_only_the_package_itself_imports_patches() -> None:
    outside = {name for name in FILES if room(name) != "patches"}
    assert {name for name in outside if any(room(other) == "patches" for other in IMPORTS[name])} == {""}


def test_modules_are_pytorch_alone() -> None:
    for name in FILES:
        if room(name) == "modules":
            text = FILES[name].read_text(encoding="utf-8")
            assert "import fairseq" not in text and "from fairseq" not in text, name


def test_readable_modules_do_not_know_the_fused_ones() -> None:
    readable = [name for name in FILES if room(name) == "modules" and not name.startswith("modules.fused")]
    assert not any(other.startswith("modules.fused") for name in readable for other in IMPORTS[name])


def test_no_file_imports_a_file_that_imports_it() -> None:
    def reached(name: str) -> set[str]:
        seen: set[str] = set()
        waiting = [name]
        while waiting:
            new = IMPORTS.get(waiting.pop(), set()) - seen
            seen |= new
            waiting += new
        return seen

    assert [name for name in FILES if name and name in reached(name) - {""}] == []
