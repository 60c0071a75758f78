"""Translate with RNNsearch and tree-to-sequence models, and prepare their training."""

import argparse
import importlib.util
import os
import signal
import sys
from pathlib import Path
from typing import Any

from rnnsearch_fairseq.command_line import Parser, make_parser, print_without_traceback
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.output import check_standard_streams, outputs_begun, stop_printing
from rnnsearch_fairseq.version import __version__

# For each command, its module and function, and a description. Only the command's module is imported.
GROUPS = {
    "Use a model": {
        "translate": ("documents.translate:main", "translate text and documents"),
        "serve": ("serve.server:main", "serve a translation page and a JSON API"),
        "score": ("inference.score:main", "compute log-probabilities and attention of given translations"),
        "plot": ("plots:main", "plot the alignment of a sentence (Bahdanau et al., Figure 3)"),
        "info": ("inference.export:print_info", "print what a model is"),
    },
    "Train a model": {
        "prepare": ("corpus.prepare:main", "clean and split parallel text, and write train.sh, which trains a model"),
        "progress": ("plugin.progress:main", "show how far fairseq-train is, and keep its log"),
        "export": ("inference.export:main", "write a model and all that it needs to a folder for others"),
        "user-dir": ("cli:print_user_dir", "print the folder to give to fairseq's --user-dir"),
    },
}
COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}


def main() -> int | None:
    """Run the command that the command line names, with the remaining words as its arguments; return its status."""
    check_standard_streams()
    name = "".join(sys.argv[1:2])
    if name not in COMMANDS:
        _make_parser().parse_args(sys.argv[1:] or ["--help"])
    print_without_traceback()
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:  # nohup ignores SIGHUP
            signal.signal(number, _end)
    sys.argv[:2] = [f"rnnsearch {name}"]  # argparse prints this as the program's name
    module, function = COMMANDS[name][0].split(":")
    try:
        status = getattr(importlib.import_module(f"rnnsearch_fairseq.{module}"), function)()
        sys.stdout.flush()
    except BrokenPipeError:
        stop_printing()
        return 1
    except OSError as error:
        if error.filename is None:
            stop_printing()
        name = error.filename or "a standard stream or a temporary file"
        cure = "give another path, or free some disk space"
        raise InputError(f"{name}: cannot be used ({error.strerror or error}); {cure}") from error
    return status


def _end(number: int, frame: Any) -> None:
    """Raise an exception at a signal. It removes unfinished files, and ends the program with the status 128 + the
    signal's number."""
    if not outputs_begun:  # at once, since an import may ignore the exception, or abort the process
        os._exit(128 + number)
    raise SystemExit(128 + number)


def _make_parser() -> Parser:
    """The parser that prints help, the version, or an error about an unknown command."""
    lines = []
    for title, group in GROUPS.items():
        lines += ["", f"{title}:", *(f"  {name:9}  {description}" for name, (_, description) in group.items())]
    parser = Parser(
        prog="rnnsearch",
        usage="rnnsearch COMMAND ...",
        description="\n".join([__doc__ or "", *lines]),
        epilog="For help on a command: rnnsearch COMMAND --help",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"rnnsearch-fairseq {__version__}")
    parser.add_argument("command", metavar="COMMAND", choices=COMMANDS, help="a command of the list above")
    return parser


def print_user_dir() -> None:
    make_parser(f"{COMMANDS['user-dir'][1]}\n\n  rnnsearch user-dir").parse_args()
    if importlib.util.find_spec("fairseq") is None:
        raise InputError("fairseq is not installed; at the top of the checkout: pip install '.[train]'")
    print(Path(__file__).resolve().parent)
