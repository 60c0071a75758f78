"""Options that several commands have: the model, and its search."""

import argparse
from dataclasses import fields
from pathlib import Path
from typing import Any

from rnnsearch_fairseq.command_line import option
from rnnsearch_fairseq.search.options import SearchOptions

TERMS = "words to keep, one a line, or a word, a tab and its translation, to translate it always so"


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--model`` and ``--device``."""
    models = "exported folder, folder of a training, or checkpoint; several with colons between are an ensemble"
    parser.add_argument("--model", required=True, metavar="PATH[:PATH]", help=models)
    parser.add_argument("--device", default="auto", help="cpu, cuda, or auto: a GPU if there is one (default: auto)")


def add_search_fields(parser: argparse.ArgumentParser) -> None:
    """Add an option for each field of `SearchOptions`; the parsed command line has only the options that were typed."""
    group = parser.add_argument_group("search")
    for field in fields(SearchOptions):
        kind, help_text = type(field.default), field.metadata["help"].replace("%", "%%")
        more: dict[str, Any] = {"action": "store_true"}
        if kind is not bool:
            more = {"type": kind if kind in (int, float) else str, "choices": field.metadata.get("choices")}
            help_text += "" if field.default is None else f" (default: the model's, or {field.default})"
        group.add_argument(option(field.name), default=argparse.SUPPRESS, help=help_text, **more)


def add_search_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of :func:`add_search_fields`, ``--replace-unknown`` and ``--terms``."""
    add_search_fields(parser)
    help_text = "replace each unknown word with the source word that is aligned with it or, if DICTIONARY has this "
    help_text += "word, with its translation; a line of DICTIONARY is a source word and its translation"
    parser.add_argument("--replace-unknown", nargs="?", const="", metavar="DICTIONARY", help=help_text)
    parser.add_argument("--terms", type=Path, metavar="FILE", help=TERMS)


def search_options(args: argparse.Namespace) -> dict[str, Any]:
    """The search options in a parsed command line."""
    return {field.name: getattr(args, field.name) for field in fields(SearchOptions) if hasattr(args, field.name)}
