"""Leave out training pairs that are too long or have no parse, and shuffle, before anything is counted in the text.

TEXT and OUT are names without language: all stands for all.en and all.ja, both tokenised. A pair stays if each side has
1 to --max-words words. With --trees, the parses in TEXT.tree (see ``rnnsearch trees``) are written too, and a pair
without a parse is left out.

fairseq-train can do so, too (--max-words, --require-parse), but its dictionaries have then counted what is left out.

  rnnsearch limit text/train text/kept -s en -t fr --max-words 50
"""

import random
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

from rnnsearch_fairseq.corpus.texts import add_languages, texts_of
from rnnsearch_fairseq.errors import Count, InputError, make_parser
from rnnsearch_fairseq.output import check_not_input, open_output
from rnnsearch_fairseq.text.lines import check_parallel, read_lines
from rnnsearch_fairseq.text.trees import NO_PARSE

BUCKET = 64 << 20  # bytes of text to shuffle in memory
MOST_BUCKETS = 500  # the most open files


def limit(text: Sequence[Path], out: Sequence[Path], most_words: int, most_pairs: int | None = None) -> int:
    """Write the pairs of 1 to ``most_words`` words on each side, in order, and return their number.

    Args:
        text: the files of source, target and, if pairs without a parse are to be left out, transitions.
        out: a file for each of them; may be the same files.

    Raises:
        InputError: a file is bad, the files differ in their numbers of lines, or no pair is left.
    """
    check_parallel(text)
    kept = (
        lines
        for lines in zip(*map(read_lines, text))
        if all(1 <= len(side.split()) <= most_words for side in lines[:2])
        and all(transitions.strip() != NO_PARSE for transitions in lines[2:])
    )
    number = 0
    with ExitStack() as stack:
        outs = [stack.enter_context(open_output(path)) for path in out]
        for lines in islice(kept, most_pairs):
            number += 1
            for file, line in zip(outs, lines):
                file.write(f"{line.rstrip()}\n".encode())
        if not number:
            parse = " or has no parse" if len(text) > 2 else ""
            raise InputError(f"--max-words {most_words}: every training pair is longer{parse}; give a greater number")
    return number


def shuffle(texts: Sequence[Path], seed: int) -> None:
    """Shuffle the lines of parallel texts in place, all in the same order; each line must end in a newline.

    Lines go to random buckets on disk, and each bucket is shuffled in memory: every order is equally likely
    (Sandelius, 1962). The order follows from ``seed`` and the text.
    """
    generator = random.Random(seed)
    with ExitStack() as stack:
        number = min(sum(text.stat().st_size for text in texts) // BUCKET + 1, MOST_BUCKETS)
        files = (tempfile.TemporaryFile(dir=texts[0].parent) for _ in range(number))
        buckets = [stack.enter_context(file) for file in files]
        for lines in zip(*(stack.enter_context(text.open("rb")) for text in texts)):
            generator.choice(buckets).writelines(lines)
        outs = [stack.enter_context(open_output(text)) for text in texts]
        for bucket in buckets:
            bucket.seek(0)
            lines = bucket.readlines()
            order = list(range(0, len(lines), len(texts)))
            generator.shuffle(order)
            for side, out in enumerate(outs):
                out.writelines(lines[first + side] for first in order)


def main() -> None:
    """The command line of this module."""
    parser = make_parser(__doc__)
    parser.add_argument("text", help="tokenised training text to read, without the language")
    parser.add_argument("out", help="text to write")
    add_languages(parser)
    parser.add_argument("--max-words", action=Count, required=True, help="most words of a side (papers: 50)")
    parser.add_argument("--trees", metavar="ENDING", help="ending of the transitions; leave out pairs without a parse")
    parser.add_argument("--pairs", action=Count, help="write the first N pairs that are left (default: all)")
    parser.add_argument("--shuffle", type=int, metavar="SEED", help="shuffle the pairs (default: keep their order)")
    args = parser.parse_args()
    endings = [ending for ending in (args.source_lang, args.target_lang, args.trees) if ending]
    text, out = (texts_of(name, *endings) for name in (args.text, args.out))
    for path in out:
        check_not_input(path, text)
    kept = limit(text, out, args.max_words, args.pairs)
    if args.shuffle is not None:
        shuffle(out, args.shuffle)
    print(f"{kept:,} pairs of at most {args.max_words} words a side{' with a parse' * bool(args.trees)} -> {args.out}")
