"""Noise for a running server: every line is answered, or refused by its number, and memory does not grow.

``.venv/bin/python -m tests.serve.fuzz_page --path CHECKPOINT [OPTIONS OF THE SERVER]``
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
from tests.serve.noise import LINES, noise

LINES_OF_REQUEST = 16
WARM_UP = 0.2  # of the lines, after which memory is to stay as it is


def requests(lines: int, seed: int) -> Iterator[list[str]]:
    """Lines of noise, many or few to a request; what is not UTF-8 in them becomes lone surrogates, as JSON can hold."""
    generator = random.Random(seed)
    rest = (line.decode("utf-8", "surrogateescape") for line in noise(lines, seed))
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
    for sent in requests(lines, seed):
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
    parser.add_argument("--lines", type=int, default=LINES)
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
