"""The Hydra configuration trains exactly what the command lines train."""

import re
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

from recipes.grammar import write_corpus
from rnnsearch_fairseq import plugin
from tests.commands import preprocess, run, train

PAPER = ["--task", "rnnsearch", "--pool-batches", "20", "--optimizer", "adadelta", "--clip-norm", "1"]
PAPER += ["--criterion", "summed_nll", "--batch-size", "80", "--log-format", "simple", "--log-interval", "100"]
UNTIL_NO_BETTER = ["--patience", "10", "--save-interval-updates", "1000", "--keep-interval-updates", "1"]
UNTIL_NO_BETTER += ["--no-epoch-checkpoints"]
# Table 2 of the paper: architecture, longest sentence, and the end of training.
MODELS = {
    "RNNencdec-30": ("rnnencdec", "30", ["--max-update", "846000"]),
    "RNNencdec-50": ("rnnencdec", "50", ["--max-update", "600000"]),
    "RNNsearch-30": ("bahdanau_gru", "30", ["--max-update", "471000"]),
    "RNNsearch-50": ("bahdanau_gru", "50", ["--max-update", "288000"]),
    "RNNsearch-50*": ("bahdanau_gru", "50", UNTIL_NO_BETTER),
}
# The overrides that choose them, as the configuration's comments say.
COMMENTS = Path(plugin.__file__).with_name("rnnsearch50.yaml").read_text().replace("\\\n#", "")
OVERRIDES = {name: words.split() for name, words in re.findall(r"^#   (RNN\S+) +(.*)", COMMENTS, re.MULTILINE)}
TINY = ("embedding_size", "hidden_size", "alignment_size", "maxout_size")


def composed_by_hydra(*overrides: str) -> dict[str, Any]:
    GlobalHydra.instance().clear()
    hydra_init("rnnsearch50")
    with initialize_config_module("rnnsearch_fairseq.plugin", version_base="1.1"):
        cfg = compose("rnnsearch50", overrides=["task.data=DATA", *overrides])
    add_defaults(cfg)
    return OmegaConf.to_container(cfg, resolve=True, enum_to_str=True)


def composed_by_the_command_line(arch: str, max_words: str, end: list[str]) -> dict[str, Any]:
    words = ["DATA", "--arch", arch, *PAPER, "--max-words", max_words, *end]
    args = options.parse_args_and_arch(options.get_training_parser(), words)
    return OmegaConf.to_container(convert_namespace_to_omegaconf(args), resolve=True)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_configuration_is_that_of_the_command_line(name: str) -> None:
    ours, theirs = composed_by_hydra(*OVERRIDES.get(name, [])), composed_by_the_command_line(*MODELS[name])
    ours["dataset"]["batch_size_valid"] = ours["dataset"]["batch_size_valid"] or ours["dataset"]["batch_size"]
    for section in ("model", "task", "criterion", "optimizer", "lr_scheduler", "optimization", "dataset", "checkpoint"):
        assert ours[section] == theirs[section], section


@pytest.mark.slow
@pytest.mark.train
def test_hydra_trains_a_model_that_fairseq_can_go_on_with(tmp_path: Path) -> None:
    write_corpus(tmp_path, {"train": 60, "valid": 10}, seed=5, longest=12)
    preprocess(tmp_path, "-s", "en", "-t", "fr", "--trainpref", "train", "--validpref", "valid")
    words = ["--config-path", "pkg://rnnsearch_fairseq.plugin", "--config-name", "rnnsearch50"]
    words += ["task.data=bin", *OVERRIDES["RNNencdec-30"][:-1], *(f"model.{size}=8" for size in TINY)]
    words += ["optimization.max_update=2", "checkpoint.save_dir=hydra", "dataset.batch_size=30", "common.cpu=true"]
    run("fairseq-hydra-train", *words, cwd=tmp_path)
    words = ["--arch", "rnnencdec", "--max-words", "30", *PAPER, "--batch-size", "30", "--max-update", "4", "--cpu"]
    words += [word for size in TINY for word in ("--" + size.replace("_", "-"), "8")]
    train(tmp_path / "bin", tmp_path / "hydra", *words)
    assert torch.load(tmp_path / "hydra/checkpoint_last.pt")["optimizer_history"][-1]["num_updates"] == 4
    assert not any(path.name in {"outputs", "multirun"} for path in tmp_path.iterdir()), "Hydra stays in the folder"
