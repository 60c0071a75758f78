"""BLEU of several systems, and the difference of every two, over all seeds of each.

``python -m recipes.reproduce.compare REFERENCE NAME=FILE[,FILE]... [--output FILE]``

The FILEs of a name are translations by the same system trained with different seeds, one sentence a line, tokenised as
REFERENCE is; line N of each is the same sentence.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from recipes.reproduce.bleu import scored_by_bleu
from recipes.reproduce.bootstrap import INTERVAL, Difference, in_words
from recipes.reproduce.command import NamedFiles, command_line, provenance
from recipes.reproduce.document import Section, Table, to_markdown, write_text
from rnnsearch_fairseq.errors import print_without_traceback
from rnnsearch_fairseq.text.lines import read_parallel


def comparison(seeds: Mapping[str, Sequence[Sequence[str]]], references: Sequence[str]) -> list[Table]:
    """BLEU of each system, by its name the translations by each seed; and the difference of every two systems."""
    scores = {name: [scored_by_bleu(lines, references).resampled for lines in of] for name, of in seeds.items()}
    each = [[name, ", ".join(f"{score[0]:.2f}" for score in of)] for name, of in scores.items()]
    rows, names = [], list(scores)
    for place, first in enumerate(names):
        for second in names[place + 1 :]:
            apart = Difference.between(scores[first], scores[second])
            means = [f"{apart.first:.2f}", f"{apart.second:.2f}", f"{apart.first - apart.second:+.2f}"]
            rows.append([first, second, *means, f"{apart.low:+.2f} to {apart.high:+.2f}", in_words(apart.seeds)])
    header = ["A", "B", "BLEU of A", "BLEU of B", "A − B", "95 % interval", "seeds"]
    return [Table(["system", "BLEU of each seed"], each), Table(header, rows)]


HOW = f"BLEU of A minus BLEU of B, and {INTERVAL}."


def main() -> None:
    """The command line of this module."""
    parser = command_line(__doc__)
    parser.add_argument("reference", type=Path, help="the translations to compare with")
    parser.add_argument("systems", action=NamedFiles, nargs="+", metavar="NAME=FILE", help="translations; see above")
    args = parser.parse_args()
    files = {name: [Path(part) for part in str(paths).split(",")] for name, paths in args.systems.items()}
    seeds = {name: [read_parallel(args.reference, path)[1] for path in paths] for name, paths in files.items()}
    tables = comparison(seeds, read_parallel(args.reference)[0])
    inputs = (args.reference, *(path for paths in files.values() for path in paths))
    write_text(to_markdown([Section("BLEU", [provenance(), *tables, HOW])]), args.output, inputs)


if __name__ == "__main__":
    print_without_traceback()
    main()
