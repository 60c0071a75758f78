"""Alignment error rate against gold alignments (Och and Ney, 2003), and how monotonic alignments are.

Gold alignments belong to reference translations, so they are compared with a model's alignments of these, the output of
``rnnsearch score``. Pieces are joined to words before; gold alignments do not count end-of-sentence.

With A the model's links and S the gold ones, which are all sure, of all sentences together: precision is |A∩S| / |A|,
recall |A∩S| / |S|, and the error rate 1 - 2 |A∩S| / (|A| + |S|). A target word is linked to the source word of highest
weight, the first of equals, and to none if end-of-sentence has the highest weight.

A step goes from a target word that is linked, to a source word i, to the next one, whose source word is k; of several
links, the first counts.

ahead    k > i;  same: k = i;  back: k < i, an inversion
swap     k = i - 1, a part of back: two neighbours change places, as adjective and noun do between English and French
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from recipes.grammar.lexicon import ADJECTIVES, NOUNS
from recipes.reproduce.document import Section, missing, table
from recipes.reproduce.runs import DATA, GOLD, LINKS, SCORES, BahdanauRuns
from recipes.reproduce.systems import Links
from rnnsearch_fairseq.text.codec import merge_pieces

WITHOUT_ALIGNMENT = "RNNencdec"
MOST_FREQUENT = 10  # pairs of words
MIN_AHEAD, MAX_BACK = 0.5, 0.25  # of the steps of a mostly monotonic alignment; the paper has no number
ADJECTIVE = {adjective.english for adjective in ADJECTIVES}
NOUN = {form for noun in NOUNS for form in noun.english}
HEADER = ("alignment", "steps", "ahead", "same", "back", "swap", "adjective and noun", "monotonic", "frequent swaps")


def alignment_error(links: Sequence[Links], gold: Sequence[Links]) -> tuple[float, float, float]:
    """Error rate, precision and recall, from 0 to 1, of a model's links of each sentence."""
    found, sure = (sum(map(len, side)) for side in (links, gold))
    hits = sum(len(aligned & true) for aligned, true in zip(links, gold))
    return 1 - 2 * hits / max(1, found + sure), hits / max(1, found), hits / max(1, sure)


def step_row(name: str, sentences: Iterable[tuple[list[str], Links]]) -> list[str]:
    """The row of a system: how often each kind of step occurs, in percent of all, and which words change places."""
    kinds, swapped = Counter[str](), Counter[str]()
    for source, links in sentences:
        first = dict(sorted(((target, word) for word, target in links), reverse=True))
        for target, following in pairwise(sorted(first)):
            i, k = first[target], first[following]
            kinds["ahead" if k > i else "same" if k == i else "back"] += 1
            if following == target + 1 and k == i - 1:
                kinds["swap"] += 1
                kinds["adjective and noun"] += source[k] in ADJECTIVE and source[i] in NOUN
                swapped[" ".join(source[k : i + 1])] += 1
    total = max(1, kinds["ahead"] + kinds["same"] + kinds["back"])
    shares = [f"{100 * kinds[kind] / total:.1f}" for kind in HEADER[2:7]]
    monotonic = kinds["ahead"] >= MIN_AHEAD * total and kinds["back"] <= MAX_BACK * total
    words = [f"{pair} ({count})" for pair, count in swapped.most_common(MOST_FREQUENT)]
    return [name, f"{total:,}", *shares, "mostly" if monotonic else "no", ", ".join(words) or "–"]


def alignment_errors(runs: BahdanauRuns) -> Section:
    """Alignment error rates of the models with scores, if there are gold alignments."""
    title = "Alignment error rate"
    if runs.gold is None:
        return title, missing([f"gold alignments ({DATA}/{GOLD})"])
    rows = []
    for name, links in runs.links.items():
        shares = [f"{100 * share:.2f}" for share in alignment_error(links, runs.gold)]
        rows.append([name, *shares, f"{sum(map(len, links)):,}"])
    how = "In percent, of the references' alignments: each target word is linked to the source word of highest weight."
    blocks = [table(["model", "alignment error rate", "precision", "recall", "links"], rows), how] if rows else []
    models = [name for name in runs.folders if name not in runs.links and not name.startswith(WITHOUT_ALIGNMENT)]
    return title, [*blocks, *missing([f"{name} (no {SCORES})" for name in models])]


def monotony(runs: BahdanauRuns) -> Section:
    """The alignments of the references by the models, and the gold ones."""
    words = [merge_pieces(line.split())[0] for line in runs.test.source]
    rows = [step_row(name, zip(words, links)) for name, links in runs.links.items()]
    if runs.gold is not None:
        rows.append(step_row("gold", zip(words, runs.gold)))
    how = (
        "In percent of the steps from a target word of a reference to the next; back and swap are inversions. "
        "Adjective and noun: swaps of two such words, as far as the built-in grammar has them. Mostly monotonic: at "
        f"least {MIN_AHEAD:.0%} go ahead and at most {MAX_BACK:.0%} back."
    )
    return "Monotony of alignments", [table(HEADER, rows), how] if rows else [f"No model has {SCORES} or {LINKS}."]
