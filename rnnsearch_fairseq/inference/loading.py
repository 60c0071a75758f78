"""Read models from exported folders and from fairseq's checkpoints.

A folder may come from anybody: it holds tensors (safetensors), JSON and text, which are compared with each other before
they are used. A checkpoint is a pickle, to be taken from one's own training; PyTorch reads it by its restricted
unpickler (``weights_only=True``).
"""

import argparse
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from rnnsearch_fairseq.errors import InputError, in_short
from rnnsearch_fairseq.modules import rnnsearch, tree2seq
from rnnsearch_fairseq.modules.config import NetworkConfig
from rnnsearch_fairseq.modules.parameters import check_parameters, shared_names
from rnnsearch_fairseq.search import SearchOptions
from rnnsearch_fairseq.text.lines import read_plain
from rnnsearch_fairseq.text.preparation import Preparation, read_preparation
from rnnsearch_fairseq.text.vocabulary import Vocabulary

CONFIG = "config.json"
VOCABULARIES = ("vocabulary.source.txt", "vocabulary.target.txt")
CHECKPOINTS = ("checkpoint_best.pt", "checkpoint_last.pt")
KINDS = {
    "rnnsearch": (rnnsearch.RNNsearchConfig, rnnsearch.RNNsearch),
    "tree2seq": (tree2seq.Tree2SeqConfig, tree2seq.Tree2Seq),
}
ARCHITECTURES = {
    **dict.fromkeys(("rnnsearch", *rnnsearch.ARCHITECTURES), "rnnsearch"),
    **dict.fromkeys(("tree2seq", *tree2seq.ARCHITECTURES), "tree2seq"),
}
MAX_CONFIG_BYTES = 1_000_000
LANGUAGE = r"[A-Za-z0-9_-]{1,40}"
DAMAGE_ERRORS = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RuntimeError)
STATE = "_extra_state"  # PyTorch's name of the text settings among a checkpoint's parameters
EXPORT = "export the model again"
TRAIN = (
    "give a checkpoint that fairseq-train wrote with a model of this package, or, of somebody else's model, a folder "
    "that rnnsearch export wrote"
)
# --eval-bleu and old criterions leave NumPy's numbers and a Namespace in a checkpoint.
_NUMPY = {"scalar": np.float64(0).__reduce__()[0], "_reconstruct": np.empty(0).__reduce__()[0]}
PLAIN_CLASSES = [argparse.Namespace, np.ndarray, np.dtype]
PLAIN_CLASSES += [type(np.dtype(name)) for name in ("bool", "int32", "int64", "float32", "float64")]
PLAIN_CLASSES += [(_NUMPY[name], f"numpy.{core}.multiarray.{name}") for name in _NUMPY for core in ("core", "_core")]


@dataclass(frozen=True, eq=False)
class TextSettings:
    """The languages, vocabularies and preparations of source and target text; preparations are None if not known."""

    languages: tuple[str, str]
    vocabularies: tuple[Vocabulary, Vocabulary]
    preparations: tuple[Preparation, Preparation] | None

    def values(self) -> tuple[Any, ...]:
        """Values that are equal for models that read and write the same words."""
        return self.languages, self.preparations, [vocabulary.symbols for vocabulary in self.vocabularies]


@dataclass(frozen=True)
class Usage:
    """How to use a model: options of the search, sentences to try, and what it was trained on and for, in Markdown."""

    search: dict[str, Any] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)
    description: str = ""

    def __post_init__(self) -> None:
        texts = [self.description, *self.examples] if isinstance(self.examples, list) else [None]
        if not isinstance(self.search, dict) or not all(isinstance(text, str) for text in texts):
            raise ValueError("its search, examples and description are not options, a list of sentences and a text")
        # A file that is named there would be another one on each computer.
        if not self.search.keys() <= {one.name for one in fields(SearchOptions)} - {"length_statistics"}:
            raise ValueError(f"the search has unknown options ({', '.join(map(str, self.search))})")
        try:
            SearchOptions(**self.search)
        except InputError as error:
            raise ValueError(str(error)) from error

    def values(self) -> dict[str, Any]:
        """What is not empty, for the configuration of a folder."""
        return {name: value for name, value in vars(self).items() if value}


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
    """Load a model or an ensemble.

    Args:
        path: a folder that ``rnnsearch export`` wrote; a checkpoint, or the folder of a training, whose best checkpoint
            is taken; or several of these with colons between.

    Raises:
        InputError: a file is missing or damaged, or the members differ in their languages or vocabularies.
    """
    parts = split_paths(path)
    members: list[Member] = []
    for part in parts:
        members += _read_folder(part) if _is_exported(part) else [_member_of(read_checkpoint(part), part)]
    if any(member.text.values() != members[0].text.values() for member in members):
        raise InputError(
            f"{path}: the models differ in languages, vocabularies or preparation; give models of one text"
        )
    return members


