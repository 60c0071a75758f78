"""Write a model with all that it needs to one folder, to hand it on.

``rnnsearch export CHECKPOINT.pt[:CHECKPOINT2.pt...] FOLDER [--half]``

FOLDER, which must be new or empty, gets the checkpoint without the optimizer's state (model.pt; of an ensemble
model1.pt, model2.pt and so on), the dictionaries, how text is prepared (preparation.json) with the file of the
subwords, and a model card to complete, README.md. The folder can be moved to any computer. For example:

  rnnsearch export checkpoints/checkpoint_best.pt en-fr
  rnnsearch serve --path en-fr/model.pt
  fairseq-interactive en-fr --user-dir "$(rnnsearch user-dir)" --path en-fr/model.pt

In Python, ``RNNsearchModel.from_pretrained("en-fr")`` loads the model or the ensemble. Models that read trees need
--task tree_translation in fairseq's commands.
"""

import argparse
import importlib.metadata
import json
import os
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from fairseq import utils
from fairseq.models import BaseFairseqModel
from fairseq.tasks.translation import TranslationTask

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.files.checkpoints import load_checkpoint, write_checkpoint
from rnnsearch_fairseq.inference.loading import add_data_options, load_models
from rnnsearch_fairseq.inference.record import write_record
from rnnsearch_fairseq.inference.text import Found, TypedText, configure, find_preparation
from rnnsearch_fairseq.output import open_output
from rnnsearch_fairseq.tasks.tree_translation import TreeTranslationTask

CARD = "README.md"
LANGUAGES = "languages.{}-{}.txt"
VERSIONS = ("rnnsearch-fairseq", "fairseq-fixed", "torch")


def export(
    paths: Sequence[str],
    folder: Path,
    half: bool = False,
    data: str | None = None,
    source_lang: str | None = None,
    target_lang: str | None = None,
) -> None:
    """Write one model, or an ensemble, with all that it needs to ``folder``.

    Args:
        paths: the checkpoints.
        folder: is made if it is not there.
        half: write parameters in float16; they are loaded in float32.
        data, source_lang, target_lang: see :func:`~rnnsearch_fairseq.inference.loading.load_models`.

    Raises:
        InputError: ``folder`` holds files or cannot be written, a file that the model needs is missing or damaged, or
            a parameter is too large for float16. Then ``folder`` holds nothing new.
    """
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise InputError(f"{folder}: is there already; give a folder that is new or empty")
    models, task = load_models(paths, data, source_lang, target_lang, cpu=True)
    found = find_preparation(Path(paths[0]).parent, task)
    languages = (task.cfg.source_lang, task.cfg.target_lang)
    # Read the files of the subwords, which may be damaged.
    TypedText.of(task, [configure(side.options(found.folder)) for side in (found.source, found.target)])
    trees = [task.cfg.tree_lang] if isinstance(task, TreeTranslationTask) else []
    names = sorted({f"dict.{language}.txt" for language in (*languages, *trees)})
    files = [Path(task.cfg.data, name) for name in names]
    files += [found.folder / name for name in sorted({*found.source.files, *found.target.files})]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in files:
            _write(folder / file.name, file.read_bytes())
        write_record(folder, dict(zip(languages, (found.source, found.target))))
        sentence = f"source {languages[0]}, target {languages[1]}: fairseq's commands read them from this file's name\n"
        _write(folder / LANGUAGES.format(*languages), sentence.encode())
        outs = [folder / ("model.pt" if len(paths) == 1 else f"model{number + 1}.pt") for number in range(len(paths))]
        rows = [_export_checkpoint(Path(path), out, languages, half) for path, out in zip(paths, outs)]
        _write(folder / CARD, _make_card(rows, outs, models, task, found).encode())
    except BaseException as error:
        for file in folder.glob("*"):
            if file.is_file():
                file.unlink()
        if isinstance(error, OSError):
            raise InputError(f"{folder}: cannot be written ({error}); make room, or give another folder") from error
        raise


def _write(path: Path, content: bytes) -> None:
    with open_output(path) as out:
        out.write(content)


def _export_checkpoint(path: Path, out: Path, languages: tuple[str, str], half: bool) -> list[str]:
    """Write a checkpoint without what only its training needs; return three cells of the model card."""
    state = load_checkpoint(path)
    extra = state.get("extra_state") or {}
    architecture = _setting(state, "model", "arch") or _setting(state, "model", "_name")
    updates = (state.get("optimizer_history") or [{}])[-1].get("num_updates", 0)
    state["last_optimizer_state"] = None
    # A moving average of the parameters, which training keeps.
    state["extra_state"] = {name: value for name, value in extra.items() if not name.startswith("ema")}
    _forget_paths(state, languages)
    if half:
        state["model"] = _halve(state["model"], path)
    write_checkpoint(state, out)
    return [str(architecture), f"{updates:,}", _validation(state, extra)]


