"""Read models from exported folders and from fairseq's checkpoints, and write such checkpoints.

A folder may come from anybody: it holds tensors (safetensors), JSON and text. A checkpoint is a pickle, which PyTorch
reads with its restricted unpickler (``weights_only=True``). Load only checkpoints that you trained yourself.
"""

import argparse
import contextlib
import json
import os
import stat
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from rnnsearch_fairseq.command_line import option
from rnnsearch_fairseq.errors import InputError, quote
from rnnsearch_fairseq.modules import rnnsearch, tree2seq
from rnnsearch_fairseq.modules.config import NetworkConfig
from rnnsearch_fairseq.modules.parameters import check_parameters, shared_names
from rnnsearch_fairseq.output import open_output
from rnnsearch_fairseq.search import SearchOptions
from rnnsearch_fairseq.text.settings import TextSettings, pack_record, unpack_record

CONFIG, TEXT, TENSORS = "config.json", "text.json", "model.safetensors"  # of an exported folder
MAX_CONFIG, MAX_TEXT, MAX_HEADER = 1 << 20, 1 << 26, 1 << 20  # bytes of these files, and of the header of tensors
MAX_PARAMETERS = 1 << 30
CHECKPOINTS = ("checkpoint_best.pt", "checkpoint_last.pt")
KINDS = {
    "rnnsearch": (rnnsearch.RNNsearchConfig, rnnsearch.RNNsearch),
    "tree2seq": (tree2seq.Tree2SeqConfig, tree2seq.Tree2Seq),
}
ARCHITECTURES = dict.fromkeys(("rnnsearch", *rnnsearch.ARCHITECTURES), "rnnsearch")
ARCHITECTURES |= dict.fromkeys(("tree2seq", *tree2seq.ARCHITECTURES), "tree2seq")
STATE = "_extra_state"  # PyTorch's name of the text settings among a checkpoint's parameters
# The greatest values that a model may recommend for a search. The model may be a stranger's, and its user waits for the
# search.
MOST = {"beam": 50, "max_len_a": 3, "max_len_b": 1000, "min_len": 1000}
# --eval-bleu leaves NumPy's numbers in a checkpoint, and what argparse configures, a Namespace.
_NUMPY = {"scalar": np.float64(0).__reduce__()[0], "_reconstruct": np.empty(0).__reduce__()[0]}
PLAIN_CLASSES = [argparse.Namespace, np.ndarray, np.dtype]
PLAIN_CLASSES += [type(np.dtype(name)) for name in ("bool", "int32", "int64", "float32", "float64")]
PLAIN_CLASSES += [(_NUMPY[name], f"numpy.{core}.multiarray.{name}") for name in _NUMPY for core in ("core", "_core")]


@dataclass(frozen=True)
class Usage:
    """How to use a model: options of the search, sentences to try, and what it was trained on and for, in Markdown."""

    search: dict[str, Any] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)
    description: str = ""

    def __post_init__(self) -> None:
        SearchOptions(**self.search)
        if any(self.search.get(name, 0) > most for name, most in MOST.items()) or "length_statistics" in self.search:
            bounds = ", ".join(f"{option(name)} {most:,}" for name, most in MOST.items())
            raise InputError(f"a model recommends at most {bounds}, and no --length-statistics; leave it out")
        if not isinstance(self.examples, list):
            raise ValueError("the examples are a list")
        "".join([self.description, *self.examples]).encode()  # fails for what is not text, or half of a character


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
    parts = split_paths(path)
    members = [_read_folder(part) if os.path.exists(part / CONFIG) else _read_training(part) for part in parts]
    if any(member.text != members[0].text for member in members):
        differ = "the models differ in languages, vocabularies or preparation"
        raise InputError(f"{path}: {differ}; give models of one text")
    return members


def split_paths(path: str | Path) -> list[Path]:
    """The paths of an ensemble's members. If a path is the folder of a training by ``train.sh`` that has ended, its
    place is taken by the folder that the training exported."""
    parts = [Path(part) for part in ([path] if os.path.exists(path) else str(path).split(":"))]
    return [part / "model" if os.path.exists(part / "model" / CONFIG) else part for part in parts]


def model_files(path: str | Path) -> list[Path]:
    """The files that :func:`load_members` reads, for commands that must not write over them."""
    return [part if os.path.exists(part / CONFIG) else find_checkpoint(part) for part in split_paths(path)]


@contextlib.contextmanager
def _reading(path: Path, most: int | None = None) -> Iterator[None]:
    """Name the file and the cure in each error of reading the file. Damaged files raise many kinds of errors.

    With ``most``, the file belongs to a folder, which may be a stranger's: it is a regular file of at most ``most``
    bytes.
    """
    cure = "copy it again, use the version of the package that wrote it, or give another model"
    try:
        if most is not None:
            about = os.stat(path)
            if not stat.S_ISREG(about.st_mode):
                raise InputError("not a regular file")
            if about.st_size > most:
                raise InputError(f"it has {about.st_size:,} bytes, and this model's file may have at most {most:,}")
        yield
    except Exception as error:
        what = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
        raise InputError(f"{path}: cannot be read ({quote(what)}); {cure}") from error


