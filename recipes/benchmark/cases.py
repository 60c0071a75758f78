"""The command line: which cases are compared, and at which sizes."""

import argparse
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from recipes import benchmark
from rnnsearch_fairseq.errors import InputError

PROGRAM = "python -m recipes.benchmark"
TOOLKITS = ("fairseq", "joeynmt", "marian")
HELP = {
    "train": """Whole updates: forward, backward, clipping, optimizer.

OPTIONS of fairseq are those of fairseq-train, including a data folder. With --vocabulary there is no data: the words
are random, and the dictionaries made up. 'joeynmt WIDTH[/EMBEDDING]' and 'marian WIDTH[/EMBEDDING]' are the other
toolkits' GRU encoder-decoders with attention on random words, with Adam; the embeddings are WIDTH wide, too, if
nothing else is said. Marian's start and saving are not counted.

The peak memory is that of one update, above the parameters and the optimizer's state, which stay between updates. It
counts all of torch's allocations for tensors; Marian's are not known.

One of the sizes may be several, as --lengths 15,30,60; then a table tells how time and memory grow: the exponent b of
a · size^b, and the line fixed + each · size, both fitted by least squares.""",
    "generate": """Search, from a batch of sources to its translations.

OPTIONS of fairseq are those of fairseq-generate, including --path MODEL.pt and a data folder. With --vocabulary there
are neither: words and weights are random, --arch and the model's options are given, and every translation has as many
words as --target tells. 'joeynmt WIDTH[/EMBEDDING] BEAM' and 'marian WIDTH[/EMBEDDING] BEAM' are the other toolkits'
searches, with the models of train and random weights.""",
}
AXES = {
    "lengths": "source and target words, with end-of-sentence (default: 30)",
    "source": "source words, in place of --lengths",
    "target": "target words, in place of --lengths",
    "batch": "sentence pairs in a batch (default: 80)",
    "vocabulary": "entries in made-up dictionaries, including fairseq's four symbols",
    "threads": "threads of a process (default: OMP_NUM_THREADS)",
}
LEAST = {"vocabulary": 5}  # fairseq's four symbols and a word


@dataclass(frozen=True)
class Size:
    """The sizes of a batch of random words, and of the process; see `AXES`.

    ``vocabulary`` None: batches of the data; ``threads`` None: as many as torch chooses.
    """

    source: int = 30
    target: int = 30
    batch: int = 80
    vocabulary: int | None = None
    threads: int | None = None


@dataclass(frozen=True)
class Case:
    """A process's work: a toolkit's command with its options, at a size; ``along`` is the size that grows, if any."""

    name: str
    command: str
    toolkit: str
    options: Sequence[str]
    size: Size
    along: int | None = None

    @property
    def label(self) -> str:
        """The name, with the growing size."""
        return self.name if self.along is None else f"{self.name}, {self.along:,}"


def parse_arguments(words: Sequence[str]) -> argparse.Namespace:
    """Read the command line; ``cases`` lists the cases of each setup in turn, ``axis`` names the growing size, if any.

    Raises:
        InputError: sizes conflict, or a setup has no name of its own.
    """
    end = words.index("--") if "--" in words else len(words)
    own, common = words[:end], words[end + 1 :]
    args = make_parser().parse_args(own)
    sizes_by_axis = {axis: sizes for axis in AXES if (sizes := getattr(args, axis, None))}
    args.axis, sizes = make_sizes(sizes_by_axis)
    args.cases = [
        Case(name, args.command, toolkit, options, size, along)
        for name, (toolkit, options) in parse_setups(args.setups, common).items()
        for along, size in sizes
    ]
    return args


