"""Parse English text by Link Grammar (Sleator and Temperley 1991), for ``rnnsearch trees --format penn``.

SOURCE is tokenised English, one sentence a line. Line N of the output is its tree in Penn brackets, whose leaves are
the words of SOURCE, all labelled X: ``(S (NP (X many) (X animals)) (VP (X sleep)) (X .))``; or ``(())``, for a sentence
without a tree. Needs link-parser; Debian: apt-get install link-grammar.

  rnnsearch parse text/train.en --output text/train.penn
"""

import contextlib
import os
import re
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from enum import Enum
from pathlib import Path

from rnnsearch_fairseq.errors import InputError, make_parser
from rnnsearch_fairseq.output import check_not_input, open_output
from rnnsearch_fairseq.text.lines import check_text_files, read_lines
from rnnsearch_fairseq.text.trees import unescape

PROGRAM = "link-parser"
NO_TREE = "(())"
MAX_BYTES = 2000  # link-parser ends at a line of 2,048
START_SECONDS, MAX_SECONDS = 60, 100_000

# Trees on one line; at most 50 linkages, drawn by chance from more; no spelling corrections of unknown words.
_SETTINGS = ("-constituents=3", "-graphics=0", "-limit=50", "-spell=0")
# A command that changes nothing; its answer shows that the sentence before it is done.
_MARK, _MARKED = b"!short=16\n", b"short set to 16\n"


class Failure(Enum):
    """Why a sentence has no tree."""

    NONE_GIVEN = f"for which {PROGRAM} gives no tree"
    OTHER_WORDS = f"whose words {PROGRAM} splits otherwise"
    TOO_LONG = f"of more than {MAX_BYTES:,} bytes"
    TIMEOUT = "that took too long"
    ENDED = f"at which {PROGRAM} ended"


