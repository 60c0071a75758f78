"""The command ``rnnsearch``: everything that this package adds to fairseq's own commands."""

import argparse
import importlib.util
import os
import signal
import sys
from pathlib import Path
from typing import Any

from rnnsearch_fairseq.command_line import Parser, make_parser, print_without_traceback
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.output import open_standard_streams, outputs_begun, stop_printing
from rnnsearch_fairseq.version import __version__

# For each command, its module and function, and a description. Only the command's module is imported.
COMMANDS = {
    "translate": ("documents.translate:main", "translate text"),
    "score": ("inference.score:main", "compute log-probabilities and attention of given translations"),
    "serve": ("serve.main:main", "serve a translation page and a JSON API"),
    "info": ("inference.info:main", "print what a model is"),
    "export": ("inference.export:main", "write a model with all that it needs to one folder, to hand it on"),
    "average": ("inference.average:main", "average the parameters of checkpoints"),
    "user-dir": ("cli:print_user_dir", "print the folder to give to fairseq's --user-dir"),
    "prepare": ("corpus.prepare:main", "split raw parallel text into tokens or subwords"),
    "progress": ("plugin.progress:main", "show how far fairseq-train is, and keep its log"),
    "limit": ("corpus.limit:main", "leave out long training pairs, and those without a parse"),
    "parse": ("corpus.link_grammar:main", "parse English text with Link Grammar"),
    "trees": ("corpus.parses:main", "convert parses (Penn brackets, Enju's XML) for training"),
    "lengths": ("corpus.lengths:main", "count target lengths by source length, for --length-statistics"),
    "plot alignment": ("plots.alignment:main", "plot the alignment of a sentence (Bahdanau et al., Figure 3)"),
    "plot constituents": ("plots.constituents:main", "plot words and phrases attended to (Eriguchi et al., Figure 4)"),
}


def main() -> int | None:
    """Run the command that the command line names, with the remaining words as its arguments; return its status."""
    open_standard_streams()
    words = sys.argv[1:]
    size = 2 if " ".join(words[:2]) in COMMANDS else 1
    name = " ".join(words[:size])
    if name not in COMMANDS:
        _make_parser().parse_args(words or ["--help"])
    module, function = COMMANDS[name][0].split(":")
    print_without_traceback()
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:  # nohup ignores SIGHUP
            signal.signal(number, _end)
    # By default, PyTorch's waiting threads spin so long that beside another program all takes many times as long.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    # argparse prints this as the program's name.
    sys.argv[: size + 1] = [f"rnnsearch {name}"]
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
        raise InputError(f"{name}: cannot be used ({error.strerror or error}); give another, or make room") from error
    return status


def _end(number: int, frame: Any) -> None:
    """End at a signal with the status 128 + its number; an exception removes unfinished files.

    Before there are files, there is no exception, since an import may ignore it, or abort the process.
    """
    if not outputs_begun:
        os._exit(128 + number)
    raise SystemExit(128 + number)


def _make_parser() -> Parser:
    """Build a parser that prints help, the version, or an error about an unknown command."""
    width = max(map(len, COMMANDS))
    parser = Parser(
        prog="rnnsearch",
        description=f"{__doc__}\n\n" + "\n".join(f"  {name:{width}}  {does}" for name, (_, does) in COMMANDS.items()),
        epilog="For help on a command: rnnsearch COMMAND --help",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="rnnsearch COMMAND ...",
    )
    parser.add_argument("--version", action="version", version=f"rnnsearch-fairseq {__version__}")
    parser.add_argument("command", metavar="COMMAND", choices=COMMANDS, help="a command of the list above")
    return parser


def print_user_dir() -> None:
    """Print the folder to give to fairseq's ``--user-dir``."""
    make_parser(f"{COMMANDS['user-dir'][1]}\n\n  rnnsearch user-dir").parse_args()
    if importlib.util.find_spec("fairseq") is None:
        raise InputError("fairseq, which trains models, is not installed; install this package with its extra, train")
    print(Path(__file__).resolve().parent)
