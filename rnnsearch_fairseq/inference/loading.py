"""Read models from exported folders and from fairseq's checkpoints, and write such checkpoints.

A folder may come from anybody: it holds tensors (safetensors), JSON and text. A checkpoint is a pickle, to be taken
from one's own training; PyTorch reads it by its restricted unpickler (``weights_only=True``).
"""

import argparse
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from rnnsearch_fairseq.errors import InputError, in_short
from rnnsearch_fairseq.modules import rnnsearch, tree2seq
from rnnsearch_fairseq.modules.config import NetworkConfig
from rnnsearch_fairseq.modules.parameters import check_parameters, shared_names
from rnnsearch_fairseq.output import open_output
from rnnsearch_fairseq.search import SearchOptions
from rnnsearch_fairseq.text.lines import check_rereadable
from rnnsearch_fairseq.text.preparation import SUBWORDS, Preparation, read_preparation
from rnnsearch_fairseq.text.vocabulary import Vocabulary

CONFIG = "config.json"
VOCABULARIES = ("vocabulary.source.txt", "vocabulary.target.txt")
CHECKPOINTS = ("checkpoint_best.pt", "checkpoint_last.pt")
KINDS = {
    "rnnsearch": (rnnsearch.RNNsearchConfig, rnnsearch.RNNsearch),
    "tree2seq": (tree2seq.Tree2SeqConfig, tree2seq.Tree2Seq),
}
ARCHITECTURES = dict.fromkeys(("rnnsearch", *rnnsearch.ARCHITECTURES), "rnnsearch")
ARCHITECTURES |= dict.fromkeys(("tree2seq", *tree2seq.ARCHITECTURES), "tree2seq")
STATE = "_extra_state"  # PyTorch's name of the text settings among a checkpoint's parameters
EXPORT = "export the model again"
TRAIN = "give a checkpoint of fairseq-train with a model of this package, or a folder that rnnsearch export wrote"
# --eval-bleu leaves NumPy's numbers in a checkpoint, and what argparse configures, a Namespace.
_NUMPY = {"scalar": np.float64(0).__reduce__()[0], "_reconstruct": np.empty(0).__reduce__()[0]}
PLAIN_CLASSES = [argparse.Namespace, np.ndarray, np.dtype]
PLAIN_CLASSES += [type(np.dtype(name)) for name in ("bool", "int32", "int64", "float32", "float64")]
PLAIN_CLASSES += [(_NUMPY[name], f"numpy.{core}.multiarray.{name}") for name in _NUMPY for core in ("core", "_core")]


@dataclass(frozen=True)
class TextSettings:
    """The languages, vocabularies and preparations of source and target text; preparations are None if not known."""

    languages: tuple[str, str]
    vocabularies: tuple[Vocabulary, Vocabulary]
    preparations: tuple[Preparation, Preparation] | None


@dataclass(frozen=True)
class Usage:
    """How to use a model: options of the search, sentences to try, and what it was trained on and for, in Markdown."""

    search: dict[str, Any] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)
    description: str = ""

    def __post_init__(self) -> None:
        SearchOptions(**self.search)


@dataclass(frozen=True, eq=False)
class Member:
    """One model: its network, in float32 on the CPU, without dropout; ``training`` is a line about its training."""

    kind: str
    config: NetworkConfig
    network: nn.Module
    text: TextSettings
    training: str = ""
    usage: Usage = Usage()


def load_members(path: str | Path) -> list[Member]:
    """Load a model or an ensemble; see :func:`~rnnsearch_fairseq.inference.translator.load`."""
    members: list[Member] = []
    for part in split_paths(path):
        members += _read_folder(part) if os.path.exists(part / CONFIG) else [_member_of(read_checkpoint(part), part)]
    if any(member.text != members[0].text for member in members):
        raise InputError(
            f"{path}: the models differ in languages, vocabularies or preparation; give models of one text"
        )
    return members


def split_paths(path: str | Path) -> list[Path]:
    """The paths of an ensemble's members."""
    return [Path(part) for part in ([path] if os.path.exists(path) else str(path).split(":"))]


def model_files(path: str | Path) -> list[Path]:
    """The files that :func:`load_members` reads, for commands that must not write over them."""
    return [part if os.path.exists(part / CONFIG) else find_checkpoint(part) for part in split_paths(path)]


def tensor_files(members: int) -> list[str]:
    """The names of an exported folder's files of parameters."""
    return ["model.safetensors"] if members == 1 else [f"model{number}.safetensors" for number in range(1, members + 1)]


