"""The Hydra configurations train exactly what the command lines train."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq import options
from fairseq.dataclass.initialize import add_defaults, hydra_init
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from hydra import compose, initialize_config_module
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf

import rnnsearch_fairseq
from rnnsearch_fairseq.corpora.grammar import write_corpus

BIN = Path(sys.executable).parent
USER_DIR = str(Path(rnnsearch_fairseq.__file__).parent)
PAPER = ["--task", "pooled_translation", "--optimizer", "adadelta", "--clip-norm", "1", "--criterion", "summed_nll"]
PAPER += ["--batch-size", "80", "--log-format", "simple", "--log-interval", "100"]
MODELS = {  # Table 2 of the paper: architecture, longest sentence, updates
    "rnnencdec30": ("rnnencdec", "30", "846000"),
    "rnnencdec50": ("rnnencdec", "50", "600000"),
    "rnnsearch30": ("bahdanau_gru", "30", "471000"),
    "rnnsearch50": ("bahdanau_gru", "50", "288000"),
}
TINY = ("embedding_size", "hidden_size", "alignment_size", "maxout_size")


def composed_by_hydra(name: str, *overrides: str) -> dict[str, Any]:
    GlobalHydra.instance().clear()
    hydra_init(name)
    with initialize_config_module("rnnsearch_fairseq.config", version_base="1.1"):
        cfg = compose(name, overrides=["task.data=DATA", *overrides])
    add_defaults(cfg)
    return OmegaConf.to_container(cfg, resolve=True, enum_to_str=True)


def composed_by_the_command_line(arch: str, max_words: str, max_update: str) -> dict[str, Any]:
    words = ["DATA", "--arch", arch, *PAPER, "--max-words", max_words, "--max-update", max_update]
    args = options.parse_args_and_arch(options.get_training_parser(), words)
    return OmegaConf.to_container(convert_namespace_to_omegaconf(args), resolve=True)


@pytest.mark.parametrize("name", sorted(MODELS))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_configuration_is_that_of_the_command_line(name: str) -> None:
    assert_equal_configurations(composed_by_hydra(name), composed_by_the_command_line(*MODELS[name]))


@pytest.mark.parametrize("arch", ["groundhog_search", "groundhog_encdec"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_original_code_is_chosen_by_its_model_group(arch: str) -> None:
    ours, theirs = (
        composed_by_hydra("rnnsearch30", f"+model={arch}"),
        composed_by_the_command_line(arch, "30", "471000"),
    )
    assert_equal_configurations(ours, theirs)


def assert_equal_configurations(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    ours["dataset"]["batch_size_valid"] = ours["dataset"]["batch_size_valid"] or ours["dataset"]["batch_size"]
    for section in ("model", "task", "criterion", "optimizer", "lr_scheduler", "optimization", "dataset"):
        assert ours[section] == theirs[section], section


@pytest.mark.slow
@pytest.mark.train
@pytest.mark.parametrize("name", ["rnnsearch30", "rnnencdec50"])
def test_training_gives_the_same_parameters(name: str, tmp_path: Path) -> None:
    write_corpus(tmp_path, {"train": 120, "valid": 10, "test": 10}, seed=5, longest=12)
    run(
        tmp_path,
        "fairseq-preprocess",
        "-s",
        "en",
        "-t",
        "fr",
        "--trainpref",
        "train",
        "--validpref",
        "valid",
        "--destdir",
        "bin",
    )
    arch, max_words, _ = MODELS[name]
    run(
        tmp_path,
        "fairseq-hydra-train",
        *("--config-path", "pkg://rnnsearch_fairseq.config", "--config-name", name, "task.data=bin"),
        *(f"model.{size}=8" for size in TINY),
        *("optimization.max_update=4", "checkpoint.save_dir=hydra", "dataset.batch_size=30", "common.cpu=true"),
    )
    sizes = [word for size in TINY for word in ("--" + size.replace("_", "-"), "8")]
    run(
        tmp_path,
        "fairseq-train",
        *("bin", "--user-dir", USER_DIR, "--arch", arch, "--max-words", max_words, *PAPER, *sizes),
        *("--batch-size", "30", "--max-update", "4", "--save-dir", "line", "--cpu"),
    )
    hydra, line = (torch.load(tmp_path / folder / "checkpoint_last.pt")["model"] for folder in ("hydra", "line"))
    assert hydra.keys() == line.keys()
    for parameter in hydra:
        torch.testing.assert_close(hydra[parameter], line[parameter], rtol=0, atol=1e-6)
    assert not any(folder.name in {"outputs", "multirun"} for folder in tmp_path.iterdir()), "Hydra stays in the folder"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no data is named; give the --destdir of a finished fairseq-preprocess, under Hydra as task.data=FOLDER"),
        (["task.data=none"], "none: no such file or directory; give the --destdir of a finished fairseq-preprocess"),
    ],
)
def test_missing_data_is_said_in_one_sentence(words: list[str], said: str, tmp_path: Path) -> None:
    command = [BIN / "fairseq-hydra-train", "--config-path", "pkg://rnnsearch_fairseq.config"]
    command += ["--config-name", "rnnsearch30", "common.cpu=true", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"\nerror: {said}\n" in done.stderr
    assert "Traceback" not in done.stderr


def run(folder: Path, command: str, *words: str) -> None:
    done = subprocess.run([BIN / command, *words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
