"""How monotonic alignments are: how the source words of neighbouring target words follow one another.

``python -m recipes.reproduce.monotony NAME=FILE... [--output FILE]``

Each FILE is an output of ``rnnsearch score`` or ``rnnsearch translate --alignments``, or has gold alignments
(recipes.reproduce.alignment_error). Pieces are joined to words; a target word belongs to the source word of its highest
weight, or to its first link. Of each two target words, one behind the other, with source words i and k:

ahead    k > i;  same: k = i;  back: k < i, an inversion
swap     k = i - 1, a part of back: two neighbours change places, as adjective and noun do between English and French
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path

from recipes.reproduce.alignment_error import Links, links_of, read_gold
from recipes.reproduce.command import NamedFiles, command_line
from recipes.reproduce.document import Section, Table, markdown_block, write_text
from recipes.reproduce.runs import GOLD, SCORES, BahdanauRuns
from rnnsearch_fairseq.errors import print_without_traceback
from rnnsearch_fairseq.plots.words import word_alignment
from rnnsearch_fairseq.text.scores import read_scores

MOST_FREQUENT = 10  # pairs of words


def steps(sentences: Iterable[tuple[list[str], Links]]) -> tuple[Counter[str], Counter[str]]:
    """How often each kind of step occurs, and which source words change places; words may be missing."""
    kinds, swapped = Counter(), Counter()
    for source, links in sentences:
        first = dict(sorted(((target, word) for word, target in links), reverse=True))
        for target, following in pairwise(sorted(first)):
            i, k = first[target], first[following]
            kinds["ahead" if k > i else "same" if k == i else "back"] += 1
            if following == target + 1 and k == i - 1:
                kinds["swap"] += 1
                swapped[" ".join(source[k : i + 1])] += bool(source)
    return kinds, swapped


def read_links(path: Path) -> list[tuple[list[str], Links]]:
    """The source words, which gold alignments do not tell, and the links of each sentence.

    Raises:
        InputError: the file is bad.
    """
    with path.open(encoding="utf-8") as file:
        scores = file.read(1) == "{"
    if not scores:
        return [([], gold.possible) for gold in read_gold(path)]
    words = (word_alignment(pair) for pair in read_scores(path))
    return [(source, links_of(weights)) for source, _, weights in words]


def table(files: Mapping[str, Path]) -> Table:
    """A row for each file, in percent of all steps."""
    rows = []
    for name, path in files.items():
        kinds, swapped = steps(read_links(path))
        total = max(1, kinds["ahead"] + kinds["same"] + kinds["back"])
        shares = [f"{100 * kinds[kind] / total:.1f}" for kind in ("ahead", "same", "back", "swap")]
        words = [f"{pair} ({count})" for pair, count in swapped.most_common(MOST_FREQUENT) if pair]
        rows.append([name, f"{total:,}", *shares, ", ".join(words) or "–"])
    return Table(["alignment", "steps", "ahead", "same", "back", "swap", "most frequent swaps"], rows)


def section(runs: BahdanauRuns) -> Section:
    """The alignments of the references by the models with scores, and the gold ones."""
    files = runs.with_file(SCORES) | ({"gold": runs.data / GOLD} if (runs.data / GOLD).exists() else {})
    how = "In percent of the steps from a target word of a reference to the next; back and swap are inversions."
    return Section("Monotony of alignments", [table(files), how] if files else ["No model has score.jsonl."])


def main() -> None:
    """The command line of this module."""
    parser = command_line(__doc__)
    parser.add_argument("systems", action=NamedFiles, nargs="+", metavar="NAME=FILE", help="alignments; see above")
    args = parser.parse_args()
    write_text(markdown_block(table(args.systems)) + "\n", args.output, args.systems.values())


if __name__ == "__main__":
    print_without_traceback()
    main()
