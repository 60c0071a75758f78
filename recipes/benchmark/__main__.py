"""Measure the cases of a command line, and print a table."""

import argparse
import shlex
import statistics
import sys
from collections.abc import Sequence

from recipes import benchmark
from recipes.benchmark.runner import Case, Timing, measure
from rnnsearch_fairseq.command_line import count, print_without_traceback
from rnnsearch_fairseq.errors import InputError

EPILOG = """\
A case 'NAME @ FOLDER: OPTIONS' runs the package of another checkout, FOLDER/rnnsearch_fairseq. With --vocabulary there
is no data folder: words are random, dictionaries made up, and in generate the weights are random, too (give --arch in
place of --path), and every translation has --lengths words.

example:
  python -m recipes.benchmark train --vocabulary 4008 'new:' 'old @ ../old:' -- --arch bahdanau_gru_small \\
      --task rnnsearch --criterion summed_nll --optimizer adam --lr 0.001 --clip-norm 1"""


def parse_arguments(words: Sequence[str]) -> argparse.Namespace:
    """Read the command line; ``cases`` has its cases.

    Raises:
        InputError: a case has no name, or the name of another.
    """
    end = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(
        prog="python -m recipes.benchmark",
        description=benchmark.__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=("train", "generate"))
    parser.add_argument("setups", nargs="+", metavar="'NAME: OPTIONS'", help="the cases to compare")
    for option, number, unit in (("--updates", 8, "batches a round"), ("--rounds", 7, "rounds")):
        parser.add_argument(option, type=count, default=number, help=f"{unit} (default: {number})")
    parser.add_argument("--vocabulary", type=count, help="entries of made-up dictionaries, fairseq's four included")
    parser.add_argument("--lengths", type=count, default=30, help="random words of a sentence, with its end (30)")
    parser.add_argument("--batch", type=count, default=80, help="random sentence pairs in a batch (80)")
    args = parser.parse_args(words[:end])
    args.cases = []
    for setup in args.setups:
        label, colon, options = setup.partition(":")
        name, _, checkout = (part.strip() for part in label.partition(" @ "))
        if not colon or not name or name in [case.name for case in args.cases]:
            raise InputError(f"{setup!r} must be 'NAME: OPTIONS', each with another name")
        args.cases.append(Case(name, [*shlex.split(options), *words[end + 1 :]], checkout or None))
    return args


def format_table(timings: Sequence[Timing], unit: str) -> str:
    """Format speeds in the median round, their range over the rounds, and memory, as Markdown.

    The first columns are of CPU time, or of the clock where the work was on a GPU.
    """
    on_gpu = timings[0].on_gpu
    header = [f"{unit}/s of {'the clock' if on_gpu else 'CPU time'}", "slowest to fastest round", "time, relative"]
    header += [f"{unit}/s of {'CPU time' if on_gpu else 'the clock'}", "peak MB"]
    lines = [f"| | {' | '.join(header)} |", f"|{'---|' * (len(header) + 1)}"]

    def median_unit(timing: Timing) -> float:
        return statistics.median(timing.wall if on_gpu else timing.cpu) / timing.count

    for timing in timings:
        main, second = (timing.wall, timing.cpu) if on_gpu else (timing.cpu, timing.wall)
        cells = [
            timing.name,
            _short(1 / median_unit(timing)),
            f"{_short(timing.count / max(main))} to {_short(timing.count / min(main))}",
            f"{median_unit(timing) / median_unit(timings[0]):.2f}",
            _short(timing.count / statistics.median(second)),
            "" if timing.peak is None else _short(timing.peak / 1e6),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _short(value: float) -> str:
    """Format a number with at least three digits."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def main() -> int:
    """Run the command; returns 1 if a case failed."""
    args = parse_arguments(sys.argv[1:])
    work = {name: getattr(args, name) for name in ("command", "updates", "vocabulary", "lengths", "batch")}
    timings = measure(args.cases, work, args.rounds)
    if timings:
        print(f"{args.rounds} rounds of {args.updates} batches; {timings[0].device}\n")
        print(format_table(timings, "target words" if args.command == "train" else "sentences"))
    return int(len(timings) < len(args.cases))


if __name__ == "__main__":
    print_without_traceback()
    sys.exit(main())
