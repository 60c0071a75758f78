"""Read models from exported folders and from fairseq's checkpoints, whoever made these.

No code in a file is run, and memory follows the file's size: the network is built without memory (on PyTorch's meta
device), its parameters' names and shapes are compared with the file's, and then they take the place of its own.
"""

import contextlib
import json
import os
import pickletools
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from rnnsearch_fairseq.errors import InputError, in_short
from rnnsearch_fairseq.modules import rnnsearch, tree2seq
from rnnsearch_fairseq.modules.config import NetworkConfig
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
MOST_CONFIG_BYTES = 1_000_000
MOST_MEMBERS = 100
LANGUAGE = r"[A-Za-z0-9_-]{1,40}"
ODD = (ValueError, TypeError, LookupError, ArithmeticError, RuntimeError)  # what damaged values raise
STATE = "_extra_state"  # PyTorch's name of the text settings among a checkpoint's parameters
EXPORT = "export the model again"
TRAIN = "give a checkpoint that fairseq-train wrote with a model of this package"
# What a checkpoint's pickle may name. The classes of the second row, which --eval-bleu and old criterions leave in it,
# are not made: nothing here reads them.
TENSORS = r"torch\.(\w+Storage|_utils\._rebuild_(tensor_v2|parameter))|collections\.OrderedDict|_codecs\.encode"
NUMPY = [f"numpy.{core}.multiarray.{name}" for core in ("core", "_core") for name in ("scalar", "_reconstruct")]
IGNORED = ("argparse.Namespace", "numpy.ndarray", "numpy.dtype", *NUMPY)


@dataclass(frozen=True, eq=False)
class TextSettings:
    """The languages, vocabularies and preparations of source and target text; preparations are None if not known."""

    languages: tuple[str, str]
    vocabularies: tuple[Vocabulary, Vocabulary]
    preparations: tuple[Preparation, Preparation] | None

    def values(self) -> tuple[Any, ...]:
        """Values that are equal for models that read and write the same words."""
        return self.languages, self.preparations, [vocabulary.symbols for vocabulary in self.vocabularies]


@dataclass(frozen=True, eq=False)
class Member:
    """One model: its network, in float32 on the CPU, without dropout; ``training`` is a line about its training."""

    kind: str
    config: NetworkConfig
    network: nn.Module
    text: TextSettings
    training: str = ""


def load_members(path: str | Path) -> list[Member]:
    """Load a model or an ensemble.

    Args:
        path: a folder that ``rnnsearch export`` wrote; a checkpoint, or the folder of a training, whose best checkpoint
            is taken; or several of these with colons between.

    Raises:
        InputError: a file is missing, damaged or hostile, or the members differ in their languages or vocabularies.
    """
    parts = [path] if os.path.exists(path) else str(path).split(":")
    members: list[Member] = []
    for part in map(Path, parts):
        exported = part.is_dir() and os.path.lexists(part / CONFIG)
        members += _read_folder(part) if exported else [_member_of(read_checkpoint(part), part)]
    if any(member.text.values() != members[0].text.values() for member in members):
        raise InputError(
            f"{path}: the models differ in languages, vocabularies or preparation; give models of one text"
        )
    return members


# Exported folders


def _read_folder(folder: Path) -> list[Member]:
    where = folder / CONFIG
    try:
        values = json.loads(read_plain(where, MOST_CONFIG_BYTES))
        if set(values) != {"languages", "models", "preparation"}:
            raise ValueError("it must have languages, models and preparation")
        languages, models, preparation = _languages(values["languages"]), values["models"], values["preparation"]
        if not 1 <= len(models) <= MOST_MEMBERS:
            raise ValueError(f"it has {len(models):,} models")
        kinds = [(model["architecture"], model["config"]) for model in models]
        preparations = None
        if preparation is not None:
            preparations = tuple(read_preparation(preparation[name], name, folder, str(where)) for name in languages)
        source, target = (Vocabulary.read(folder / name) for name in VOCABULARIES)
        text = TextSettings(languages, (source, target), preparations)
    except InputError:
        raise
    except ODD as error:
        raise InputError(f"{where}: not a model's configuration ({in_short(error)}); {EXPORT}") from error
    return [_read_tensors(folder / name, *kind, text) for name, kind in zip(tensor_files(len(kinds)), kinds)]


