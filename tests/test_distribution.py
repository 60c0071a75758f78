"""Wheel and source distribution: built, installed where nothing of the checkout is, and used from there."""

import json
import re
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator, Sequence
from importlib.metadata import distribution, distributions
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from packaging.requirements import Requirement

import rnnsearch_fairseq
from rnnsearch_fairseq.cli import COMMANDS
from tests.serve.live import serving
from tests.trained import SHIPPED_MODEL, needs_shipped_model

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("rnnsearch_fairseq", "recipes", "tests", ".ci")
NOT_SHIPPED = {".png", ".gz", ".xz", ".ipynb", ".safetensors", ".fr", ".model"}  # pictures, results and models
FILES = ("pyproject.toml", "MANIFEST.in", "README.md", "CHANGELOG.md", "LICENSE")


@pytest.fixture(scope="module", autouse=True)
def _without_the_checkout() -> Iterator[None]:
    """What is started here imports nothing by PYTHONPATH."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONPATH", raising=False)
        yield


def run(command: Sequence[str | Path], folder: Path) -> str:
    """What a command prints, run in ``folder``."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=folder, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def files_in(folder: Path) -> set[str]:
    """What is to be shipped of a checkout, or what was."""
    paths = [path for name in FOLDERS for path in (folder / name).rglob("*") if path.is_file()]
    return {*FILES, *(str(path.relative_to(folder)) for path in paths if "__pycache__" not in path.parts)}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source distribution, what it unpacks to, and the wheel that is built from it."""
    out, source = tmp_path_factory.mktemp("dist"), tmp_path_factory.mktemp("source")
    for name in (*FILES, *FOLDERS):
        (source / name).symlink_to(ROOT / name)
    run([sys.executable, "-m", "build", "--no-isolation", "--outdir", out, source], out)
    with tarfile.open(*out.glob("*.tar.gz")) as archive:
        archive.extractall(out)
    return out


@pytest.fixture(scope="module")
def python(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the wheel and what it requires, without extras; of this one, by links."""
    folder = tmp_path_factory.mktemp("installed")
    run([sys.executable, "-m", "venv", "--without-pip", folder], folder)
    options = ["install", "--no-deps", "--no-index", *built.glob("*.whl")]
    run([sys.executable, "-m", "pip", "--python", folder, *options], folder)
    (site,) = folder.glob("lib/python*/site-packages")
    waiting, known = [(*distributions(path=[str(site)]), "")], set()
    while waiting:
        owner, extra = waiting.pop()
        for name in {file.parts[0] for file in owner.files or ()} - {"..", "__pycache__", "distutils-precedence.pth"}:
            if not (site / name).exists():
                (site / name).symlink_to(owner.locate_file(name))
        needed = map(Requirement, owner.requires or ())
        needed = [one for one in needed if not one.marker or one.marker.evaluate({"extra": extra})]
        new = {(one.name, extra) for one in needed for extra in ("", *one.extras)} - known
        known |= new
        waiting += [(distribution(name), extra) for name, extra in new]
    return folder / "bin" / "python"


def test_the_source_distribution_holds_the_code_of_the_checkout(built: Path) -> None:
    (unpacked,) = (path for path in built.iterdir() if path.is_dir())
    assert unpacked.name == f"rnnsearch_fairseq-{rnnsearch_fairseq.__version__}"
    code = {name for name in files_in(ROOT) if Path(name).suffix not in NOT_SHIPPED}
    assert files_in(unpacked) == {name for name in code if not (ROOT / name).is_relative_to(SHIPPED_MODEL)}
    for name in files_in(unpacked):
        assert (unpacked / name).read_bytes() == (ROOT / name).read_bytes()


def test_the_wheel_is_a_user_dir(python: Path, tmp_path: Path) -> None:
    # All libraries of this environment, but not its .pth files, of which one leads to the checkout.
    with_fairseq = ["env", f"PYTHONPATH={sysconfig.get_path('purelib')}", python]
    plugin = Path(run([*with_fairseq, "-m", "rnnsearch_fairseq", "user-dir"], tmp_path).strip())
    assert plugin.is_relative_to(python.parents[1])
    packed, here = (
        {path.relative_to(top): path.read_bytes() for path in top.rglob("*.*") if path.suffix != ".pyc"}
        for top in (plugin, ROOT / "rnnsearch_fairseq")
    )
    assert packed == {name: text for name, text in here.items() if name.suffix not in NOT_SHIPPED}
    options = ["--user-dir", plugin, "--arch", "bahdanau_gru", "--help"]
    assert "--maxout-size" in run([*with_fairseq, "-m", "fairseq_cli.train", *options], tmp_path)


@needs_shipped_model
def test_without_extras_the_wheel_translates_scores_and_serves(python: Path, tmp_path: Path) -> None:
    source, target = "Return a copy of the list.", "Renvoie une copie de la liste."
    commands = [place.partition(":")[0] for place, _ in COMMANDS.values()]
    script = f"""from importlib.util import find_spec
import {", ".join(f"rnnsearch_fairseq.{name}" for name in commands)}
assert not any(map(find_spec, ("fairseq", "omegaconf", "hydra")))
model = rnnsearch_fairseq.load({str(SHIPPED_MODEL)!r})
assert model.translate([{source!r}]) == [{target!r}]
assert model.score([{source!r}], [{target!r}])[0] > -5
assert model.align([{source!r}])[0].weights.ndim == 2"""
    run([python, "-c", script], tmp_path)
    with serving(SHIPPED_MODEL, tmp_path / "log", python=python) as running:
        asked = json.dumps({"q": source, "source": "en", "target": "fr"}).encode()
        with urlopen(Request(f"{running.url}translate", asked, {"Content-Type": "application/json"})) as answer:
            assert json.load(answer) == {"translatedText": target, "faults": []}

    rnnsearch = python.with_name("rnnsearch")
    done = subprocess.run([rnnsearch, "user-dir"], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and re.fullmatch(r"error: fairseq is not installed.*\n", done.stderr)


def test_the_latest_release_in_the_changelog_is_this_version() -> None:
    released = re.findall(r"^## (\S+).* – \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert released[0] == rnnsearch_fairseq.__version__
