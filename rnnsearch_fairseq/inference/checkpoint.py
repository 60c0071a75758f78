"""Write checkpoints without a training: what fairseq needs to load a model, or to train on from it."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rnnsearch_fairseq.inference.loading import STATE, Member
from rnnsearch_fairseq.output import open_output


def write_checkpoint(path: Path, cfg: Mapping[str, Any], model: Mapping[str, Any], updates: int = 0) -> None:
    """Write fairseq's options ``cfg`` and its parameters ``model``, without the state of an optimizer."""
    history = {"criterion_name": "", "optimizer_name": "", "lr_scheduler_state": {}, "num_updates": updates}
    state = {"args": None, "cfg": cfg, "model": model, "optimizer_history": [history], "task_state": {}}
    state |= {"extra_state": {"train_iterator": {"epoch": 1}}, "last_optimizer_state": None}
    with open_output(path) as file:
        torch.save(state, file)


def write_member(path: Path, member: Member) -> None:
    """Write a loaded model as a checkpoint, for ``fairseq-train --finetune-from-model``."""
    text = member.text
    preparations = text.preparations and [asdict(one) for one in text.preparations]
    vocabularies = [vocabulary.symbols for vocabulary in text.vocabularies]
    settings = {"languages": [*text.languages], "vocabularies": vocabularies, "preparation": preparations}
    model: dict[str, Tensor | dict[str, Any]] = {
        name.replace(".", ".network.", 1): tensor for name, tensor in member.network.state_dict().items()
    }
    write_checkpoint(path, {"model": {"_name": member.kind, **asdict(member.config)}}, {**model, STATE: settings})
