"""Lines of text that nobody meant to translate, to type into ``fairseq-interactive``.

``python -m tests.fuzz.noise [LINES] > noise``
"""

import itertools
import sys
from collections.abc import Iterator
from random import Random

LINES = 100_000
WORDS = ["the", "cat", "sees", "a", "black", "horse", ".", "<unk>", "<pad>", "</s>", "<s>", "@@", "&quot;", "(", "3.14"]
RIGHT_TO_LEFT = "שלום עולם \u202eمرحبا\u202c \u200f"
ODD = [
    "\u2028",
    "\x85",
    "\x0b",
    "\x0c",
    "\x1c",
    "\x1f",
    "\xa0",
    "\u3000",
    "\ufeff",
    "\u200d",
    "e\u0301" * 9,
    "𝔘𝔫",
    "🏳️‍🌈",
]
NOT_UTF8 = [
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xed\xb0\x80",
    b"\xc0\x80",
    b"\xf4\x90\x80\x80",
    b"a\xe9b",
    b"\xfe\xff\x00a",
]
LONG = 1_000_000  # characters


def noise(number: int, seed: int = 1) -> Iterator[bytes]:
    """So many lines, without their newlines; one in a thousand has :data:`LONG` characters."""
    generator = Random(seed)

    def sentence() -> list[str]:
        return generator.choices(WORDS, k=generator.randint(0, 12))

    def line() -> bytes:
        words = sentence()
        kind = generator.randrange(12)
        if kind == 0:
            return b" \t" * generator.randrange(3)
        if kind == 1:
            return bytes(generator.choice([*range(10), *range(11, 32), 127]) for _ in range(generator.randrange(40)))
        if kind == 2:
            return generator.choice([b"\0", b"\0\0 \0", b"a\0b c\0"]) * generator.randrange(1, 9)
        if kind == 3:
            return " ".join(words).encode() + generator.choice(NOT_UTF8)
        if kind == 4:
            return generator.randbytes(generator.randrange(60)).replace(b"\n", b"")
        if kind == 5:
            return generator.choice(RIGHT_TO_LEFT.split()).encode() + " ".join(words).encode() + RIGHT_TO_LEFT.encode()
        if kind == 6:
            return generator.choice(ODD).join(words).encode()
        if kind == 7:
            return generator.choice(["\r", "\r\r", "\t", "\t\t"]).join(words).encode()
        if kind == 8:
            return (" ".join(words) + generator.choice([" ", ""]) * generator.randrange(3000)).encode()
        if kind == 9:
            return b"a " * generator.randrange(1500) + b"b"
        return " ".join(words).encode()

    for count in range(number):
        if count % 1000 == 500:
            yield (
                generator.choice([b"a", b"a ", "é".encode(), b"\0", "שלום ".encode(), b"\xff", b"-"]) * (LONG // 2) * 2
            )
        else:
            yield line()


def main() -> None:
    """The command line."""
    number = int(sys.argv[1]) if len(sys.argv) > 1 else LINES
    sys.stdout.buffer.writelines(itertools.chain.from_iterable((line, b"\n") for line in noise(number)))


if __name__ == "__main__":
    main()
