"""Write a corpus of the built-in grammar in which sentences of all lengths are equally frequent, up to 60 words.

1 to 10 words, 11 to 20 words, and so on, the bins of ``recipes.reproduce.by_length``, get equal numbers of pairs. No
English sentence is there twice. OUT gets the files of ``recipes.grammar``.

  python -m recipes.reproduce.even_lengths corpus
"""

import random
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from recipes.grammar.corpus import LONGEST, SHORTEST, SentencePair, finish, write_parts
from recipes.grammar.derivations import Grammar
from rnnsearch_fairseq.command_line import count, make_parser, print_without_traceback

WIDTH = 10  # words of a bin
SIZES = {"train": 200_000, "valid": 600, "test": 1_200}


def draw(sizes: Sequence[int], seed: int) -> list[list[SentencePair]]:
    """Draw parts of these sizes: in each, the bins of lengths get equal numbers of pairs, give or take 1."""
    rng = random.Random(seed)
    grammar = Grammar(rng)
    bins = range(SHORTEST, LONGEST + 1, WIDTH)
    shares = [[size // len(bins) + (bin < size % len(bins)) for bin in range(len(bins))] for size in sizes]
    missing = [sum(of_bin) for of_bin in zip(*shares)]
    drawn: list[dict[str, SentencePair]] = [{} for _ in bins]
    while any(missing):
        bin = rng.choices(range(len(bins)), missing)[0]
        pair = finish(grammar.sentence(rng.randint(max(SHORTEST, bin * WIDTH + 1), (bin + 1) * WIDTH)))
        bin, key = (len(pair.source) - 1) // WIDTH, " ".join(pair.source)
        if bin < len(bins) and missing[bin] and key not in drawn[bin]:
            drawn[bin][key] = pair
            missing[bin] -= 1
    # The stream runs out of short sentences as it goes on; in random order, all parts have the same mix of lengths.
    streams = [iter(rng.sample(list(of_bin.values()), len(of_bin))) for of_bin in drawn]
    parts = []
    for of_part in shares:
        parts.append([pair for stream, share in zip(streams, of_part) for pair in islice(stream, share)])
        rng.shuffle(parts[-1])
    return parts


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("folder", type=Path, metavar="OUT", help="folder to write")
    for part, size in SIZES.items():
        parser.add_argument(f"--{part}", type=count, default=size, help=f"{part} sentence pairs ({size:,})")
    args = parser.parse_args()
    write_parts(args.folder, dict(zip(SIZES, draw([getattr(args, part) for part in SIZES], seed=1))))


if __name__ == "__main__":
    print_without_traceback()
    main()
