"""Load test of a running page: ``python -m recipes.benchmark.serving_load URL TEXT --users 50 --seconds 300``

Each user requests the translation of a line of TEXT as the page does, reads the answer, and requests the next one at
once, until the time is over. Requests that failed because the server was busy are counted apart from all other errors,
which make the exit status 1.
"""

import argparse
import http.client
import json
import random
import statistics
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from rnnsearch_fairseq.errors import InputError, count, print_without_traceback
from rnnsearch_fairseq.text.lines import read_lines

SECONDS_TO_ANSWER = 60
SECONDS_TO_TRY_AGAIN = 1.0


@dataclass
class Answers:
    """The results of all requests."""

    seconds: list[float] = field(default_factory=list)
    busy: int = 0
    errors: Counter[str] = field(default_factory=Counter)

    def summary(self) -> str:
        """A few readable lines."""
        counts = f"{len(self.seconds):,} translations, {self.busy:,} times busy"
        lines = [f"{counts}, {self.errors.total():,} errors"]
        if len(self.seconds) > 1:
            percentiles = statistics.quantiles(self.seconds, n=20, method="inclusive")
            lines.append(f"median {percentiles[9]:.3f} s, 95th percentile {percentiles[18]:.3f} s")
        return "\n".join(lines + [f"{count:,} x {error}" for error, count in self.errors.most_common(5)])


def use(url: str, sentences: list[str], users: int, seconds: float) -> Answers:
    """Let ``users`` request translations of random ``sentences`` from the server at ``url``."""
    answers, lock = Answers(), threading.Lock()
    ends = time.monotonic() + seconds

    def user(number: int) -> None:
        generator = random.Random(number)
        while True:
            started = time.monotonic()
            kind = ask(url, generator.choice(sentences))
            with lock:
                if kind == "":
                    answers.seconds.append(time.monotonic() - started)
                elif kind == "busy":
                    answers.busy += 1
                else:
                    answers.errors[kind] += 1
            if time.monotonic() >= ends:
                return
            if kind:
                time.sleep(SECONDS_TO_TRY_AGAIN)

    threads = [threading.Thread(target=user, args=(number,)) for number in range(users)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def ask(url: str, sentence: str) -> str:
    """Request a translation as the page does; return "" on success, "busy", or an error message."""
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port or 80, timeout=SECONDS_TO_ANSWER)
    try:
        body = json.dumps({"sentences": [sentence]})
        connection.request("POST", "/api/translate/stream", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        lines = response.read().splitlines()
        if response.status == 503 and response.headers["Retry-After"]:
            return "busy"
        answer = json.loads(lines[-1])
        if response.status != 200:
            return f"{response.status}: {answer['error']}"
        problem = answer.get("error") or answer["sentences"][0].get("error")
        return problem or ""
    except (OSError, http.client.HTTPException, ValueError, LookupError) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        connection.close()


def main() -> int:
    """The command line of this module; returns its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", help="address of the page: http://127.0.0.1:8000/")
    parser.add_argument("text", type=Path, help="sentences to translate, one a line")
    parser.add_argument("--users", type=count, default=50, help="concurrent users (default: 50)")
    parser.add_argument("--seconds", type=float, default=300, metavar="S", help="default: 300")
    args = parser.parse_args()
    sentences = [line.strip() for line in read_lines(args.text) if line.strip()]
    if not sentences:
        raise InputError(f"{args.text}: no sentences; give a file of one sentence per line")
    answers = use(args.url, sentences, args.users, args.seconds)
    print(answers.summary())
    return 1 if answers.errors else 0


if __name__ == "__main__":
    print_without_traceback()
    sys.exit(main())
