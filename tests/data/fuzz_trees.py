"""Many damaged and senseless inputs for the readers of trees: anything but a tree or "no parse" ends it with an error.

``.venv/bin/python -m tests.data.fuzz_trees [INPUTS]`` (default: 100,000); the tests read some thousand.
"""

import random
import sys
import time
from collections import Counter

from rnnsearch_fairseq.data import grammar
from rnnsearch_fairseq.data.trees import READERS, parse_transitions
from rnnsearch_fairseq.errors import InputError
from tests.data.test_trees import PIECES, REAL, check


def damage(text: str, form: str, generator: random.Random) -> str:
    """``text`` with one to eight places cut out, repeated, or replaced by what a parser knows."""
    for _ in range(generator.choice([1, 1, 1, 2, 3, 8])):
        begin = generator.randrange(len(text) + 1)
        end = min(len(text), begin + generator.choice([0, 0, 1, 1, 2, 5, 20, 200]))
        new = generator.choice(
            [
                "",
                generator.choice(PIECES[form]),
                chr(generator.randrange(0x110000)),
                text[begin:end] * generator.randrange(2, 6),
            ]
        )
        text = text[:begin] + new + text[end:]
    return text


def senseless(form: str, generator: random.Random) -> str:
    """Pieces of the format in any order, and a few characters that are not."""
    length = 1 + int(generator.expovariate(1 / 40))
    return "".join(
        generator.choice(PIECES[form]) if generator.random() < 0.9 else chr(generator.randrange(0x110000))
        for _ in range(length)
    )


def read_transitions(line: str) -> bool:
    """Whether the line is that of a tree, or of no parse."""
    try:
        parse_transitions(line)
    except InputError:
        return False
    return True


def main() -> None:
    """Read the inputs and print what became of them."""
    inputs = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    generator = random.Random(1)
    real = {**REAL, "penn": [pair.parse for pair in grammar.generate(500, seed=3)]}
    began, counts = time.process_time(), Counter()
    for number in range(inputs):
        form = [*READERS, "transitions"][number % (len(READERS) + 1)]
        if form == "transitions":
            line = "".join(generator.choice("SSSRR-X\0é") + " " for _ in range(generator.randrange(12)))
            counts[form, "senseless", read_transitions(line)] += 1
            continue
        kind = "damaged" if generator.random() < 0.7 else "senseless"
        text = (
            damage(generator.choice(real[form]), form, generator) if kind == "damaged" else senseless(form, generator)
        )
        counts[form, kind, check(form, text, generator.choice(["left", "right"]))] += 1
    for (form, kind, read), count in sorted(counts.items()):
        print(f"{form}, {kind}: {count:,} {'read' if read else 'refused'}")
    print(f"{inputs:,} inputs, no other outcome, {time.process_time() - began:.0f} s of CPU time")


if __name__ == "__main__":
    main()
