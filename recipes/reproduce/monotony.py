"""How monotonic alignments are: how the source words of neighbouring target words follow one another.

Pieces are joined to words; a target word belongs to the source word of its highest weight, or to its first gold link.
Of each two target words, one behind the other, with source words i and k:

ahead    k > i;  same: k = i;  back: k < i, an inversion
swap     k = i - 1, a part of back: two neighbours change places, as adjective and noun do between English and French
"""

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

from recipes.reproduce.alignment_error import Links, read_gold, strongest_links
from recipes.reproduce.document import Section, table
from recipes.reproduce.runs import GOLD, SCORES, BahdanauRuns
from rnnsearch_fairseq.plots.words import word_alignment
from rnnsearch_fairseq.text.scores import read_scores

MOST_FREQUENT = 10  # pairs of words
HEADER = ("alignment", "steps", "ahead", "same", "back", "swap", "most frequent swaps")


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


def row(name: str, sentences: Iterable[tuple[list[str], Links]]) -> list[str]:
    """The row of a system, in percent of all steps."""
    kinds, swapped = steps(sentences)
    total = max(1, kinds["ahead"] + kinds["same"] + kinds["back"])
    shares = [f"{100 * kinds[kind] / total:.1f}" for kind in ("ahead", "same", "back", "swap")]
    words = [f"{pair} ({count})" for pair, count in swapped.most_common(MOST_FREQUENT) if pair]
    return [name, f"{total:,}", *shares, ", ".join(words) or "–"]


def monotony(runs: BahdanauRuns) -> Section:
    """The alignments of the references by the models with scores, and the gold ones."""
    rows = []
    for name, path in runs.with_file(SCORES).items():
        alignments = (word_alignment(pair) for pair in read_scores(path))
        rows.append(row(name, [(source, strongest_links(weights)) for source, _, weights in alignments]))
    if (runs.data / GOLD).exists():
        rows.append(row("gold", [([], gold.possible) for gold in read_gold(runs.data / GOLD)]))
    how = "In percent of the steps from a target word of a reference to the next; back and swap are inversions."
    return "Monotony of alignments", [table(HEADER, rows), how] if rows else ["No model has score.jsonl."]
