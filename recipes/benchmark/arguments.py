"""The benchmarks' command line."""

import argparse
import shlex
from collections.abc import Callable, Collection
from pathlib import Path

from recipes import benchmark
from rnnsearch_fairseq.errors import InputError

PROGRAM = "python -m recipes.benchmark"
OPTIONS = """\
OPTIONS and COMMON OPTIONS are options of fairseq-train, including a data folder; with --vocabulary there is no data,
and the dictionaries are made up."""
GROWTH = """\
Batches consist of random words. One size grows along an axis; the others stay at --lengths, --batch-size, --vocabulary
and one process. Two least-squares fits are printed: the exponent b of a · size^b, with its standard error, and the line
fixed + each · size."""
HELP = {
    "train": f"""Whole updates: forward, backward, clipping, optimizer.

{OPTIONS}

With --lengths, the batches consist of random sentences of these lengths. Operations a second count the models' matrix
products; their share is relative to this machine's rate on large matrices, measured in the same rounds.""",
    "generate": """Search, from a batch of sources to its translations.

OPTIONS and COMMON OPTIONS are options of fairseq-generate, including --path MODEL.pt and a data folder.""",
    "memory": f"""Peak memory of an update, and how it grows.

{OPTIONS}

The peak excludes the parameters and the optimizer's state, which stay between updates; it counts all of torch's
allocations for tensors.

{GROWTH}""",
    "scaling": f"""Time of an update, and how it grows.

{OPTIONS}

{GROWTH}

Several processes share each batch in fairseq's distributed training with gloo; each has OMP_NUM_THREADS threads.""",
}
SIZES = {
    "source": [15, 30, 60, 120],
    "target": [15, 30, 60, 120],
    "lengths": [15, 30, 60, 120],
    "batch": [20, 40, 80, 160],
    "vocabulary": [2500, 5000, 10000, 20000],
    "processes": [1, 2],
}
AXES = {
    "memory": ["source", "target", "lengths", "batch", "vocabulary"],
    "scaling": ["source", "target", "lengths", "batch", "vocabulary", "processes"],
}
DEFAULT_AXES = {
    "memory": ["source", "target", "lengths", "batch"],
    "scaling": ["source", "target", "batch", "vocabulary", "processes"],
}
ENTRIES = 5  # in the smallest dictionary: fairseq's four symbols and a word


def parse_arguments(words: list[str]) -> argparse.Namespace:
    """Read the command line; ``setups`` maps each setup's name to its options and the common ones.

    Raises:
        InputError: a number is out of range, options conflict, or a setup has no name of its own.
    """
    own, common = words, []
    if "--" in words:
        own, common = words[: words.index("--")], words[words.index("--") + 1 :]
    args = make_parser().parse_args(own)
    args.setups = parse_setups(args.setups, common)
    if args.command == "train" and args.lengths is None and (args.vocabulary or args.joeynmt):
        given = "--vocabulary" if args.vocabulary else "--joeynmt"
        raise InputError(f"{given} needs batches of random words; give --lengths S,T, too")
    if args.command in AXES:
        args.along = _choose_axes(args.along, args.vocabulary, DEFAULT_AXES[args.command])
    return args


def parse_setups(given: list[str], common: list[str]) -> dict[str, list[str]]:
    """Parse 'NAME: OPTIONS' for each setup, and append the common options.

    Raises:
        InputError: a setup has no name, or the name of another.
    """
    setups: dict[str, list[str]] = {}
    for text in given:
        name, colon, options = text.partition(":")
        if not colon or not name.strip() or name.strip() in setups:
            raise InputError(f"setup {text!r} must be 'NAME: OPTIONS', with a name of its own")
        setups[name.strip()] = shlex.split(options) + common
    return setups


def _choose_axes(
    given: list[tuple[str, list[int]]] | None, vocabulary: int | None, default: list[str]
) -> dict[str, list[int]]:
    """The sizes along each axis; without any given, the default axes that the data allows."""
    axes = dict(given or [(axis, SIZES[axis]) for axis in default if vocabulary or axis != "vocabulary"])
    if "vocabulary" in axes and vocabulary is None:
        raise InputError("--along vocabulary: the data's dictionaries have one size; give --vocabulary N and no data")
    return axes


