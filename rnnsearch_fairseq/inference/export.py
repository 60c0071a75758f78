"""Write a model and all that it needs to a folder, which you can give to others.

The folder contains the parameters (safetensors), config.json, text.json (the vocabularies, and how text is prepared)
and the model's card, README.md. It works on any computer, as --model and with ``rnnsearch_fairseq.load``. The options
of the search that you give here become the model's defaults.

  rnnsearch export checkpoints --output en-fr --beam 12
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from rnnsearch_fairseq.command_line import command_options, make_parser, option
from rnnsearch_fairseq.errors import InputError, escaped
from rnnsearch_fairseq.inference.loading import CONFIG, TENSORS, TEXT, Member, load_members
from rnnsearch_fairseq.inference.options import add_search_fields, search_options
from rnnsearch_fairseq.modules.parameters import shared_names
from rnnsearch_fairseq.output import open_output, write_folder
from rnnsearch_fairseq.text.lines import read_lines
from rnnsearch_fairseq.version import __version__

CARD = "README.md"  # Markdown, with the header that the Hugging Face Hub reads
INFO = """Print what a model is: architecture, parameters, training, languages, vocabularies, preparation and search.

  rnnsearch info checkpoints
"""


def export(path: str, folder: Path, half: bool = False, **usage: Any) -> None:
    """Write a model with all that it needs to ``folder``; ``half``: with parameters in float16.

    ``usage`` are fields of :class:`~rnnsearch_fairseq.inference.loading.Usage`, in place of those that the model has.
    """
    from safetensors.torch import save

    with write_folder(folder) as new:
        member, *others = load_members(path)
        if others:
            raise InputError(f"{path}: an ensemble; export each of its models to a folder of its own")
        member = replace(member, usage=replace(member.usage, **usage))
        _write(new / TEXT, json.dumps(member.text.to_record(), indent=0, ensure_ascii=False))
        state = member.network.state_dict()
        firsts = dict.fromkeys(shared_names(state).values())
        _write(new / TENSORS, save({first: state[first].half() if half else state[first] for first in firsts}))
        config = {"architecture": member.kind, "config": asdict(member.config), "training": member.training}
        _write(new / CONFIG, json.dumps(config | vars(member.usage), indent=2, ensure_ascii=False))
        source, target = member.text.languages
        values = {"source": source, "target": target, "languages": json.dumps([source, target])}
        values |= {"model": describe([member]), "version": __version__, "torch": torch.__version__}
        card = Path(__file__).with_name("card.md").read_text(encoding="utf-8")
        _write(new / CARD, card.format(**values, description=member.usage.description).rstrip("\n"))


def _write(path: Path, content: str | bytes) -> None:
    with open_output(path) as out:
        out.write(content if isinstance(content, bytes) else f"{content}\n".encode())


def describe(members: Sequence[Member]) -> str:
    text, usage = members[0].text, members[0].usage
    lines = [f"translates: {' to '.join(text.languages)}"]
    for member in members:
        number = sum(parameter.numel() for parameter in member.network.parameters())
        lines.append(f"{member.kind}: {number:,} parameters; training: {member.training or 'not recorded'}")
        lines += [f"  {option(name)} {value}" for name, value in asdict(member.config).items()]
    for language, vocabulary in zip(text.languages, text.vocabularies):
        lines.append(f"vocabulary of {language}: {len(vocabulary):,} symbols")
    for language, preparation in zip(text.languages, text.preparations or ()):
        settings = [value if name == "tokenizer" else name for name, value in vars(preparation).items() if value]
        lines.append(f"preparation of {language}: {', '.join(settings) or 'words separated by spaces'}")
    lines.append(f"search: {' '.join(command_options(usage.search)) or 'the default options'}")
    return "\n".join(lines)


def print_info() -> None:
    parser = make_parser(INFO)
    parser.add_argument("model", metavar="MODEL", help="checkpoint or folder, or several with colons between")
    members = load_members(parser.parse_args().model)
    print(escaped(f"{describe(members)}\n{members[0].usage.description}".rstrip()))


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("model", metavar="MODEL", help="checkpoint or folder")
    parser.add_argument("--output", metavar="FOLDER", type=Path, required=True, help="folder to write, new or empty")
    parser.add_argument("--half", action="store_true", help="write the parameters in float16, half the size")
    parser.add_argument("--examples", metavar="FILE", type=Path, help="sentences to try, one a line")
    parser.add_argument("--card", metavar="FILE", type=Path, help="text for the card: training data, scores, licence")
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
