"""Load trained models for the commands of this package that read text, not binarized data."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.data import data_utils
from fairseq.models import BaseFairseqModel
from fairseq.tasks.translation import TranslationTask

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.tasks.tree_translation import TreeTranslationTask


def load_models(
    paths: Sequence[str],
    data: str,
    source_lang: str | None = None,
    target_lang: str | None = None,
    cpu: bool = False,
) -> tuple[list[BaseFairseqModel], TranslationTask]:
    """Load one or more checkpoints, on CUDA if there is a device, and the dictionaries ``DATA/dict.LANGUAGE.txt``.

    Args:
        data: folder of the dictionaries.
        source_lang, target_lang: default: those that the first checkpoint names; if it names none, those of the
            binarized data in ``data``.
        cpu: leave the CUDA device alone.

    Raises:
        InputError: a file is missing, is no checkpoint or does not fit the dictionaries, the task is another than
            translation, plain or of trees, or a model of trees comes after one whose task has none.
    """
    if not Path(data).is_dir():
        raise InputError(f"--data {data}: no such folder; give the one that fairseq-preprocess wrote dict.*.txt to")
    languages = {"source_lang": source_lang, "target_lang": target_lang}
    overrides = {"data": data} | {name: language for name, language in languages.items() if language is not None}
    models: list[BaseFairseqModel] = []
    task = None
    for path in paths:
        state = _read_checkpoint(path, overrides)
        _check_languages(state, data)
        if task is not None and not isinstance(task, TreeTranslationTask) and _encodes_trees(state):
            raise InputError(f"{path}: reads trees, and the first checkpoint of --path knows none; name this one first")
        try:
            loaded, _, task = checkpoint_utils.load_model_ensemble_and_task([path], task=task, state=state)
        except RuntimeError as error:
            raise InputError(
                f"{path}: does not load with the dictionaries in {data} ({_first_words(error)}); "
                "give the data that it was trained on"
            ) from error
        models += loaded
    _check_task(task)
    if torch.cuda.is_available() and not cpu:
        models = [model.cuda() for model in models]
    return models, task


def _read_checkpoint(path: str, overrides: dict[str, str]) -> dict[str, Any]:
    if not Path(path).is_file():
        raise InputError(f"--path {path}: no such checkpoint; give one that fairseq-train wrote to its --save-dir")
    try:
        return checkpoint_utils.load_checkpoint_to_cpu(path, overrides)
    except Exception as error:  # whatever the unpickler met in it
        raise InputError(
            f"{path}: cannot be read as a fairseq checkpoint ({type(error).__name__}: {_first_words(error)}); "
            "give one that fairseq-train wrote"
        ) from error


def _check_languages(state: dict[str, Any], data: str) -> None:
    """Refuse a checkpoint that leaves the languages to be found from binarized data, if there is none in ``data``."""
    named = [getattr(state["cfg"].task, name, None) for name in ("source_lang", "target_lang")]
    if None in named and None in data_utils.infer_language_pair(data):
        raise InputError("the checkpoint does not name its languages; give --source-lang and --target-lang")


def _encodes_trees(state: dict[str, Any]) -> bool:
    return getattr(state["cfg"].model, "constituents", "words") != "words"


def _first_words(error: Exception) -> str:
    """The first sentence of what torch says, or the first two lines."""
    return " ".join(line.strip() for line in str(error).splitlines()[:2]).split(". ")[0].rstrip(".")


def _check_task(task: Any) -> None:
    """Refuse tasks that add language tags to the text, or draw the target otherwise than from left to right."""
    known = TreeTranslationTask if isinstance(task, TreeTranslationTask) else TranslationTask
    plain = isinstance(task, TranslationTask) and all(
        getattr(type(task), method) is getattr(known, method)
        for method in ("build_dataset_for_inference", "inference_step")
    )
    if not plain:
        raise InputError(
            f"--path: the checkpoint's task is {type(task).__name__}, whose input is more than the words of a text; "
            "give a checkpoint of --task translation, pooled_translation or tree_translation"
        )