def parse_setups(texts: Sequence[str], common: Sequence[str]) -> dict[str, tuple[str, list[str]]]:
    """Parse 'NAME: [TOOLKIT] OPTIONS' into the toolkit and its options; fairseq's get the common ones, too.

    Raises:
        InputError: a setup has no name, or the name of another.
    """
    setups: dict[str, tuple[str, list[str]]] = {}
    for text in texts:
        name, colon, rest = text.partition(":")
        if not colon or not name.strip() or name.strip() in setups:
            raise InputError(f"setup {text!r} must be 'NAME: OPTIONS', with a name of its own")
        options = shlex.split(rest)
        toolkit = options.pop(0) if options and options[0] in TOOLKITS else "fairseq"
        setups[name.strip()] = toolkit, [*options, *(common if toolkit == "fairseq" else [])]
    return setups


def read_widths(options: Sequence[str], size: Size, usage: str) -> list[int]:
    """Read another toolkit's options, ``WIDTH[/EMBEDDING]`` and, where the ``usage`` has it, ``BEAM``.

    Returns:
        The width, the width of the embeddings, and the beam size if the usage has it.

    Raises:
        InputError: the options are not as ``usage`` tells, or there is no vocabulary for random words.
    """
    match = re.fullmatch(r"(\d+)(?:/(\d+))?" + r" (\d+)" * usage.endswith("BEAM"), " ".join(options))
    if not match or size.vocabulary is None:
        raise InputError(f"{' '.join(options)!r} is not understood; give '{usage}' and --vocabulary N")
    width, embedding, *beam = match.groups()
    return [int(number) for number in (width, embedding or width, *beam)]


def make_sizes(numbers_of: Mapping[str, Sequence[int]]) -> tuple[str | None, list[tuple[int | None, Size]]]:
    """Make the sizes that one axis of several numbers takes, each with its number.

    Returns:
        The axis that grows, and its numbers and sizes; None, and a single size, if none grows.

    Raises:
        InputError: two axes grow, or a size of random words is given without --vocabulary.
    """
    growing = [axis for axis, numbers in numbers_of.items() if len(numbers) > 1]
    if len(growing) > 1:
        raise InputError(f"--{growing[0]} and --{growing[1]} both have several sizes; let one grow at a time")
    of_words = [axis for axis in numbers_of if axis != "threads"]
    if of_words and "vocabulary" not in of_words:
        raise InputError(f"--{of_words[0]} is a size of random words; give --vocabulary N, too, and no data folder")
    axis = growing[0] if growing else None
    sizes = []
    for number in numbers_of[axis] if axis else [None]:
        named = {name: number if name == axis else numbers[0] for name, numbers in numbers_of.items()}
        length = named.pop("lengths", Size.source)
        sizes.append((number, Size(**({"source": length, "target": length} | named))))
    return axis, sizes


def make_parser() -> argparse.ArgumentParser:
    """Build the parser of the words before --."""
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog=PROGRAM, description=benchmark.__doc__, formatter_class=plain)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text in HELP.items():
        summary, _, _ = text.partition("\n")
        usage = f"{PROGRAM} {name} [options] 'NAME: [TOOLKIT] OPTIONS' ... -- COMMON OPTIONS"
        command = commands.add_parser(name, help=summary, description=text, formatter_class=plain, usage=usage)
        command.add_argument("setups", nargs="+", metavar="'NAME: [TOOLKIT] OPTIONS'", help="setups to compare")
        for option, number, told in (("--updates", 8, "batches a round"), ("--rounds", 7, "rounds")):
            told = f"{told} (default: {number})"
            command.add_argument(option, type=_number(1), default=number, metavar="N", help=told)
        for axis in AXES:
            least = LEAST.get(axis, 1)
            command.add_argument(f"--{axis}", type=_numbers(least), metavar="N[,N...]", help=AXES[axis])
    return parser


def _number(least: int) -> Callable[[str], int]:
    """Read a whole number; for argparse."""

    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} on")
        return int(text)

    return read


def _numbers(least: int) -> Callable[[str], list[int]]:
    """Read different whole numbers with commas between; for argparse."""

    def read(text: str) -> list[int]:
        numbers = [_number(least)(word) for word in text.split(",")]
        if len(set(numbers)) < len(numbers):
            raise argparse.ArgumentTypeError(f"{text!r} names a size twice")
        return numbers

    return read
