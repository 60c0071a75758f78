"""Load trained models to read text instead of binarized data."""

import argparse
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils, utils
from fairseq.data import data_utils
from fairseq.dataclass.utils import overwrite_args_by_name
from fairseq.models import BaseFairseqModel
from fairseq.tasks import TASK_REGISTRY
from fairseq.tasks.translation import TranslationTask

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.files.checkpoints import no_such_checkpoint
from rnnsearch_fairseq.tasks.tree_translation import TreeTranslationTask

CHECKPOINTS = ("model.pt", "checkpoint_best.pt", "checkpoint_last.pt", "checkpoint.pt")
MEMBER = r"model([1-9]\d{0,3})\.pt"  # of an ensemble: model1.pt, model2.pt and so on
LEVELS_UP = 3  # in recipes/reproduce, bin is beside runs, and checkpoints are in runs/RUN/checkpoints


def find_checkpoints(folder: Path) -> list[Path]:
    """Find the best checkpoint in a folder that fairseq-train or a recipe wrote, or all of an exported ensemble.

    Raises:
        InputError: there is none, or one of the ensemble is missing.
    """
    for place in (folder, folder / "checkpoints"):
        for name in CHECKPOINTS:
            if (place / name).is_file():
                return [place / name]
    found = ((re.fullmatch(MEMBER, path.name), path) for path in folder.iterdir())
    members = {int(match[1]): path for match, path in found if match}
    for number in range(1, len(members) + 1):
        if number not in members:
            raise InputError(f"{folder}: model{number}.pt of the ensemble is missing; copy it from the exported folder")
    if not members:
        raise InputError(f"{folder}: holds no {', '.join(CHECKPOINTS)}; give the folder that fairseq-train saved to")
    return [members[number] for number in sorted(members)]


def find_data(folder: Path, own: str | None = None, languages: Sequence[str | None] = ()) -> Path:
    """Find the folder of a checkpoint's dictionaries ``dict.LANGUAGE.txt``.

    Searched in this order: the training's data folder, relative to ``folder``, to the folders above it and to the
    current folder; then ``folder``, the folders above it, and ``bin`` in each of these.

    Args:
        folder: folder of the checkpoint.
        own: the data folder in the checkpoint's configuration.
        languages: languages whose dictionaries must be there; without them, any dictionary will do.

    Raises:
        InputError: there is none.
    """
    folder = folder.resolve()
    places = (folder, *list(folder.parents)[:LEVELS_UP])
    near = [candidate for place in places for candidate in (place, place / "bin")]
    named = [] if own is None else [*(place / own for place in places), Path(own).absolute()]
    for candidate in (*named, *near):
        # Not Path.is_file, which raises for some strings that an untrusted checkpoint may hold.
        if languages and None not in languages:
            holds = all(os.path.isfile(candidate / f"dict.{language}.txt") for language in languages)
        else:
            holds = os.path.isdir(candidate) and any(candidate.glob("dict.*.txt"))
        if holds:
            return candidate
    raise InputError(f"{folder}: no dict.*.txt in it, nor above it or in bin; give their folder (data)")


def add_data_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that name a model's data, where `load_models` does not find it by itself."""
    parser.add_argument(
        "--data",
        metavar="DIR",
        help="folder of the dictionaries dict.LANGUAGE.txt (default: found near the checkpoint)",
    )
    parser.add_argument("-s", "--source-lang", help="default: from the checkpoint, or from the data in DIR")
    parser.add_argument("-t", "--target-lang", help="default: likewise")


def load_models(
    paths: Sequence[str],
    data: str | None = None,
    source_lang: str | None = None,
    target_lang: str | None = None,
    cpu: bool = False,
) -> tuple[list[BaseFairseqModel], TranslationTask]:
    """Load one or more checkpoints and the dictionaries ``DATA/dict.LANGUAGE.txt``, onto CUDA if there is a device.

    Args:
        data: folder of the dictionaries; None: found near the first checkpoint by `find_data`.
        source_lang, target_lang: default: the languages in the first checkpoint or, if it has none, in ``data``.
        cpu: do not use CUDA.

    Returns:
        The models, and the task, whose ``cfg.data`` is the folder of the dictionaries.

    Raises:
        InputError: a file is missing, is not a checkpoint or does not match the dictionaries, the task is not a
            translation task, or a model that reads trees comes after a first one that does not.
    """
    if data is not None and not Path(data).is_dir():
        raise InputError(f"--data {data}: no such folder; give the one that fairseq-preprocess wrote dict.*.txt to")
    languages = {"source_lang": source_lang, "target_lang": target_lang}
    # --eval-bleu would build a generator here.
    overrides = {"eval_bleu": False} | {name: language for name, language in languages.items() if language is not None}
    models: list[BaseFairseqModel] = []
    task = None
    for path in paths:
        if not Path(path).is_file():
            raise no_such_checkpoint(Path(path))
        state = checkpoint_utils.load_checkpoint_to_cpu(path, overrides)
        _check_task_name(state, path)
        if data is None:
            data = str(_find_own_data(state, path))
        overwrite_args_by_name(state["cfg"], {"data": data})
        if state.get("args") is not None:  # fairseq builds an old checkpoint's settings from these again
            state["args"].data = data
        _check_languages(state, data, path)
        encodes_trees = getattr(state["cfg"].model, "constituents", "words") != "words"
        if encodes_trees and task is not None and not isinstance(task, TreeTranslationTask):
            raise InputError(f"{path}: reads trees, and the first checkpoint of --path knows none; name this one first")
        loaded, _, task = checkpoint_utils.load_model_ensemble_and_task([path], task=task, state=state)
        models += loaded
    if torch.cuda.is_available() and not cpu:
        models = [model.cuda() for model in models]
    return models, task


def _check_task_name(state: dict[str, Any], path: str) -> None:
    """Refuse a checkpoint of another task, such as a language model, before its dictionaries are looked for."""
    settings = state["cfg"].task
    # As in `fairseq.tasks.setup_task`: old configurations have the name in another field.
    name = getattr(settings, "task", None)
    name = name if isinstance(name, str) else getattr(settings, "_name", None)
    if not issubclass(TASK_REGISTRY.get(str(name), object), TranslationTask):
        raise InputError(
            f"{path}: the checkpoint's task is {name}, whose input is not plain text; "
            "give a checkpoint of --task translation, pooled_translation or tree_translation"
        )


def _find_own_data(state: dict[str, Any], path: str) -> Path:
    settings = state["cfg"].task
    own = getattr(settings, "data", None)
    own = utils.split_paths(own)[0] if isinstance(own, str) and own else None
    languages = [getattr(settings, name, None) for name in ("source_lang", "target_lang")]
    return find_data(Path(path).parent, own, languages)


def _check_languages(state: dict[str, Any], data: str, path: str) -> None:
    """Refuse a checkpoint without languages if ``data`` holds no binarized data to infer them from."""
    named = [getattr(state["cfg"].task, name, None) for name in ("source_lang", "target_lang")]
    if None in named and None in data_utils.infer_language_pair(data):
        raise InputError(f"{path}: it does not name its languages; give --source-lang and --target-lang")