def _read_folder(folder: Path) -> list[Member]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    where, path = folder / CONFIG, folder
    check_rereadable(*(folder / name for name in (CONFIG, *VOCABULARIES, *SUBWORDS.values(), *tensor_files(1))))
    try:
        values = json.loads(where.read_bytes())
        languages, models, preparations = (values.pop(name) for name in ("languages", "models", "preparation"))
        if preparations is not None:
            preparations = tuple(read_preparation(preparations[name], name, folder, str(where)) for name in languages)
        source, target = (Vocabulary.read(folder / name) for name in VOCABULARIES)
        text, usage = TextSettings(tuple(languages), (source, target), preparations), Usage(**values)
        members = []
        for name, model in zip(tensor_files(len(models)), models):
            path = folder / name
            options = model["architecture"], model["config"]
            members.append(_make_member(*options, load_file(path), text, path, EXPORT, usage=usage))
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path}: not a file of tensors ({in_short(error)}); {EXPORT}") from error
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{where}: not a model's configuration ({in_short(error)}); {EXPORT}") from error
    return members


def find_checkpoint(path: Path) -> Path:
    """The checkpoint itself, or the best one, or else the last one, in the folder of a training."""
    near = [folder / name for folder in (path, path / "checkpoints") for name in CHECKPOINTS]
    found = next(filter(os.path.isfile, [path, *near]), None)
    if found is None:
        holds_none = f"or holds no {CONFIG} and no {' or '.join(CHECKPOINTS)}"
        raise InputError(f"{path}: no such checkpoint, or it may not be read, {holds_none}; {TRAIN}")
    return found


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint of fairseq, of any model; its tensors stay in the file until they are used."""
    path = find_checkpoint(path)
    try:
        torch.serialization.add_safe_globals(PLAIN_CLASSES)
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        state |= {name: {**state[name]} for name in ("model", "cfg")}
        if not all(isinstance(name, str) for name in state["model"]):
            raise ValueError("names of parameters are text")
    except Exception as error:  # damaged files raise many kinds of errors
        raise InputError(f"{path}: not a checkpoint ({type(error).__name__}); {TRAIN}") from error
    return state


def _member_of(state: dict[str, Any], path: Path) -> Member:
    try:
        values, tensors = {**(state["cfg"].get("model") or {})}, {**state["model"]}
        settings = tensors.pop(STATE)
        preparations = settings["preparation"] and tuple(Preparation(**one) for one in settings["preparation"])
        source, target = (Vocabulary(symbols, str(path)) for symbols in settings["vocabularies"])
        text = TextSettings(tuple(settings["languages"]), (source, target), preparations)
        tensors = {name.replace(".network.", ".", 1): tensor for name, tensor in tensors.items()}
        training = f"{count_updates(state):,} updates"
        return _make_member(values.get("_name"), values, tensors, text, path, TRAIN, training=training)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: does not hold a model and its vocabularies ({in_short(error)}); {TRAIN}") from error


def count_updates(state: dict[str, Any]) -> int:
    """The updates of a checkpoint's training; 0 if it does not say."""
    history = state.get("optimizer_history") or [{}]
    return history[-1].get("num_updates", 0)


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
    model = {name.replace(".", ".network.", 1): tensor for name, tensor in member.network.state_dict().items()}
    write_checkpoint(path, {"model": {"_name": member.kind, **asdict(member.config)}}, {**model, STATE: settings})


def _make_member(
    name: str,
    values: Mapping[str, Any],
    tensors: dict[str, Tensor],
    text: TextSettings,
    path: Path,
    cure: str,
    **more: Any,
) -> Member:
    """A member of the architecture ``name`` with the options in ``values``, and these parameters in float32."""
    if name not in ARCHITECTURES:
        raise InputError(f"{path}: its model is {in_short(name)!r}, and this reads {' and '.join(KINDS)}; {cure}")
    kind = ARCHITECTURES[name]
    config_class, network_class = KINDS[kind]
    try:
        config = config_class.of(values)
        with torch.device("meta"), _SkipInitialization():
            network = network_class(config, *map(len, text.vocabularies)).eval().requires_grad_(False)
    except InputError as error:
        raise InputError(f"{path}: its options build no model ({error}); {cure}") from error
    expected = network.state_dict(keep_vars=True)
    first_names = shared_names(expected)
    # A folder stores a shared matrix once, under its first name.
    tensors |= {name: tensors[first] for name, first in first_names.items() if first in tensors}
    check_parameters(tensors, expected, f"{path}: its model", cure)
    loaded = {
        first: nn.Parameter(tensors[first].to(torch.float32, copy=True), requires_grad=False)
        for first in dict.fromkeys(first_names.values())
    }
    network.load_state_dict({name: loaded[first] for name, first in first_names.items()}, assign=True)
    return Member(kind, config, network, text, **more)


class _SkipInitialization(TorchFunctionMode):
    """Skip the initial values of PyTorch's layers: on the meta device, drawing them would import PyTorch's compiler."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return None if func.__name__ in ("normal_", "uniform_") else func(*args, **(kwargs or {}))
