"""Senseless lines of text to type into ``fairseq-interactive`` and to send to the page.

``python -m tests.fuzz.noise [LINES] > noise``
"""

import itertools
import sys
from collections.abc import Callable, Iterator
from random import Random

LINES = 100_000
LONG = 1_000_000  # characters
WORDS = ["the", "cat", "sees", "a", "black", "horse", ".", "<unk>", "<pad>", "</s>", "<s>", "@@", "▁", "&quot;", "3.14"]
CONTROL = bytes([*range(10), *range(11, 32), 127])
RIGHT_TO_LEFT = "שלום עולם \u202eمرحبا\u202c \u2067 \u200f"
SPACES = ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1f", "\xa0", "\u3000", "\ufeff", "\u200b", "\u200d"]
WIDE = [*map(chr, range(0x1F300, 0x1F400)), "\u200d", "\ufe0f", "🏳️‍🌈", "漢", "字", "𝔘𝔫", "e\u0301", "ﬁ", "İ", "ß"]
ANY = [chr(code) for code in range(11, 0x110000, 1009) if not 0xD800 <= code < 0xE000]
MARKUP = "<>&;\"'/\\()[]{}=#%$`~^|*.!?-_@+,:"
REPEATED = ["...", "''", "((", "&", "!?", "\u0301", "a.b.", "http://", "\t", "\r", "a ", "漢"]
NOT_UTF8 = [
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xed\xb0\x80",
    b"\xc0\x80",
    b"\xf4\x90\x80\x80",
    b"\xe9b",
    b"\xfe\xff\0",
]
VERY_LONG = ["a", "a ", "é", "\0", "שלום ", "-"]


def _words(generator: Random) -> list[str]:
    return generator.choices(WORDS, k=generator.randint(0, 12))


def _length(generator: Random) -> int:
    """A random length, short or long, up to about 3,000."""
    return int(2 ** generator.uniform(0, 11.5))


def _characters(alphabet: str | list[str]) -> Callable[[Random], bytes]:
    return lambda generator: "".join(generator.choices(alphabet, k=_length(generator))).encode()


KINDS: list[Callable[[Random], bytes]] = [
    lambda generator: " ".join(_words(generator)).encode(),
    lambda generator: " ".join(_words(generator) * 12).encode(),
    lambda generator: b" \t" * generator.randrange(3),
    lambda generator: bytes(generator.choices(CONTROL, k=generator.randrange(40))),
    lambda generator: generator.choice([b"\0", b"\0\0 \0", b"a\0b c\0"]) * generator.randrange(1, 400),
    lambda generator: " ".join(_words(generator)).encode() + generator.choice(NOT_UTF8),
    lambda generator: generator.randbytes(generator.randrange(60)).replace(b"\n", b""),
    lambda generator: " ".join([*_words(generator), RIGHT_TO_LEFT]).encode(),
    lambda generator: generator.choice([*SPACES, "\r", "\t"]).join(_words(generator)).encode(),
    lambda generator: (generator.choice(REPEATED) * _length(generator)).encode(),
    *map(_characters, (RIGHT_TO_LEFT, WIDE, ANY, MARKUP)),
]


def noise(number: int, seed: int = 1) -> Iterator[bytes]:
    """Yield ``number`` lines without newlines; one in a thousand has :data:`LONG` characters."""
    generator = Random(seed)
    for count in range(number):
        if count % 1000 == 500:
            piece = generator.choice(VERY_LONG)
            yield (piece * (LONG // len(piece))).encode()
        else:
            yield generator.choice(KINDS)(generator)


def main() -> None:
    """The command line."""
    number = int(sys.argv[1]) if len(sys.argv) > 1 else LINES
    sys.stdout.buffer.writelines(itertools.chain.from_iterable((line, b"\n") for line in noise(number)))


if __name__ == "__main__":
    main()
