"""How monotonic alignments are: how the source words of neighbouring target words follow one another.

A target word belongs to the source word of its highest weight, or to its first gold link. Of each two target words, one
behind the other, with source words i and k:

ahead    k > i;  same: k = i;  back: k < i, an inversion
swap     k = i - 1, a part of back: two neighbours change places, as adjective and noun do between English and French

An alignment is called mostly monotonic if at least half of its steps go ahead and no more than a quarter go back. The
paper has no number; this criterion is ours.
"""

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

from recipes.grammar.lexicon import ADJECTIVES, NOUNS
from recipes.reproduce.alignment_error import Links, read_gold
from recipes.reproduce.document import Section, table
from recipes.reproduce.runs import GOLD, LINKS, SCORES, BahdanauRuns
from rnnsearch_fairseq.text.words import merge_pieces

MOST_FREQUENT = 10  # pairs of words
MIN_AHEAD, MAX_BACK = 0.5, 0.25  # of the steps of an alignment that is mostly monotonic
ADJECTIVE = {adjective.english for adjective in ADJECTIVES}
NOUN = {form for noun in NOUNS for form in noun.english}
HEADER = ("alignment", "steps", "ahead", "same", "back", "swap", "adjective and noun", "monotonic", "frequent swaps")


def steps(sentences: Iterable[tuple[list[str], Links]]) -> tuple[Counter[str], Counter[str]]:
    """How often each kind of step occurs, and which source words change places."""
    kinds, swapped = Counter(), Counter()
    for source, links in sentences:
        first = dict(sorted(((target, word) for word, target in links), reverse=True))
        for target, following in pairwise(sorted(first)):
            i, k = first[target], first[following]
            kinds["ahead" if k > i else "same" if k == i else "back"] += 1
            if following == target + 1 and k == i - 1:
                kinds["swap"] += 1
                kinds["adjective and noun"] += source[k] in ADJECTIVE and source[i] in NOUN
                swapped[" ".join(source[k : i + 1])] += 1
    return kinds, swapped


def row(name: str, sentences: Iterable[tuple[list[str], Links]]) -> list[str]:
    """The row of a system, in percent of all steps."""
    kinds, swapped = steps(sentences)
    total = max(1, kinds["ahead"] + kinds["same"] + kinds["back"])
    shares = [f"{100 * kinds[kind] / total:.1f}" for kind in HEADER[2:7]]
    monotonic = kinds["ahead"] >= MIN_AHEAD * total and kinds["back"] <= MAX_BACK * total
    words = [f"{pair} ({count})" for pair, count in swapped.most_common(MOST_FREQUENT)]
    return [name, f"{total:,}", *shares, "mostly" if monotonic else "no", ", ".join(words) or "–"]


def monotony(runs: BahdanauRuns) -> Section:
    """The alignments of the references by the models, and the gold ones."""
    words = [merge_pieces(line.split())[0] for line in runs.test.source]
    rows = [row(name, zip(words, links)) for name, links in runs.links.items()]
    if (runs.data / GOLD).exists():
        rows.append(row("gold", zip(words, (gold.possible for gold in read_gold(runs.data / GOLD)))))
    how = (
        "In percent of the steps from a target word of a reference to the next; back and swap are inversions. "
        "Adjective and noun: swaps of two such words, as far as the built-in grammar has them. Mostly monotonic: at "
        f"least {MIN_AHEAD:.0%} go ahead and at most {MAX_BACK:.0%} back."
    )
    return "Monotony of alignments", [table(HEADER, rows), how] if rows else [f"No model has {SCORES} or {LINKS}."]