def split_paths(path: str | Path) -> list[Path]:
    """The paths of an ensemble's members."""
    return [Path(part) for part in ([path] if os.path.exists(path) else str(path).split(":"))]


def model_files(path: str | Path) -> list[Path]:
    """The files that :func:`load_members` reads, for commands that must not write over them."""
    files: list[Path] = []
    for part in split_paths(path):
        files += part.iterdir() if _is_exported(part) else [find_checkpoint(part)]
    return files


def _is_exported(path: Path) -> bool:
    return os.path.isdir(path) and os.path.lexists(path / CONFIG)


# Exported folders


def _read_folder(folder: Path) -> list[Member]:
    where = folder / CONFIG
    try:
        values = json.loads(read_plain(where, MAX_CONFIG_BYTES))
        languages, models, preparation = (values.pop(name) for name in ("languages", "models", "preparation"))
        usage, languages = Usage(**values), _languages(languages)
        kinds = [(model["architecture"], model["config"]) for model in models]
        if not kinds:
            raise ValueError("it has no models")
        preparations = None
        if preparation is not None:
            preparations = tuple(read_preparation(preparation[name], name, folder, str(where)) for name in languages)
        source, target = (Vocabulary.read(folder / name) for name in VOCABULARIES)
    except InputError:
        raise
    except DAMAGE_ERRORS as error:
        raise InputError(f"{where}: not a model's configuration ({in_short(error)}); {EXPORT}") from error
    text, files = TextSettings(languages, (source, target), preparations), tensor_files(len(kinds))
    return [_read_tensors(folder / name, *kind, text, usage) for name, kind in zip(files, kinds)]


def tensor_files(members: int) -> list[str]:
    """The names of the files of parameters."""
    return ["model.safetensors"] if members == 1 else [f"model{number}.safetensors" for number in range(1, members + 1)]


def _read_tensors(path: Path, kind: Any, values: Any, text: TextSettings, usage: Usage) -> Member:
    from safetensors import SafetensorError, safe_open

    where = path.parent / CONFIG
    if not isinstance(kind, str) or kind not in KINDS or not isinstance(values, dict):
        raise InputError(f"{where}: the architecture {in_short(kind)!r} is not {' or '.join(KINDS)}; {EXPORT}")
    network, config = _build(kind, values, text, where)
    names = shared_names(network.state_dict(keep_vars=True))
    if path.is_symlink() or not os.path.isfile(path):
        raise InputError(f"{path}: there is no such plain file (a link does not count); {EXPORT}")
    try:
        with safe_open(path, framework="pt") as file:
            found = file.keys()
            # Names are compared before any tensor is read. A shared matrix is stored once, under its first name.
            check_parameters(dict.fromkeys(found), dict.fromkeys(names.values()), f"{path}: its model", EXPORT)
            stored = {name: file.get_tensor(name) for name in found}
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path}: not a file of tensors ({in_short(error)}); {EXPORT}") from error
    _fill(network, {name: stored[first] for name, first in names.items()}, path, EXPORT)
    return Member(kind, config, network, text, usage=usage)


# Checkpoints


