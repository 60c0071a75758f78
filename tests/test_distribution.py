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
from recipes.grammar import write_corpus
from rnnsearch_fairseq.cli import COMMANDS
from tests.serve.live import serving
from tests.trained import SHIPPED_MODEL, needs_shipped_model

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("rnnsearch_fairseq", "recipes", "tests", ".ci")
NOT_SHIPPED = {".png", ".gz", ".xz", ".ipynb", ".safetensors", ".fr", ".model"}  # pictures, results and models
FILES = ("pyproject.toml", "MANIFEST.in", "README.md", "CHANGELOG.md", "LICENSE")
MODEL = ["--arch", "bahdanau_gru_small", "--embedding-size", "8", "--hidden-size", "8"]
TRAINING = ["--task", "rnnsearch", "--criterion", "summed_nll", "--optimizer", "adadelta", "--batch-size", "8"]


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


def install(built: Path, folder: Path) -> tuple[Path, Path]:
    """The interpreter of a new environment that has only the wheel, and the folder of its libraries."""
    run([sys.executable, "-m", "venv", "--without-pip", folder], folder)
    options = ["install", "--no-deps", "--no-index", *built.glob("*.whl")]
    run([sys.executable, "-m", "pip", "--python", folder, *options], folder)
    (site,) = folder.glob("lib/python*/site-packages")
    return folder / "bin" / "python", site


@pytest.fixture(scope="module")
def python(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the wheel, and of this one all but the package."""
    python, site = install(built, tmp_path_factory.mktemp("clean"))
    # Not its .pth files, of which one leads to the checkout.
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib"))
    return python


@pytest.fixture(scope="module")
def plain(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the wheel and what it requires, without extras; of this one, by links."""
    python, site = install(built, tmp_path_factory.mktemp("plain"))
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
    return python


def test_the_source_distribution_holds_the_code_of_the_checkout(built: Path) -> None:
    (unpacked,) = (path for path in built.iterdir() if path.is_dir())
    assert unpacked.name == f"rnnsearch_fairseq-{rnnsearch_fairseq.__version__}"
    code = {name for name in files_in(ROOT) if Path(name).suffix not in NOT_SHIPPED}
    assert files_in(unpacked) == {name for name in code if not (ROOT / name).is_relative_to(SHIPPED_MODEL)}
    for name in files_in(unpacked):
        assert (unpacked / name).read_bytes() == (ROOT / name).read_bytes()


def test_the_wheel_is_a_user_dir(python: Path, tmp_path: Path) -> None:
    write_corpus(tmp_path, {"train": 40, "valid": 8}, seed=1)
    plugin = Path(run([python, "-m", "rnnsearch_fairseq", "user-dir"], tmp_path).strip())
    assert plugin.is_relative_to(python.parents[1])
    packed, here = (
        {str(path.relative_to(top)) for path in top.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
        for top in (plugin, ROOT / "rnnsearch_fairseq")
    )
    assert packed == {name for name in here if Path(name).suffix not in NOT_SHIPPED}
    of_plugin = ["--user-dir", plugin, "-s", "en", "-t", "fr"]
    texts = ["--trainpref", "train", "--validpref", "valid", "--destdir", "bin"]
    run([python, "-m", "fairseq_cli.preprocess", *of_plugin, *texts], tmp_path)
    training = [*MODEL, *TRAINING, "--max-update", "3", "--cpu"]
    run([python, "-m", "fairseq_cli.train", "bin", *of_plugin, *training], tmp_path)
    generating = ["--path", "checkpoints/checkpoint_last.pt", "--gen-subset", "valid", "--max-len-b", "5", "--cpu"]
    printed = run([python, "-m", "fairseq_cli.generate", "bin", *of_plugin, *generating], tmp_path)
    assert len(re.findall(r"^H-\d+\t", printed, re.MULTILINE)) == 8


@needs_shipped_model
def test_without_extras_the_wheel_translates_scores_and_serves(plain: Path, tmp_path: Path) -> None:
    known = "from importlib.util import find_spec; print([*map(find_spec, ('fairseq', 'omegaconf', 'hydra'))])"
    assert run([plain, "-c", known], tmp_path) == "[None, None, None]\n"
    commands = [place.partition(":")[0] for place, _ in COMMANDS.values()]
    run([plain, "-c", f"import {', '.join(f'rnnsearch_fairseq.{name}' for name in commands)}"], tmp_path)

    source, target = "Return a copy of the list.", "Renvoie une copie de la liste."
    for name, line in (("en", source), ("fr", target)):
        (tmp_path / name).write_text(f"{line}\n")
    rnnsearch = [plain.with_name("rnnsearch")]
    assert run([*rnnsearch, "translate", "en", "--model", SHIPPED_MODEL], tmp_path) == f"{target}\n"
    run([*rnnsearch, "score", "en", "fr", "--model", SHIPPED_MODEL, "--output", "scores"], tmp_path)
    assert json.loads((tmp_path / "scores").read_text())["logprob"] > -5
    aligned = (
        f"import rnnsearch_fairseq as r; print(r.load({str(SHIPPED_MODEL)!r}).align([{source!r}])[0].weights.shape)"
    )
    assert run([plain, "-c", aligned], tmp_path).count(",") == 1
    with serving(SHIPPED_MODEL, tmp_path / "log", python=plain) as running:
        asked = json.dumps({"q": source, "source": "en", "target": "fr"}).encode()
        with urlopen(Request(f"{running.url}translate", asked, {"Content-Type": "application/json"})) as answer:
            assert json.load(answer) == {"translatedText": target, "faults": []}

    done = subprocess.run([*rnnsearch, "user-dir"], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and re.fullmatch(r"error: fairseq is not installed.*\n", done.stderr)


def test_the_latest_release_in_the_changelog_is_this_version() -> None:
    released = re.findall(r"^## (\S+).* – \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert released[0] == rnnsearch_fairseq.__version__