def _halve(model: dict[str, torch.Tensor], path: Path) -> dict[str, torch.Tensor]:
    """Convert parameters to float16; those that share their numbers share them still.

    Raises:
        InputError: a number becomes infinite.
    """
    converted: dict[Any, torch.Tensor] = {}
    for name, parameter in model.items():
        if not parameter.is_floating_point():
            continue
        shared = (parameter.data_ptr(), parameter.shape, parameter.stride())
        if shared not in converted:
            converted[shared] = parameter.half()
        model[name] = converted[shared]
        if parameter.isfinite().all() and not model[name].isfinite().all():
            raise InputError(f"{path}: {name} has numbers that are too large for float16; leave out --half")
    return model


def _sections(settings: Any) -> Iterator[dict[str, Any]]:
    """Yield each dictionary of a checkpoint's configuration, which is made of dictionaries and argparse's results."""
    values = vars(settings) if isinstance(settings, Namespace) else settings
    if isinstance(values, dict):
        yield values
        for value in list(values.values()):
            yield from _sections(value)


def _forget_paths(state: dict[str, Any], languages: tuple[str, str]) -> None:
    """In the configuration, name this folder as the data, and the languages, and replace absolute paths by names."""
    own = {"data": ".", "source_lang": languages[0], "target_lang": languages[1]}
    for section in (*_sections(state.get("cfg")), *_sections(state.get("args"))):
        for name, value in section.items():
            if name in own:
                section[name] = own[name]
            elif isinstance(value, str) and os.path.isabs(value):
                section[name] = Path(value).name


def _setting(state: dict[str, Any], part: str, name: str) -> Any:
    """A setting of a checkpoint; checkpoints before fairseq 0.12 have no parts."""
    settings = state.get("args") or (state.get("cfg") or {}).get(part) or {}
    return (vars(settings) if isinstance(settings, Namespace) else settings).get(name)


def _validation(state: dict[str, Any], extra: dict[str, Any]) -> str:
    """The result on the development set, by the measure that chose the best checkpoint."""
    measure = _setting(state, "checkpoint", "best_checkpoint_metric") or "loss"
    result = extra.get("val_loss")
    return "not recorded" if result is None else f"{'BLEU' if measure == 'bleu' else measure} {result:.2f}"


def _make_card(
    rows: Sequence[Sequence[str]],
    outs: Sequence[Path],
    models: Sequence[BaseFairseqModel],
    task: TranslationTask,
    found: Found,
) -> str:
    """The model card, in Markdown, with the header that the Hugging Face Hub reads."""
    source, target = task.cfg.source_lang, task.cfg.target_lang
    table = [
        f"| {out.name} | {architecture} | {sum(one.numel() for one in model.parameters()):,} "
        f"| {out.stat().st_size / 1e6:,.1f} MB | {updates} | {validation} |"
        for (architecture, updates, validation), out, model in zip(rows, outs, models)
    ]
    sides = [
        f"- {language}: {len(dictionary):,} symbols in `dict.{language}.txt`; text is prepared as {side.describe()}"
        for language, dictionary, side in (
            (source, task.source_dictionary, found.source),
            (target, task.target_dictionary, found.target),
        )
    ]
    path = ":".join(out.name for out in outs)
    trees = isinstance(task, TreeTranslationTask)
    options = f' --user-dir "$(rnnsearch user-dir)" --path {path}' + " --task tree_translation" * trees
    typed = " # a sentence, or a sentence, a tab and its transitions" if trees else ""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in VERSIONS)
    languages = json.dumps([source, target])
    return f"""---
language: {languages}
license: unknown
pipeline_tag: translation
library_name: fairseq
---

# Translation from {source} to {target}

| file | architecture | parameters | size | training updates | validation |
|---|---|---|---|---|---|
{chr(10).join(table)}

{chr(10).join(sides)}

Written by `rnnsearch export`, with {versions}.

## Use

In this folder, in Python:

```python
from rnnsearch_fairseq.models.rnnsearch import RNNsearchModel

model = RNNsearchModel.from_pretrained(".")
model.translate(["A sentence."])
```

On the command line:

```sh
rnnsearch serve --path {path}
fairseq-interactive .{options}{typed}
```

Typed words that the model knows only in lower case are read in lower case.

On binarized data of text that is prepared already, which is read as it is:

```sh
fairseq-preprocess -s {source} -t {target} --srcdict dict.{source}.txt --tgtdict dict.{target}.txt \\
    --testpref test --destdir bin
fairseq-generate bin{options}
```

## To fill in

- Licence, here and in the header:
- Training data:
- BLEU, with the test set and sacrebleu's signature:
- What the model is for, and where it fails:
"""


def main() -> None:
    """The command line of this module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoints", metavar="CHECKPOINT", help="checkpoint, or several with colons between")
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="folder to write; must be new or empty")
    parser.add_argument("--half", action="store_true", help="write the parameters in float16, half the size")
    add_data_options(parser)
    args = parser.parse_args()
    paths = utils.split_paths(args.checkpoints)
    export(paths, args.folder, args.half, args.data, args.source_lang, args.target_lang)
    print(f"{args.checkpoints} -> {args.folder}; complete {args.folder / CARD}")