def find_checkpoint(path: Path) -> Path:
    """The checkpoint itself, or the best one, or else the last one, in the folder of a training."""
    if os.path.isdir(path):
        near = [folder / name for folder in (path, path / "checkpoints") for name in CHECKPOINTS]
        found = next(filter(os.path.isfile, near), None)
        if found is None:
            raise InputError(f"{path}: holds no {CONFIG} and no {' or '.join(CHECKPOINTS)}; give a model's folder")
        return found
    if not os.path.isfile(path):
        newest = max(filter(os.path.isfile, path.parent.glob("*.pt")), key=os.path.getmtime, default=None)
        cure = TRAIN if newest is None else f"the newest beside it is {newest.name}"
        raise InputError(f"{path}: no such checkpoint; {cure}")
    return path


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint of fairseq, of any model; its tensors stay in the file until they are used.

    Args:
        path: as in :func:`find_checkpoint`.

    Returns:
        The checkpoint, with "model", a table of parameters, and "cfg", a dictionary.

    Raises:
        InputError: the file is missing, damaged, or not a checkpoint.
    """
    path = find_checkpoint(path)
    try:
        torch.serialization.add_safe_globals(PLAIN_CLASSES)
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        parameters = {name: tensor for name, tensor in state["model"].items() if name != STATE}
        if not isinstance(state["cfg"], dict) or not all(map(torch.is_tensor, parameters.values())):
            raise ValueError("its options or parameters are missing")
        if not all(isinstance(name, str) for name in parameters):
            raise ValueError("a parameter has no name")
    except Exception as error:  # damaged files raise many kinds of errors
        why = in_short(error) if isinstance(error, (ValueError, OSError)) else type(error).__name__
        raise InputError(f"{path}: not a checkpoint ({why}); {TRAIN}") from error
    return state


def save(obj: Any, file: BinaryIO) -> None:
    """`torch.save`, whose own error would hide the OSError of a write that failed."""
    try:
        torch.save(obj, file)
    except RuntimeError as error:
        if isinstance(error.__context__, OSError):
            raise error.__context__ from None
        raise


def _member_of(state: dict[str, Any], path: Path) -> Member:
    values = state["cfg"].get("model")
    name = values.get("_name") if isinstance(values, dict) else None
    kind = ARCHITECTURES.get(name) if isinstance(name, str) else None
    if kind is None:
        raise InputError(f"{path}: its model is {in_short(name)!r}, and this reads {' and '.join(KINDS)}; {TRAIN}")
    tensors = dict(state["model"])
    text = _text_of(tensors.pop(STATE, None), path)
    network, config = _build(kind, values, text, path)
    _fill(network, {name.replace(".network.", ".", 1): tensor for name, tensor in tensors.items()}, path, TRAIN)
    return Member(kind, config, network, text, _training(state))


def _text_of(state: Any, path: Path) -> TextSettings:
    """The text settings that the models in models/ add to their parameters."""
    try:
        first, second = state["preparation"] or (None, None)
        preparations = None if first is None else (Preparation(**first), Preparation(**second))
        source, target = (Vocabulary(symbols, str(path)) for symbols in state["vocabularies"])
        return TextSettings(_languages(state["languages"]), (source, target), preparations)
    except InputError:
        raise
    except DAMAGE_ERRORS as error:
        why = in_short(error) if isinstance(error, ValueError) else "it does not hold its vocabularies"
        raise InputError(f"{path}: {why}; train or convert the model again") from error


def _training(state: dict[str, Any]) -> str:
    """A line about a training: its updates, and the best result on the development set."""
    line = f"{count_updates(state):,} updates"
    try:
        measure = "BLEU" if state["cfg"]["checkpoint"]["best_checkpoint_metric"] == "bleu" else "loss"
        return f"{line}, {measure} {float(state['extra_state']['val_loss']):.2f} on the development set"
    except DAMAGE_ERRORS:
        return line


def count_updates(state: dict[str, Any]) -> int:
    """The updates of a checkpoint's training; 0 if it does not say."""
    try:
        return int(state["optimizer_history"][-1]["num_updates"])
    except DAMAGE_ERRORS:
        return 0


# Both


def _languages(names: Any) -> tuple[str, str]:
    """Check that these are two language codes, which become part of file names; raises ValueError."""
    pair = names if isinstance(names, list) and len(names) == 2 else []
    short = [name for name in pair if isinstance(name, str) and re.fullmatch(LANGUAGE, name)]
    if len(short) != 2:
        raise ValueError("the languages are not two short names like en")
    return short[0], short[1]


def _build(kind: str, values: Mapping[str, Any], text: TextSettings, where: Path) -> tuple[nn.Module, NetworkConfig]:
    """Build the network on the meta device, from the values of its options; other options are passed over."""
    config_class, network_class = KINDS[kind]
    plain = {name: value for name, value in values.items() if isinstance(value, (str, int, float))}
    try:
        config = config_class.of(plain)
        with torch.device("meta"), _SkipInitialization():
            return network_class(config, *map(len, text.vocabularies)).eval().requires_grad_(False), config
    except DAMAGE_ERRORS as error:
        raise InputError(f"{where}: its options build no model ({in_short(error)}); give another") from error


class _SkipInitialization(TorchFunctionMode):
    """Skip the initial values of PyTorch's layers: on the meta device, drawing them would import PyTorch's compiler."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return None if func.__name__ in ("normal_", "uniform_") else func(*args, **(kwargs or {}))


def _fill(network: nn.Module, tensors: Mapping[str, Tensor], path: Path, cure: str) -> None:
    """Give a network these parameters, in float32; raises InputError if their names or shapes differ."""
    expected = network.state_dict(keep_vars=True)
    check_parameters(tensors, expected, f"{path}: its model", cure)
    loaded: dict[str, nn.Parameter] = {}
    for first in dict.fromkeys(shared_names(expected).values()):
        loaded[first] = nn.Parameter(tensors[first].to(torch.float32, copy=True), requires_grad=False)
    network.load_state_dict({name: loaded[first] for name, first in shared_names(expected).items()}, assign=True)
