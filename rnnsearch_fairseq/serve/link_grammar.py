"""Parse English with Link Grammar (Sleator and Temperley 1991); Debian: apt-get install link-grammar."""

import contextlib
import os
import re
import subprocess
from collections.abc import Sequence

from rnnsearch_fairseq.text.trees import unescape

PROGRAM = "link-parser"
# Trees on one line; at most 50 linkages, drawn by chance from more; no spelling corrections of unknown words; no second
# try with other settings after the time limit.
_SETTINGS = ("-constituents=3", "-graphics=0", "-limit=50", "-spell=0", "-panic=0")
# A command that changes nothing; its answer shows that the sentence before it is done.
_MARK, _MARKED = b"!short=16\n", b"short set to 16\n"
_LABEL_OR_LEAF = re.compile(r"\([A-Z]*|[^\s()]+")


class LinkParser:
    """A running ``link-parser``, which gives up a sentence after ``seconds`` of computing.

    The program starts at the first sentence. Some sentences end it, such as one of 2,047 bytes; it then starts again.
    """

    def __init__(self, seconds: float) -> None:
        self._command = ["stdbuf", "-oL", PROGRAM, "en", *_SETTINGS, f"-timeout={seconds:.0f}"]
        self._process: subprocess.Popen[bytes] | None = None

    def parse(self, words: Sequence[str]) -> str | None:
        """The tree of a sentence in brackets, with its words as leaves; None if it has none."""
        if self._process is None:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            self._process = subprocess.Popen(self._command, 0, env={**os.environ, "LC_ALL": "C.UTF-8"}, **pipes)
        sentence = " ".join(map(unescape, words))
        with contextlib.suppress(BrokenPipeError):
            # A line's first character may make it a command or a comment; a blank does not.
            self._process.stdin.write(f" {sentence}\n".encode() + _MARK)
        tree = None
        for line in self._process.stdout:
            if line == _MARKED:
                return None if tree is None else put_words(tree, words)
            if tree is None and line.startswith(b"("):
                tree = line.decode(errors="replace").strip()
        self.close()
        return None

    def close(self) -> None:
        """End the program."""
        if self._process is not None:
            with self._process:  # at the end it closes the pipes, and waits
                self._process.kill()
            self._process = None


def put_words(tree: str, words: Sequence[str]) -> str | None:
    """Replace the leaves of ``(S (NP many animals.n) (VP sleep.v) .)``, as link-parser prints it, by ``words``.

    link-parser leaves no word out, but it splits some, such as ``can't``; None if there are more leaves than words.
    """
    leaves = (f"(X {word.replace('(', '-LRB-').replace(')', '-RRB-')})" for word in words)
    tokens = [token if token.startswith("(") else next(leaves, None) for token in _LABEL_OR_LEAF.findall(tree)]
    following = iter(tokens)
    fits = None not in tokens and next(leaves, None) is None
    return _LABEL_OR_LEAF.sub(lambda _: next(following), tree) if fits else None
