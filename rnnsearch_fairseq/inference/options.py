"""Options that several commands have: the model, its search, and words to replace."""

import argparse
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from rnnsearch_fairseq.command_line import option
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference.translator import Translator, load
from rnnsearch_fairseq.search.options import SearchOptions
from rnnsearch_fairseq.text.lines import read_lines
from rnnsearch_fairseq.text.terms import Terms

TERMS = "file of terms, one a line: a term that stays as it is, or a term, a tab and a fixed translation; without a "
TERMS += "tab, a line of several words is one term"


def add_model_options(parser: argparse.ArgumentParser) -> None:
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
    return {field.name: getattr(args, field.name) for field in fields(SearchOptions) if hasattr(args, field.name)}


def load_with_replacements(args: argparse.Namespace) -> Translator:
    """Load the model of a command line, with the dictionary of ``--replace-unknown`` and the words of ``--terms``."""
    translator = load(args.model, args.device, **search_options(args))
    if args.replace_unknown is not None:
        translator.dictionary = read_dictionary(Path(args.replace_unknown)) if args.replace_unknown else {}
    if args.terms is not None:
        translator.reader = replace(translator.reader, terms=read_terms(args.terms, translator.reader.masks))
    if not translator.has_attention and (translator.dictionary is not None or getattr(args, "alignments", None)):
        raise InputError("the model has no alignment (RNNencdec); leave out --replace-unknown and --alignments")
    return translator


def read_terms(path: Path, masks: bool) -> Terms:
    """Read the words of ``--terms`` for a model that reads symbols in the place of markup (``masks``), or refuse."""
    if not masks:
        raise InputError("--terms: the model was trained without symbols for markup, so it cannot keep words")
    return Terms.read(path)


def read_dictionary(path: Path) -> dict[str, str]:
    """Read the translation of each source word. In each line, it is the text behind the tab or, without a tab, the
    second word."""
    dictionary = {}
    for number, line in enumerate(read_lines(path), 1):
        word, *more = (part.strip() for part in (line.split("\t") if "\t" in line else line.split()))
        if not (more and word and more[0]) or " " in word:
            raise InputError(f"{path}, line {number}: not a word and its translation; delete it or complete it")
        dictionary[word] = more[0]
    return dictionary
