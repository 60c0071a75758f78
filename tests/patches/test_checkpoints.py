"""With the plugin, fairseq loads the checkpoints that it loads without it, and runs no code in them."""

import argparse
import re
from pathlib import Path
from typing import Any

import fairseq
import fairseq.tasks
import numpy as np
import pytest
import torch
from fairseq.checkpoint_utils import load_model_ensemble_and_task
from fairseq.distributed.utils import _TensorPlaceholder
from omegaconf import OmegaConf

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.patches.fixes import EVALUATED
from tests.builders import make_dictionary, parse_training
from tests.commands import PLUGIN, run

pytestmark = [pytest.mark.patched, pytest.mark.filterwarnings("ignore")]

ENCODER, DECODER = (
    [f"--{side}-{word}" for word in ["layers=1", "embed-dim=8", "ffn-embed-dim=8", "attention-heads=2"]]
    for side in ("encoder", "decoder")
)
TINY = [*ENCODER, *DECODER]
PAIR = ["-s", "de", "-t", "en"]
MODELS = {
    "roberta": ["--task", "masked_lm", "--arch", "roberta", "--criterion", "masked_lm", *ENCODER],
    "bart": ["--task", "denoising", "--arch", "bart_base", *TINY],
    "multilingual": ["--task", "multilingual_translation", "--arch", "multilingual_transformer", *TINY],
    "transformer": ["--task", "translation", "--arch", "transformer", *TINY, *PAIR],
    "adaptive": ["--task", "translation", "--arch", "transformer", *TINY, *PAIR, "--adaptive-softmax-cutoff", "5,10"],
    "fconv": ["--task", "translation", "--arch", "fconv", "--encoder-layers", "[(8, 3)] * 2", *PAIR],
    "lstm": ["--task", "translation", "--arch", "lstm", *PAIR],
}


def save(folder: Path, words: list[str], **changes: Any) -> Path:
    """Write the checkpoint of an untrained model, with some options changed."""
    for name in ("dict.txt", "dict.de.txt", "dict.en.txt", "dict.fr.txt"):
        make_dictionary(20).save(str(folder / name))
    (folder / "train.bin").touch()
    cfg = parse_training("--max-update", "1", *words)
    cfg.task.data = str(folder)
    if "multilingual_translation" in words:
        cfg.task.lang_pairs, cfg.task.source_lang, cfg.task.target_lang = "de-en,fr-en", "de", "en"
        cfg.model.lang_pairs = "de-en,fr-en"
    task = fairseq.tasks.setup_task(cfg.task)
    model = task.build_model(cfg.model)
    for option, value in changes.items():
        setattr(cfg.model, option, value)
    state = {"args": None, "cfg": OmegaConf.to_container(cfg), "model": model.state_dict(), "extra_state": {}}
    state["optimizer_history"] = [{"criterion_name": "x", "num_updates": 1, "lr_scheduler_state": {}}]
    torch.save({**state, "last_optimizer_state": {}}, folder / "model.pt")
    return folder / "model.pt"


@pytest.mark.parametrize("name", MODELS)
def test_checkpoints_of_fairseqs_own_models_load(tmp_path: Path, name: str) -> None:
    path = save(tmp_path, MODELS[name])
    (model,), _, _ = load_model_ensemble_and_task([str(path)])
    saved = torch.load(path, weights_only=True)["model"]
    assert all(torch.equal(tensor, saved[name]) for name, tensor in model.state_dict().items())


CODE = "[__import__('pathlib').Path('ran').touch()]"
HOSTILE = {
    "adaptive_softmax_cutoff": ("transformer", CODE),
    "encoder_layers": ("fconv", CODE),
    "decoder_attention": ("lstm", CODE),
}


@pytest.mark.parametrize("option", HOSTILE)
def test_code_in_an_option_is_refused(tmp_path: Path, option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name, code = HOSTILE[option]
    path = save(tmp_path, MODELS[name], **{option: code})
    with pytest.raises(InputError, match=rf"model\.pt: its option {option} holds code .*; give a checkpoint that you"):
        load_model_ensemble_and_task([str(path)])
    assert not (tmp_path / "ran").exists()


class CallsAFunction:
    def __reduce__(self) -> Any:
        return Path.touch, (Path("ran"),)


def test_fairseq_generate_runs_nothing_in_a_hostile_checkpoint(tmp_path: Path) -> None:
    path = save(tmp_path, MODELS["transformer"], adaptive_softmax_cutoff=CODE)
    words = [tmp_path, *PLUGIN, *PAIR, "--cpu", "--path", path]
    done = run("fairseq-generate", *words, cwd=tmp_path, status=1)
    assert re.search(r"^error: \S+model\.pt: its option adaptive_softmax_cutoff holds code", done.stderr, re.MULTILINE)
    assert "Traceback" not in done.stderr
    torch.save({"model": CallsAFunction()}, path)
    done = run("fairseq-generate", *words, cwd=tmp_path, status=1)
    assert "Weights only load failed" in done.stderr
    assert not (tmp_path / "ran").exists()


CALLS = re.compile(r"(?<![.\w])(?:utils\.|options\.)?(?:eval|eval_str_\w+|eval_bool)\(\s*([\w.]+)")


def test_all_options_that_fairseq_evaluates_are_known() -> None:
    """But those of the command line, and of data on the disk."""
    package = Path(fairseq.__file__).parent
    names = set()
    for path in package.rglob("*.py"):
        if path.relative_to(package).parts[0] not in ("examples", "distributed"):
            calls = re.findall(
                r"(?<![.\w])(?:utils\.|options\.)?(?:eval|eval_str_\w+|eval_bool)\(\s*([\w.]+)", path.read_text()
            )
            names |= {call.rpartition(".")[2] for call in calls}
    others = {"x", "line", "strip", "self", "model", "uf"}
    unknown = {name for name in names - others if not name.endswith(EVALUATED)}
    assert unknown == set()


def things() -> dict[str, Any]:
    config = OmegaConf.create({"lr": [0.1], "n": 1, "name": "x", "flag": True, "none": None, "deep": {"a": 2.5}})
    return {
        "namespace": argparse.Namespace(arch="rnnsearch", lr=[0.25]),
        "arrays": [np.arange(3), np.ones(2, np.float32), np.zeros(1, np.int32), np.array([True]), np.array([0.5])],
        "scalars": [np.float64(0.5), np.int64(3), np.float32(2)],
        "broadcast": {"cfg": config, "model": _TensorPlaceholder(3)},
    }


@pytest.mark.parametrize("name", things())
def test_what_fairseq_writes_loads_with_weights_only(name: str, tmp_path: Path) -> None:
    def reload() -> Any:
        torch.save(things()[name], tmp_path / "x.pt")
        return torch.load(tmp_path / "x.pt", map_location="cpu")

    allowed = torch.serialization.get_safe_globals()
    torch.serialization.clear_safe_globals()
    try:
        with pytest.raises(Exception, match=r"[Ww]eights"):
            reload()
    finally:
        torch.serialization.add_safe_globals(allowed)
    assert str(reload()) == str(things()[name])
