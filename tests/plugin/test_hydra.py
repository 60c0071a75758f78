"""The Hydra configuration trains exactly what the command lines train."""

import re
from pathlib import Path
from shlex import split
from typing import Any

import pytest
from fairseq.dataclass.initialize import add_defaults, hydra_init
from hydra import compose, initialize_config_module
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf

from rnnsearch_fairseq import plugin
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.plugin.models import RNNsearchModel
from tests.builders import parse_training

PAPER = split("--task rnnsearch --pool-batches 20 --optimizer adadelta --clip-norm 1 --criterion summed_nll")
PAPER += split("--batch-size 80 --log-format simple --log-interval 100")
UNTIL_NO_BETTER = split("--patience 10 --save-interval-updates 1000 --keep-interval-updates 1 --no-epoch-checkpoints")
# Of Table 2 of the paper: architecture, longest sentence, and the end of training.
MODELS = {
    "RNNencdec-30": ("rnnencdec", "30", ["--max-update", "846000"]),
    "RNNsearch-50": ("bahdanau_gru", "50", ["--max-update", "288000"]),
    "RNNsearch-50*": ("bahdanau_gru", "50", UNTIL_NO_BETTER),
}
# The overrides that choose them, as the configuration's comments say.
COMMENTS = Path(plugin.__file__).with_name("rnnsearch50.yaml").read_text().replace("\\\n#", "")
OVERRIDES = {name: words.split() for name, words in re.findall(r"^#   (RNN\S+) +(.*)", COMMENTS, re.MULTILINE)}


def composed_by_hydra(*overrides: str) -> dict[str, Any]:
    GlobalHydra.instance().clear()
    hydra_init("rnnsearch50")
    with initialize_config_module("rnnsearch_fairseq.plugin", version_base="1.1"):
        cfg = compose("rnnsearch50", overrides=["task.data=data", *overrides])
    add_defaults(cfg)
    return OmegaConf.to_container(cfg, resolve=True, enum_to_str=True)


def composed_by_the_command_line(arch: str, max_words: str, end: list[str]) -> dict[str, Any]:
    return OmegaConf.to_container(parse_training("--arch", arch, *PAPER, "--max-words", max_words, *end), resolve=True)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_configuration_is_that_of_the_command_line(name: str) -> None:
    ours, theirs = composed_by_hydra(*OVERRIDES.get(name, [])), composed_by_the_command_line(*MODELS[name])
    ours["dataset"]["batch_size_valid"] = ours["dataset"]["batch_size_valid"] or ours["dataset"]["batch_size"]
    for section in ("model", "task", "criterion", "optimizer", "lr_scheduler", "optimization", "dataset", "checkpoint"):
        assert ours[section] == theirs[section], section


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_name_of_an_architecture_without_its_options_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    cfg = OmegaConf.create(composed_by_hydra("model._name=bahdanau_gru_small")["model"])
    monkeypatch.setattr(HydraConfig, "initialized", lambda: True)
    with pytest.raises(InputError, match=r"too: model\.embedding_size=256 model\.hidden_size=256"):
        RNNsearchModel.build_model(cfg, task=None)
