"""Noise for a running server: every line is answered, or refused by its number, and memory does not grow.

``.venv/bin/python -m tests.serve.fuzz_page --path CHECKPOINT --lines 100000 [OPTIONS OF THE SERVER]``
"""

import argparse
import http.client
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.serve.live import Live, serving

LONGEST = 1_000_000
LINES_OF_REQUEST = 16
WARM_UP = 0.2  # of the lines, after which memory is to stay as it is
WORDS = [
    "the",
    "dog",
    "a",
    "man",
    "in",
    "black",
    "hat",
    ".",
    ",",
    "<unk>",
    "</s>",
    "<pad>",
    "&apos;s",
    "@@",
    "▁",
    "(",
    ")",
]
CHARACTERS = {
    "control": [*map(chr, range(32)), "\x7f", "\x85", "\u2028", "\u2029", "\ufeff", "\u200b"],
    "surrogates": [*map(chr, range(0xD800, 0xE000, 97)), "a", " "],
    "right-to-left": ["\u202e", "\u202c", "\u2067", "ك", "ل", "ب", "ש", "ל", "ו", "ם", " ", " "],
    "wide": [*map(chr, range(0x1F300, 0x1F400)), "\u200d", "\ufe0f", "漢", "字", "e\u0301", "ﬁ", "İ", "ß"],
    "any": [chr(code) for code in range(1, 0x110000, 1009) if not 0xD800 <= code < 0xE000],
    "markup": list("<>&;\"'/\\()[]{}=#%$`~^|*.!?-_@+,:"),
}


def noise(generator: random.Random) -> str:
    """A line of noise."""
    kind = generator.choice(["empty", "NUL", "words", "long", "repeated", *CHARACTERS])
    length = int(2 ** generator.uniform(0, 11.5))
    if kind == "empty":
        return " \t\n"[: generator.randrange(4)]
    if kind == "NUL":
        return "\0" * length
    if kind == "words":
        return " ".join(generator.choices(WORDS, k=generator.randrange(1, 130)))
    if kind == "long":  # now and then as long as can be
        return generator.choice(["x", "a ", ".", "漢"]) * (LONGEST if generator.random() < 0.002 else 20 * length)
    if kind == "repeated":
        return generator.choice(["...", "''", "((", "&", "!?", "\u0301", "a.b.", "http://"]) * (length // 2)
    return "".join(generator.choices(CHARACTERS[kind], k=length))


def requests(lines: int, generator: random.Random) -> Iterator[list[str]]:
    """Lines of noise, many or few to a request."""
    rest = (noise(generator) for _ in range(lines))
    while chunk := list(islice(rest, generator.randint(1, LINES_OF_REQUEST))):
        yield chunk


def send(connection: http.client.HTTPConnection, path: str, lines: list[str]) -> tuple[int, Any]:
    """The status and the answer, of a stream its last line."""
    body = json.dumps({"sentences": lines}).encode()
    connection.request("POST", path, body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    answer = json.loads(response.read().splitlines()[-1])
    return response.status, answer


def check(live: Live, lines: int, seed: int = 1) -> tuple[Counter[str], list[int]]:
    """Send noise.

    Returns:
        How many lines were answered, and refused for which reason; and the server's memory after each request.
    """
    generator = random.Random(seed)
    place = urlsplit(live.url)
    connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=600)
    outcomes: Counter[str] = Counter()
    memory = []
    for sent in requests(lines, generator):
        path = generator.choice(["/api/translate", "/api/translate/stream"])
        status, answer = send(connection, path, sent)
        assert status == 200, (status, answer, sent)
        assert len(answer["sentences"]) == len(sent)
        for number, result in enumerate(answer["sentences"], 1):
            if "error" in result:
                assert f"sentence {number}" in result["error"], result
                assert "the server failed" not in result["error"], (result, sent[number - 1])
                outcomes["refused"] += 1
            else:
                assert result["translations"], (result, sent[number - 1])
                outcomes["answered"] += 1
        memory.append(live.resident)
    connection.close()
    return outcomes, memory


def growth(memory: list[int]) -> tuple[int, int]:
    """Most memory while warming up, and after that."""
    warm = max(1, int(len(memory) * WARM_UP))
    return max(memory[:warm]), max(memory[warm:])


def main() -> int:
    """The command line of this module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--path", type=Path, required=True)
    parser.add_argument("--lines", type=int, default=100_000)
    args, words = parser.parse_known_args()
    outcomes: Counter[str] = Counter()
    memory: list[int] = []
    with tempfile.TemporaryDirectory() as folder, serving(args.path, Path(folder, "log"), *words) as live:
        for tenth in range(10):
            started = time.monotonic()
            some, sizes = check(live, args.lines // 10, seed=tenth)
            outcomes += some
            memory += sizes
            seconds, most = time.monotonic() - started, max(sizes) / 2**20
            print(f"{outcomes.total():,} lines: {dict(outcomes)}; {seconds:,.0f} s, memory {most:,.0f} MiB", flush=True)
    before, after = growth(memory)
    print(f"memory: {before / 2**20:,.0f} MiB at most in the first {WARM_UP:.0%}, {after / 2**20:,.0f} MiB after")
    return 0


if __name__ == "__main__":
    sys.exit(main())