def tensor_files(members: int) -> list[str]:
    """The names of the files of parameters."""
    return ["model.safetensors"] if members == 1 else [f"model{number}.safetensors" for number in range(1, members + 1)]


def _read_tensors(path: Path, kind: Any, values: Any, text: TextSettings) -> Member:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not isinstance(kind, str) or kind not in KINDS or not isinstance(values, dict):
        raise InputError(f"{path}: the architecture {in_short(kind)!r} is not {' or '.join(KINDS)}; {EXPORT}")
    unknown = values.keys() - {field.name for field in fields(KINDS[kind][0])}
    if unknown:
        raise InputError(f"{path.parent / CONFIG}: has the unknown option {in_short(min(unknown))!r}; {EXPORT}")
    network, config = _build(kind, values, text, path.parent / CONFIG)
    if path.is_symlink() or not path.is_file():
        raise InputError(f"{path}: there is no such plain file (a link does not count); {EXPORT}")
    try:
        tensors = load_file(path)
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path}: not a file of tensors ({in_short(error)}); {EXPORT}") from error
    _fill(network, tensors, path)
    return Member(kind, config, network, text)


# Checkpoints


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint of fairseq, of any model; its tensors stay in the file until they are used.

    Args:
        path: the checkpoint, or the folder of a training, whose best checkpoint is read.

    Returns:
        The checkpoint, with "model", a table of parameters, and "cfg", a dictionary.

    Raises:
        InputError: the file is damaged, names code, or is not a checkpoint, or its parameters are larger than it.
    """
    if path.is_dir():
        near = [folder / name for folder in (path, path / "checkpoints") for name in CHECKPOINTS]
        if not any(map(Path.is_file, near)):
            raise InputError(f"{path}: holds no {CONFIG} and no {' or '.join(CHECKPOINTS)}; give a model's folder")
        path = next(filter(Path.is_file, near))
    if not path.is_file():
        others = sorted(path.parent.glob("*.pt"), key=os.path.getmtime)
        cure = f"the newest beside it is {others[-1].name}" if others else TRAIN
        raise InputError(f"{path}: no such checkpoint; {cure}")
    try:
        state = _read_archive(path)
        tensors = {name: tensor for name, tensor in state["model"].items() if name != STATE}
        whole = all(torch.is_tensor(x) and x.layout == torch.strided and x.is_contiguous() for x in tensors.values())
        if not isinstance(state["cfg"], dict) or not whole:
            raise ValueError("a parameter is no plain tensor")
        if sum(tensors[name].nbytes for name in set(shared_names(tensors).values())) > path.stat().st_size:
            raise ValueError("its parameters are larger than the file")
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


def check_records(path: Path) -> None:
    """Check the records of a zip archive before any is unpacked: they are stored as they are, and undamaged.

    Raises:
        ValueError: they are not; damaged archives raise other kinds of errors, too.
    """
    with zipfile.ZipFile(path) as archive:
        records = archive.infolist()
        if any(record.compress_type != zipfile.ZIP_STORED for record in records):
            raise ValueError("it is compressed")
        if sum(record.file_size for record in records) > path.stat().st_size or archive.testzip() is not None:
            raise ValueError("it is damaged")


def _read_archive(path: Path) -> dict[str, Any]:
    check_records(path)
    # Another reader could find another pickle in a crafted file, so this is PyTorch's own.
    reader = torch._C.PyTorchFileReader(str(path))
    for opcode, argument, _ in pickletools.genops(reader.get_record("data.pkl")):
        name = str(argument).replace(" ", ".")
        if opcode.name == "GLOBAL" and name not in IGNORED and not re.fullmatch(TENSORS, name):
            raise ValueError(f"it names {name}, which may be code")
    with _only_classes([(_Ignored, name) for name in IGNORED]):
        # In a file that is mapped to memory, no tensor can lie outside it, whatever size is declared.
        return torch.load(path, map_location="cpu", weights_only=True, mmap=True)


@contextlib.contextmanager
def _only_classes(named: list[Any]) -> Iterator[None]:
    """Let `torch.load` make these classes alone; the plugin allows some of the same names for fairseq."""
    before = torch.serialization.get_safe_globals()
    torch.serialization.clear_safe_globals()
    try:
        with torch.serialization.safe_globals(named):
            yield
    finally:
        torch.serialization.clear_safe_globals()
        torch.serialization.add_safe_globals(before)


class _Ignored:
    """Stands for an object of `IGNORED`."""

    def __init__(self, *_: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        pass

    def __reduce__(self) -> Any:
        raise ValueError("its options are no plain data")


def _member_of(state: dict[str, Any], path: Path) -> Member:
    values = state["cfg"].get("model")
    name = values["_name"] if isinstance(values, dict) and isinstance(values.get("_name"), str) else "unknown"
    kind = ARCHITECTURES.get(name)
    if kind is None:
        raise InputError(f"{path}: its model is {in_short(name)!r}, and this reads {' and '.join(KINDS)}; {TRAIN}")
    tensors = dict(state["model"])
    text = _text_of(tensors.pop(STATE, None), path)
    network, config = _build(kind, values, text, path)
    _fill(network, {name.replace(".network.", ".", 1): tensor for name, tensor in tensors.items()}, path)
    return Member(kind, config, network, text, _training(state))


def _text_of(state: Any, path: Path) -> TextSettings:
    """The text settings that the models in models/ add to their parameters."""
    try:
        first, second = state["preparation"] or (None, None)
        preparations = None if first is None else (Preparation.from_state(first), Preparation.from_state(second))
        source, target = state["vocabularies"]
        vocabularies = (Vocabulary(source, str(path)), Vocabulary(target, str(path)))
        return TextSettings(_languages(state["languages"]), vocabularies, preparations)
    except InputError:
        raise
    except ODD as error:
        why = in_short(error) if isinstance(error, ValueError) else "it does not hold its vocabularies"
        raise InputError(f"{path}: {why}; train or convert the model again") from error


def _training(state: dict[str, Any]) -> str:
    """A line about a training: its updates, and the best result on the development set."""
    line = f"{count_updates(state):,} updates"
    try:
        measure = "BLEU" if state["cfg"]["checkpoint"]["best_checkpoint_metric"] == "bleu" else "loss"
        return f"{line}, {measure} {float(state['extra_state']['val_loss']):.2f} on the development set"
    except ODD:
        return line


def count_updates(state: dict[str, Any]) -> int:
    """The updates of a checkpoint's training; 0 if it does not say."""
    try:
        return int(state["optimizer_history"][-1]["num_updates"])
    except ODD:
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
    """Build a network without memory, from the values of its options; options that it does not have are passed over."""
    config_class, network_class = KINDS[kind]
    plain = {name: value for name, value in values.items() if isinstance(value, (str, int, float))}
    try:
        config = config_class.of(plain)
        with torch.device("meta"), _WithoutDraws():
            return network_class(config, *map(len, text.vocabularies)).eval().requires_grad_(False), config
    except ODD as error:
        raise InputError(f"{where}: its options build no model ({in_short(error)}); give another") from error


