"""Parse English text with Link Grammar (Sleator and Temperley 1991), for transitions.py --format penn.

SOURCE is tokenised English, one sentence a line. Line N of the output is its tree in Penn brackets, whose leaves are
the words of SOURCE, all labelled X: ``(S (NP (X many) (X animals)) (VP (X sleep)) (X .))``; or ``(())``, for a sentence
without a tree. Needs link-parser; Debian: apt-get install link-grammar.

  python -m recipes.trees.parse text/train.en --output text/train.penn
"""

import contextlib
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from tqdm import tqdm

from rnnsearch_fairseq.command_line import make_parser, program
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.output import check_not_input, open_output
from rnnsearch_fairseq.text.lines import read_lines
from rnnsearch_fairseq.text.trees import unescape

PROGRAM = "link-parser"
# Trees on one line; at most 50 linkages, drawn by chance from more; no spelling corrections of unknown words; no second
# try with other settings after the time limit.
_SETTINGS = ("-constituents=3", "-graphics=0", "-limit=50", "-spell=0", "-panic=0")
# A command that changes nothing; its answer shows that the sentence before it is done.
_MARK, _MARKED = b"!short=16\n", b"short set to 16\n"
_LABEL_OR_LEAF = re.compile(r"\([A-Z]*|[^\s()]+")
NO_TREE = "(())"
MAX_SECONDS = 30  # for a sentence


def parse_sentences(sentences: Iterable[Sequence[str]], seconds: int = MAX_SECONDS) -> Iterator[str | None]:
    """Yield the tree of each sentence in brackets, with its words as leaves; None if it has none.

    ``link-parser`` gives up a sentence after ``seconds`` of computing. Some sentences end it, such as one of 2,047
    bytes; it then starts again.
    """
    command = ["env", "LC_ALL=C.UTF-8", "stdbuf", "-oL", PROGRAM, "en", *_SETTINGS, f"-timeout={seconds}"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    waiting = iter(sentences)
    for first in waiting:
        with subprocess.Popen(command, 0, **pipes) as process, contextlib.ExitStack() as ending:
            ending.callback(process.kill)
            for words in chain([first], waiting):
                with contextlib.suppress(BrokenPipeError):
                    # A line's first character may make it a command or a comment; a blank does not.
                    process.stdin.write(f" {' '.join(map(unescape, words))}\n".encode() + _MARK)
                tree, line = "", b""
                for line in process.stdout:
                    if line == _MARKED:
                        break
                    if not tree and line.startswith(b"("):
                        tree = line.decode(errors="replace").strip()
                survived = line == _MARKED
                yield put_words(tree, words) if tree and survived else None
                if not survived:
                    break


def put_words(tree: str, words: Sequence[str]) -> str | None:
    """Replace the leaves of ``(S (NP many animals.n) (VP sleep.v) .)``, as link-parser prints it, by ``words``.

    link-parser leaves no word out, but it splits some, such as ``can't``; None if there are more leaves than words.
    """
    leaves = (f"(X {word.replace('(', '-LRB-').replace(')', '-RRB-')})" for word in words)
    tokens = [token if token.startswith("(") else next(leaves, None) for token in _LABEL_OR_LEAF.findall(tree)]
    following = iter(tokens)
    fits = None not in tokens and next(leaves, None) is None
    return _LABEL_OR_LEAF.sub(lambda _: next(following), tree) if fits else None


@program
def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("source", type=Path, help="tokenised English, one sentence a line")
    parser.add_argument("--output", type=Path, metavar="FILE", required=True, help="file of trees to write")
    args = parser.parse_args()
    check_not_input(args.output, [args.source])
    if shutil.which(PROGRAM) is None:
        raise InputError(f"{PROGRAM} is not on the PATH; install it (Debian: apt-get install link-grammar)")
    parsed: Counter[bool] = Counter()
    with open_output(args.output) as out:
        trees = parse_sentences(map(str.split, read_lines(args.source)))
        for tree in tqdm(trees, unit=" sentences", disable=None):
            parsed[tree is not None] += 1
            out.write(f"{tree or NO_TREE}\n".encode())
        if not parsed[True]:
            raise InputError(f"{args.source}: no sentence has a tree; give tokenised English, or run {PROGRAM} by hand")
    print(f"{parsed.total():,} sentences, {parsed[True]:,} parsed -> {args.output}")
