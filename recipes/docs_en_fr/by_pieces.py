"""BLEU by the number of English BPE pieces, and two claims on the messages within the limit of the training.

Each folder is a seed, as the archives of the report contain it. RNNsearch-50 and RNNencdec-50 were trained on pairs of
at most 50 pieces on either side.

  python -m recipes.docs_en_fr.by_pieces runs/docs-1 runs/docs-2 runs/docs-3
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from recipes.reproduce.bleu import scored_by_bleu
from recipes.reproduce.bootstrap import Difference, draw
from recipes.reproduce.document import table
from recipes.reproduce.runs import PHRASE_BASED, BahdanauRuns, bleu_by_seed
from rnnsearch_fairseq.command_line import make_parser, program

LIMIT = 50  # pieces
WIDTH, LAST = 10, 91  # pieces of a bin, and the first of the last bin
SHORT = 20  # words, below which a message is short


def table_by_pieces(seeds: Sequence[BahdanauRuns]) -> str:
    """A table of the messages of each bin, and of each system's BLEU, the mean of the seeds."""
    test, bins = seeds[0].test, dict[int, list[int]]()
    for number, line in enumerate(test.source):
        first = min((len(line.split()) - 1) // WIDTH * WIDTH + 1, LAST)
        bins.setdefault(first, []).append(number)
    firsts = sorted(bins)
    rows = [["messages", *(str(len(bins[first])) for first in firsts)]]
    for name in seeds[0].systems:
        scored = [scored_by_bleu(seed.systems[name], test.reference_words) for seed in seeds]
        means = [np.mean([run.on(bins[first]).score for run in scored]) for first in firsts]
        rows.append([name, *(f"{mean:.2f}" for mean in means)])
    return table(["pieces from", *map(str, firsts)], rows)


def differences_within(seeds: Sequence[BahdanauRuns], penalised: bool = True) -> list[str]:
    """How RNNsearch-50's lead changes with length within the limit; and its distance to Moses within and beyond it."""
    test = seeds[0].test
    sides = zip(test.source, test.reference)
    within = {number for number, pair in enumerate(sides) if max(len(side.split()) for side in pair) <= LIMIT}
    known = set(seeds[0].known or ())
    short, long = (sorted(within.intersection(test.select_length(*span))) for span in ((0, SHORT - 1), (SHORT,)))
    score = partial(bleu_by_seed, seeds, penalised=penalised)
    drawn = draw(len(short), len(long))
    search, encdec = (
        score(name, long, drawn[1]) - score(name, short, drawn[0]) for name in ("RNNsearch-50", "RNNencdec-50")
    )
    what = f"BLEU on {len(long)} long messages minus BLEU on {len(short)} short ones"
    lines = [f"RNNsearch-50 and RNNencdec-50, {what}: {Difference.between(search, encdec)}"]
    for where, numbers in (("within", sorted(within & known)), ("beyond", sorted(known - within))):
        of_known = partial(score, sentences=numbers, drawn=draw(len(numbers))[0], banned=True)
        apart = Difference.between(of_known("RNNsearch-50"), of_known(PHRASE_BASED), is_fixed=True)
        lines.append(f"RNNsearch-50 and Moses, {len(numbers)} messages {where} the limit: {apart}")
    return lines


@program
def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER", help="the runs of one seed")
    seeds = [BahdanauRuns(folder, "en", "fr") for folder in parser.parse_args().folders]
    print(table_by_pieces(seeds), "", *differences_within(seeds), sep="\n")
    print("", "without the brevity penalty:", *differences_within(seeds, penalised=False), sep="\n")