class _WithoutDraws(TorchFunctionMode):
    """Skips the initial values that PyTorch's layers draw; without memory, drawing would import PyTorch's compiler."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return None if func.__name__ in ("normal_", "uniform_") else func(*args, **(kwargs or {}))


def shared_names(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """For the name of each tensor, the first name of the same one: matrices can be shared."""
    first: dict[Any, str] = {}  # a tensor without memory is known by its identity
    return {name: first.setdefault((one.data_ptr() or id(one), one.shape), name) for name, one in tensors.items()}


def _fill(network: nn.Module, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Give a network these parameters, in float32; of a shared one, the first name is read.

    Raises:
        InputError: names, shapes or types differ.
    """
    expected = network.state_dict(keep_vars=True)
    names = shared_names(expected)
    odd = min((tensors.keys() - names.keys()) | (set(names.values()) - tensors.keys()), default=None)
    if odd is not None:
        holder = "file" if odd in tensors else "model"
        raise InputError(f"{path}: its parameters are another model's ({in_short(odd)} is in the {holder} only)")
    loaded: dict[str, nn.Parameter] = {}
    for name in dict.fromkeys(names.values()):
        shapes = tuple(tensors[name].shape), tuple(expected[name].shape)
        if shapes[0] != shapes[1] or not tensors[name].is_floating_point():
            raise InputError(f"{path}: {name} is of the shape {shapes[0]} there, but the model's is {shapes[1]}")
        loaded[name] = nn.Parameter(tensors[name].to(torch.float32, copy=True), requires_grad=False)
    network.load_state_dict({name: loaded[first] for name, first in names.items()}, assign=True)
