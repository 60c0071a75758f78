"""Write a model with all that it needs to one folder, to hand it on.

OUTPUT, a folder, gets the parameters (safetensors), config.json, text.json (the vocabularies, and how text is prepared)
and a model card, README.md. It can be moved to any computer, and be given as --model or to ``rnnsearch_fairseq.load``.
The options of the search that are given here become the model's defaults.

  rnnsearch export checkpoints --output en-fr --beam 12
"""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from rnnsearch_fairseq.command_line import make_parser
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference.info import describe
from rnnsearch_fairseq.inference.loading import CONFIG, TEXT, Member, load_members, tensor_files
from rnnsearch_fairseq.inference.options import add_search_fields, search_options
from rnnsearch_fairseq.modules.parameters import shared_names
from rnnsearch_fairseq.output import open_output, write_folder
from rnnsearch_fairseq.text.lines import read_lines
from rnnsearch_fairseq.version import __version__

CARD = "README.md"


def export(path: str, folder: Path, half: bool = False, **usage: Any) -> None:
    """Write one model, or an ensemble, with all that it needs to ``folder``; ``half``: with parameters in float16.

    ``usage`` are fields of :class:`~rnnsearch_fairseq.inference.loading.Usage`, in place of those that the model has.
    """
    from safetensors.torch import save

    if os.path.lexists(folder) and not (os.path.isdir(folder) and not os.listdir(folder)):
        raise InputError(f"{folder}: is there already; give a folder that is new or empty")
    members = load_members(path)
    members[0] = replace(members[0], usage=replace(members[0].usage, **usage))
    models = [{"architecture": member.kind, "config": asdict(member.config)} for member in members]
    with write_folder(folder) as new:
        _write(new / TEXT, json.dumps(members[0].text.to_record(), indent=0, ensure_ascii=False))
        for member, name in zip(members, tensor_files(len(members))):
            state = member.network.state_dict()
            firsts = dict.fromkeys(shared_names(state).values())
            _write(new / name, save({first: state[first].half() if half else state[first] for first in firsts}))
        _write(new / CONFIG, json.dumps({"models": models, **vars(members[0].usage)}, indent=2, ensure_ascii=False))
        _write(new / CARD, _make_card(members))


def _write(path: Path, content: str | bytes) -> None:
    with open_output(path) as out:
        out.write(content if isinstance(content, bytes) else f"{content}\n".encode())


def _make_card(members: Sequence[Member]) -> str:
    """The model card, in Markdown, with the header that the Hugging Face Hub reads."""
    source, target = members[0].text.languages
    return f"""---
language: {json.dumps([source, target])}
license: unknown
pipeline_tag: translation
library_name: rnnsearch-fairseq
---

# Translation from {source} to {target}

```
{describe(members)}
```

Written by `rnnsearch export`, with rnnsearch-fairseq {__version__} and torch {torch.__version__}.

## Use

```sh
rnnsearch translate --model . FILE
rnnsearch serve --model .
```

In Python: `rnnsearch_fairseq.load(".").translate(["A sentence."])`

{members[0].usage.description}"""


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("model", metavar="MODEL", help="checkpoint or folder, or several with colons between")
    parser.add_argument("--output", metavar="FOLDER", type=Path, required=True, help="folder to write, new or empty")
    parser.add_argument("--half", action="store_true", help="write the parameters in float16, half the size")
    parser.add_argument("--examples", metavar="FILE", type=Path, help="sentences to try, one a line")
    parser.add_argument("--card", metavar="FILE", type=Path, help="Markdown for the card: training data, scores, use")
    add_search_fields(parser)
    args = parser.parse_args()
    usage: dict[str, Any] = {}
    if search := search_options(args):
        usage["search"] = search
    if args.examples is not None:
        usage["examples"] = [line.strip() for line in read_lines(args.examples) if line.strip()]
    if args.card is not None:
        usage["description"] = "".join(read_lines(args.card))
    export(args.model, args.output, args.half, **usage)
    print(f"{args.model} -> {args.output}")