def _read_folder(folder: Path) -> Member:
    from safetensors.torch import load_file

    with _reading(folder / TEXT, MAX_TEXT):
        text = TextSettings.from_record(json.loads((folder / TEXT).read_bytes()))
    with _reading(folder / CONFIG, MAX_CONFIG):
        values = json.loads((folder / CONFIG).read_bytes())
        name, config, training = values.pop("architecture"), values.pop("config"), values.pop("training", "")
        member = _make_member(name, config, text, quote(training), Usage(**values))
    with _reading(folder / TENSORS, MAX_HEADER + 8 * _count(member.network)):
        _fill(member.network, load_file(folder / TENSORS))
    return member


def find_checkpoint(path: Path) -> Path:
    """The path itself if it is a file, or the best checkpoint in the folder of a training, or else the last one."""
    near = [folder / name for folder in (path, path / "checkpoints") for name in CHECKPOINTS]
    checkpoint = next(filter(os.path.isfile, [path, *near]), None)
    if checkpoint is None:
        inside = next(path.glob(f"*/{CONFIG}"), None)
        trained = "a checkpoint of fairseq-train, or a folder of rnnsearch export"
        cure = f"give {inside.parent if inside else trained}"
        raise InputError(f"{path}: neither a checkpoint nor a folder that holds one, or {CONFIG}; {cure}")
    return checkpoint


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint of fairseq, of any model; its tensors stay in the file until they are used."""
    path = find_checkpoint(path)
    torch.serialization.add_safe_globals(PLAIN_CLASSES)
    with _reading(path):
        check_records(path)
        return torch.load(path, map_location="cpu", weights_only=True, mmap=True)


def check_records(path: Path) -> None:
    """Raise an OSError if a record of a checkpoint differs from its checksum, which ``torch.load`` does not compare."""
    if not zipfile.is_zipfile(path):
        raise OSError("it is not a checkpoint, or a part of one")
    with zipfile.ZipFile(path) as archive:
        if (record := archive.testzip()) is not None:
            raise OSError(f"{record} is damaged")


def _read_training(path: Path) -> Member:
    state = read_checkpoint(path)
    with _reading(path):
        values, tensors = {**(state["cfg"].get("model") or {})}, {**state["model"]}
        text = TextSettings.from_record(unpack_record(tensors.pop(STATE)))
        member = _make_member(values.get("_name"), values, text, f"{count_updates(state):,} updates")
        _fill(member.network, {name.replace(".network.", ".", 1): tensor for name, tensor in tensors.items()})
    return member


def count_updates(state: dict[str, Any]) -> int:
    return state["optimizer_history"][-1]["num_updates"]


def write_checkpoint(path: Path, cfg: Mapping[str, Any], model: Mapping[str, Any], updates: int = 0) -> None:
    """Write fairseq's options ``cfg`` and its parameters ``model``, without the state of an optimizer."""
    history = {"criterion_name": "", "optimizer_name": "", "lr_scheduler_state": {}, "num_updates": updates}
    state = {"args": None, "cfg": cfg, "model": model, "optimizer_history": [history], "task_state": {}}
    state |= {"extra_state": {"train_iterator": {"epoch": 1}}, "last_optimizer_state": None}
    with open_output(path) as file:
        torch.save(state, file)


def write_member(path: Path, member: Member) -> None:
    """Write a loaded model as a checkpoint, for ``fairseq-train --finetune-from-model``."""
    model = {name.replace(".", ".network.", 1): tensor for name, tensor in member.network.state_dict().items()}
    source, target = member.text.languages
    task = {"_name": "translation", "data": ".", "source_lang": source, "target_lang": target}
    cfg = {"model": {"_name": member.kind, **asdict(member.config)}, "task": task}
    write_checkpoint(path, cfg, {**model, STATE: pack_record(member.text.to_record())})


def _make_member(name: str, values: Mapping[str, Any], text: TextSettings, *more: Any) -> Member:
    """A member of the architecture ``name`` with the options in ``values``; its parameters have no storage yet."""
    if name not in ARCHITECTURES:
        others = "models of other packages are for fairseq's commands"
        raise InputError(f"its model is {quote(name)!r}, and this package reads {' and '.join(KINDS)}; {others}")
    kind = ARCHITECTURES[name]
    config_class, network_class = KINDS[kind]
    config = config_class.from_values(values)
    with torch.device("meta"), _SkipInitialization():
        network = network_class(config, *map(len, text.vocabularies)).eval().requires_grad_(False)
    if _count(network) > MAX_PARAMETERS:
        raise InputError(f"its model has {_count(network):,} parameters, and at most {MAX_PARAMETERS:,} are read")
    return Member(kind, config, network, text, *more)


def _count(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def _fill(network: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Give a network without storage its parameters, in float32."""
    expected = network.state_dict(keep_vars=True)
    first_names = shared_names(expected)
    for name, first in first_names.items():
        if name not in tensors and first in tensors:  # a folder stores a shared matrix once, under its first name
            tensors[name] = tensors[first]
    check_parameters(tensors, expected)
    loaded = {
        first: nn.Parameter(tensors[first].to(torch.float32, copy=True), requires_grad=False)
        for first in dict.fromkeys(first_names.values())
    }
    network.load_state_dict({name: loaded[first] for name, first in first_names.items()}, assign=True)


class _SkipInitialization(TorchFunctionMode):
    """Skip the initial values of PyTorch's layers: on the meta device, drawing them would import PyTorch's compiler."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return None if func.__name__ in ("normal_", "uniform_") else func(*args, **(kwargs or {}))
