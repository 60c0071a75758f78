"""Wheel and source distribution: built, installed where nothing of the checkout is, and used from there."""

import re
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest

import rnnsearch_fairseq
from recipes.grammar import write_corpus

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("rnnsearch_fairseq", "recipes", "tests", ".ci")
NOT_SHIPPED = {".png", ".gz", ".xz", ".ipynb", ".safetensors", ".fr", ".model"}  # pictures, results and models
MODEL_FOLDER = "recipes/docs_en_fr/model/"
FILES = ("pyproject.toml", "MANIFEST.in", "README.md", "CHANGELOG.md", "LICENSE")
MODEL = ["--arch", "bahdanau_gru_small", "--embedding-size", "8", "--hidden-size", "8"]
TRAINING = ["--task", "rnnsearch", "--criterion", "summed_nll", "--optimizer", "adadelta", "--batch-size", "8"]


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
    """The interpreter of an environment with the wheel, and of this one all but the package."""
    folder = tmp_path_factory.mktemp("clean")
    run([sys.executable, "-m", "venv", "--without-pip", folder], folder)
    run(
        [sys.executable, "-m", "pip", "--python", folder, "install", "--no-deps", "--no-index", *built.glob("*.whl")],
        folder,
    )
    (site,) = folder.glob("lib/python*/site-packages")
    # Not its .pth files, of which one leads to the checkout.
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib"))
    return folder / "bin" / "python"


def test_the_source_distribution_holds_the_code_of_the_checkout(built: Path) -> None:
    (unpacked,) = (path for path in built.iterdir() if path.is_dir())
    assert unpacked.name == f"rnnsearch_fairseq-{rnnsearch_fairseq.__version__}"
    code = {name for name in files_in(ROOT) if Path(name).suffix not in NOT_SHIPPED}
    assert files_in(unpacked) == {name for name in code if not name.startswith(MODEL_FOLDER)}
    for name in files_in(unpacked):
        assert (unpacked / name).read_bytes() == (ROOT / name).read_bytes()


def test_the_wheel_is_a_user_dir(python: Path, tmp_path: Path) -> None:
    write_corpus(tmp_path, {"train": 40, "valid": 8}, seed=1)
    plugin = Path(run([python, "-m", "rnnsearch_fairseq", "user-dir"], tmp_path).strip())
    assert plugin.is_relative_to(python.parents[1])
    of_plugin = ["--user-dir", plugin, "-s", "en", "-t", "fr"]
    texts = ["--trainpref", "train", "--validpref", "valid", "--destdir", "bin"]
    run([python, "-m", "fairseq_cli.preprocess", *of_plugin, *texts], tmp_path)
    training = [*MODEL, *TRAINING, "--max-update", "3", "--cpu"]
    run([python, "-m", "fairseq_cli.train", "bin", *of_plugin, *training], tmp_path)
    generating = ["--path", "checkpoints/checkpoint_last.pt", "--gen-subset", "valid", "--max-len-b", "5", "--cpu"]
    printed = run([python, "-m", "fairseq_cli.generate", "bin", *of_plugin, *generating], tmp_path)
    assert len(re.findall(r"^H-\d+\t", printed, re.MULTILINE)) == 8


def test_the_wheel_holds_more_than_code(python: Path, tmp_path: Path) -> None:
    def names(folder: Path) -> set[str]:
        paths = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        return {str(path.relative_to(folder)) for path in paths}

    plugin = Path(run([python, "-m", "rnnsearch_fairseq", "user-dir"], tmp_path).strip())
    assert names(plugin) == {name for name in names(ROOT / "rnnsearch_fairseq") if Path(name).suffix not in NOT_SHIPPED}
    assert "--host" in run([python, "-m", "rnnsearch_fairseq", "serve", "--help"], tmp_path)


def test_the_latest_release_in_the_changelog_is_this_version() -> None:
    released = re.findall(r"^## (\S+).* – \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert released[0] == rnnsearch_fairseq.__version__