class LinkParser:
    """A running ``link-parser``, started at the first sentence, and again after a sentence at which it ended.

    A sentence may take ``seconds`` at the longest.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None

    def parse(self, words: Sequence[str]) -> str | Failure:
        """The tree of a sentence in brackets, with its words as leaves; an InputError if link-parser cannot start."""
        plain = [unescape(word) for word in words]
        # A line's first character may make it a command or a comment; a blank does not.
        line = f" {' '.join(plain)}\n".encode()
        if len(line) > MAX_BYTES:
            return Failure.TOO_LONG
        if not words:
            return Failure.NONE_GIVEN
        if self._process is None:
            self._start()
        answer = self._ask(line, self._seconds)
        if isinstance(answer, Failure):
            self.close()
            return answer
        trees = [line for line in answer.splitlines() if line.startswith("(")]
        return put_words(trees[0], plain, words) if trees else Failure.NONE_GIVEN

    def close(self) -> None:
        """End the program."""
        if self._process is not None:
            with self._process:  # at the end it closes the pipes, and waits
                self._process.kill()
            self._process = None

    def _start(self) -> None:
        # After its own time limit it would try again with other settings, so that limit is longer than ours.
        command = ["stdbuf", "-oL", PROGRAM, "en", *_SETTINGS, f"-timeout={int(self._seconds) + 10}"]
        with tempfile.TemporaryFile() as messages:
            self._process = subprocess.Popen(
                command,
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=messages,
                env={**os.environ, "LC_ALL": "C.UTF-8"},
            )
            if isinstance(self._ask(b"", START_SECONDS), Failure):
                self.close()
                messages.seek(0)
                said = messages.read().decode(errors="replace").split("\n")
                reason = next((line for line in said if "rror" in line), "no reason given")
                raise InputError(
                    f"{PROGRAM} does not start ({reason.strip()}); install it again (Debian: link-grammar)"
                )

    def _ask(self, line: bytes, seconds: float) -> str | Failure:
        """What the program prints for a line of input."""
        deadline = time.monotonic() + seconds
        answer = b""
        try:
            self._process.stdin.write(line + _MARK)
        except BrokenPipeError:
            return Failure.ENDED
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while not answer.endswith(_MARKED):
                if not selector.select(max(0, deadline - time.monotonic())):
                    return Failure.TIMEOUT
                read = os.read(self._process.stdout.fileno(), 1 << 16)
                if not read:
                    return Failure.ENDED
                answer += read
        return answer.decode("utf-8", errors="replace")


# Words

# In a tree, brackets of words are written as braces.
_BRACES = str.maketrans("([)]", "{{}}")
# What may follow a word: {!} or {?} after an unknown word, and a subscript: .n-u or, of a word taken for another, .#us.
_MARKS = re.compile(r"(\{[!?]\})?(\.\S*)?")
_TREE_TOKEN = re.compile(r"\([A-Z]*|\)|[^\s()]+")


def _stands_for(leaf: str, word: str) -> bool:
    # The first word of a sentence may come back in lower case.
    leaf, word = leaf.lower(), word.translate(_BRACES).lower()
    # A word that is not linked is in braces.
    return leaf == f"{{{word}}}" or (leaf.startswith(word) and _MARKS.fullmatch(leaf, len(word)) is not None)


def put_words(tree: str, plain: Sequence[str], words: Sequence[str]) -> str | Failure:
    """Replace the leaves of ``(S (NP many animals.n) (VP sleep.v) .)``, as link-parser prints it, by ``words``.

    ``plain`` are the words as link-parser got them.
    """
    pieces = []
    position = 0
    for token in _TREE_TOKEN.findall(tree):
        if token == ")" and pieces:
            pieces[-1] += ")"
        elif token.startswith("("):
            pieces.append(token)
        elif position == len(words) or not _stands_for(token, plain[position]):
            return Failure.OTHER_WORDS
        else:
            word = words[position].replace("(", "-LRB-").replace(")", "-RRB-")
            pieces.append(f"(X {word})")
            position += 1
    return " ".join(pieces) if position == len(words) else Failure.OTHER_WORDS


# Files


def check_installed() -> None:
    """Raise an InputError if link-parser, or the program that starts it, is not on the PATH."""
    for program, package in ((PROGRAM, "link-grammar"), ("stdbuf", "coreutils")):
        if shutil.which(program) is None:
            raise InputError(f"{program} is not on the PATH; install it (Debian: apt-get install {package})")


def main() -> None:
    """The command line of this module."""
    parser = make_parser(__doc__)
    parser.add_argument("source", type=Path, help="tokenised English, one sentence a line")
    parser.add_argument("--output", type=Path, metavar="FILE", required=True, help="file of trees to write")
    parser.add_argument("--seconds", type=float, default=30, help="longest time for a sentence (default: 30)")
    args = parser.parse_args()
    if not 0 < args.seconds <= MAX_SECONDS:
        raise InputError(f"--seconds is {args.seconds}; give more than 0 and at most {MAX_SECONDS:,}")
    check_not_input(args.output, [args.source])
    sentences = check_text_files(args.source)
    check_installed()
    failures: Counter[Failure] = Counter()
    with open_output(args.output) as out, contextlib.closing(LinkParser(args.seconds)) as link_parser:
        for line in read_lines(args.source):
            tree = link_parser.parse(line.split())
            if isinstance(tree, Failure):
                failures[tree] += 1
                tree = NO_TREE
            out.write(f"{tree}\n".encode())
        if failures[Failure.ENDED] == sentences:
            raise InputError(f"{PROGRAM} ended at every sentence of {args.source}; run it by hand to see why")
    without = failures.total()
    print(f"{sentences:,} sentences, {sentences - without:,} parsed; {without:,} without a tree", file=sys.stderr)
    for failure, count in failures.items():
        print(f"  {count:,} {failure.value}", file=sys.stderr)
    print(f"-> {args.output}", file=sys.stderr)
