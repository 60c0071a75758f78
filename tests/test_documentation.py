"""Every fairseq command that a README shows is one that fairseq, with this plugin, understands."""

import itertools
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from fairseq import options

import rnnsearch_fairseq  # noqa: F401  (registers options)
from rnnsearch_fairseq.cli import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = [*sorted(ROOT.glob("recipes/**/*.sh")), ROOT / "tests/run.sh", ROOT / ".ci/run"]
PARSERS: dict[str, Callable] = {
    "fairseq-preprocess": options.get_preprocessing_parser,
    "fairseq-train": options.get_training_parser,
    "fairseq-generate": options.get_generation_parser,
    "fairseq-interactive": options.get_interactive_generation_parser,
}


def commands(path: Path) -> list[list[str]]:
    """fairseq's commands in ``path``, continued lines joined, up to the first pipe, redirection or list operator."""
    blocks = re.findall(r"```sh\n(.*?)```", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    lines = [line for line in "\n".join(blocks).replace("\\\n", " ").splitlines() if line.startswith((*PARSERS,))]
    words = (shlex.split(line, comments=True) for line in lines)
    return [[*itertools.takewhile(lambda word: not re.match(r"[|>&]|2>", word), command)] for command in words]


PAGES = (path for name in ("README", "EVIDENCE", "CLAIMS", "HISTORY") for path in ROOT.rglob(f"{name}.md"))
READMES = sorted(path for path in PAGES if ".venv" not in path.parts and "runs" not in path.parts)
NOTEBOOK = ROOT / "recipes/tutorial/attention.ipynb"
ALL = [(path, command) for path in READMES for command in commands(path)]
assert {command[0] for _, command in ALL} >= PARSERS.keys() - {"fairseq-interactive"}


@pytest.mark.parametrize(("path", "command"), ALL, ids=[f"{path.name}-{command[0]}" for path, command in ALL])
def test_command_is_understood(path: Path, command: list[str]) -> None:
    assert "--user-dir" in command
    name, *words = command
    words[words.index("--user-dir") + 1] = str(ROOT / "rnnsearch_fairseq")
    parser = PARSERS[name]()
    if name == "fairseq-preprocess":
        parser.parse_args(words)
    else:
        options.parse_args_and_arch.__wrapped__(parser, words)  # without its question whether --path is there


@pytest.mark.parametrize("path", [*READMES, *SCRIPTS], ids=lambda path: str(path.relative_to(ROOT)))
def test_code_is_valid_bash_and_programs_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL)) if path.suffix == ".md" else text
    subprocess.run(["bash", "-n"], input=code, check=True, text=True)
    for program in re.findall(r"^ *rnnsearch (plot \w+|[\w-]+)", code, re.MULTILINE):
        assert program in COMMANDS, program
    for program in re.findall(r"(?:python -m recipes\.|(?<!-)tool )([\w.]+)", code):
        module = ROOT / "recipes" / program.replace(".", "/")
        assert module.with_suffix(".py").exists() or (module / "__main__.py").exists(), program


def anchors(path: Path) -> set[str]:
    """The anchors of a Markdown file's headings, as GitHub names them."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("readme", [*READMES, NOTEBOOK], ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(readme: Path) -> None:
    text = readme.read_text(encoding="utf-8")
    links = [*re.findall(r"\]\(([^)\s]+)\)", text), *re.findall(r'src="([^"]+)"', text)]
    for link in links:
        if link.startswith("https://"):
            continue
        name, _, anchor = link.partition("#")
        target = (readme.parent / name).resolve() if name else readme
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_lines_of_markdown_can_be_read_side_by_side() -> None:
    for page in [*READMES, ROOT / "CHANGELOG.md"]:
        lines = page.read_text(encoding="utf-8").splitlines()
        assert [line for line in lines if len(line) > 160 and not line.startswith("|")] == [], page