def make_parser() -> argparse.ArgumentParser:
    """Build the parser of the words before --."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description=benchmark.__doc__,
        epilog=f"For help on a command: {PROGRAM} COMMAND --help",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage=f"{PROGRAM} COMMAND [options] 'NAME: OPTIONS' ... -- COMMON OPTIONS",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", prog=PROGRAM)
    for name, text in HELP.items():
        command = commands.add_parser(
            name,
            help=text.partition("\n")[0],
            description=text,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            usage="%(prog)s [options] 'NAME: OPTIONS' ... -- COMMON OPTIONS",
        )
        command.add_argument("setups", nargs="+", metavar="'NAME: OPTIONS'", help="setups to compare")
        if name != "memory":
            _add_rounds(command, name)
        if name != "generate":
            _add_sizes(command, name)
        if name == "train":
            command.add_argument(
                "--joeynmt",
                type=_at_least(1),
                metavar="WIDTH",
                help="also time JoeyNMT's GRU encoder-decoder with attention: this width throughout, Adam, and the "
                "first setup's random words",
            )
        command.add_argument("--output", type=Path, metavar="FILE", help="also write the measurements as JSON")
    return parser


def _add_rounds(command: argparse.ArgumentParser, name: str) -> None:
    updates, rounds = (2, 5) if name == "scaling" else (8, 7)
    what = "batches" if name == "generate" else "updates"
    for option, number, told in (("--updates", updates, f"{what} a round"), ("--rounds", rounds, "rounds")):
        command.add_argument(option, type=_at_least(1), default=number, metavar="N", help=f"{told} (default: {number})")


def _add_sizes(command: argparse.ArgumentParser, name: str) -> None:
    told = "source and target words, with end-of-sentence"
    if name == "train":
        command.add_argument("--lengths", type=_lengths, metavar="S,T", help=f"random words: {told}")
    else:
        command.add_argument(
            "--lengths", type=_lengths, default=(30, 30), metavar="S,T", help=f"{told} (default: 30,30)"
        )
        default = " ".join(f"{axis}={','.join(map(str, SIZES[axis]))}" for axis in DEFAULT_AXES[name])
        command.add_argument(
            "--along",
            action="append",
            type=_axis(AXES[name]),
            metavar="AXIS=N,N",
            help=f"an axis and its sizes: {', '.join(AXES[name])}; can be repeated (default: {default})",
        )
    command.add_argument(
        "--vocabulary",
        type=_at_least(ENTRIES),
        metavar="N",
        help="make up dictionaries of N entries, including fairseq's four symbols (default: the data's dictionaries)",
    )


def _at_least(least: int) -> Callable[[str], int]:
    """Read a whole number; for argparse."""

    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} on")
        return int(text)

    return read


def _lengths(text: str) -> tuple[int, int]:
    """Two lengths with a comma between; for argparse."""
    source, comma, target = text.partition(",")
    if not (comma and source.isdecimal() and target.isdecimal() and min(int(source), int(target)) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not two lengths, as 30,30")
    return int(source), int(target)


def _axis(axes: Collection[str]) -> Callable[[str], tuple[str, list[int]]]:
    """Read an axis and its sizes; for argparse."""

    def read(text: str) -> tuple[str, list[int]]:
        axis, _, sizes = text.partition("=")
        if axis not in axes:
            raise argparse.ArgumentTypeError(f"{text!r} names none of {', '.join(axes)}")
        least = ENTRIES if axis == "vocabulary" else 1
        numbers = [int(size) if size.isdecimal() else 0 for size in sizes.split(",")]
        if min(numbers) < least or len(numbers) < 2 or len(set(numbers)) < len(numbers):
            raise argparse.ArgumentTypeError(
                f"{text!r} must have two or more different sizes from {least} on, as {axis}=10,20,40"
            )
        return axis, numbers

    return read
