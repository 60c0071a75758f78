"""BLEU and RIBES of translations, on their tokens as they are, by line N of each file.

RIBES is the score of word order that translations into Japanese are compared by. Isozaki, Hirao, Duh, Sudoh and
Tsukada: Automatic Evaluation of Translation Quality for Distant Language Pairs (EMNLP 2010). Words that occur more than
once are aligned as in the authors' RIBES.py 1.03, which computed the published scores. nltk's score differs: version
3.9.1 counts only neighbouring words as ordered, and version 3.10.4 aligns some repeated words otherwise and drops
others.

  python -m recipes.reproduce.token_scores test.ja first.ja second.ja
"""

import math
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations, starmap
from operator import lt
from pathlib import Path

import numpy as np

from recipes.reproduce.bleu import scored_by_bleu
from recipes.reproduce.bootstrap import Scored
from recipes.reproduce.systems import read_parallel
from rnnsearch_fairseq.command_line import make_parser, program

ALPHA = 0.25
BETA = 0.10
MEASURES = RIBES, BLEU, UNPENALISED = "RIBES", "BLEU", "BLEU/BP"


def score_tokens(reference: Sequence[str], hypotheses: Sequence[str]) -> dict[str, Scored]:
    """Score sentences by each of :data:`MEASURES`, the last without BLEU's brevity penalty."""
    # RIBES in percent of a corpus is the mean of its sentences: the statistics are a sentence's score, and 1.
    ribes = np.array([[sentence_ribes(*pair), 1] for pair in zip(reference, hypotheses, strict=True)])
    by_ribes = Scored(ribes, lambda totals: 100 * totals[..., 0] / totals[..., 1])
    by_bleu = [scored_by_bleu(hypotheses, reference, penalised) for penalised in (True, False)]
    return dict(zip(MEASURES, (by_ribes, *by_bleu)))


@cache  # many translations of a test set are equal
def sentence_ribes(reference: str, hypothesis: str) -> float:
    """A score between 0 and 1: NKT · P^0.25 · BP^0.10.

    NKT, the normalised Kendall's tau (tau + 1) / 2, is the share of the pairs of aligned words that are in the
    reference's order; P is the share of the hypothesis's words that are aligned; BP is BLEU's brevity penalty for this
    sentence. With fewer than two aligned words there is no order, and the score is 0; only if the reference is a single
    word, and it is aligned, NKT is 1. An empty hypothesis scores 0.
    """
    words, translated = reference.split(), hypothesis.split()
    positions = align(words, translated)
    aligned = len(positions)
    if aligned == 0 or (aligned == 1 and len(words) > 1):
        return 0.0
    pairs = list(combinations(positions, 2))
    nkt = sum(starmap(lt, pairs)) / len(pairs) if pairs else 1.0
    penalty = min(1.0, math.exp(1 - len(words) / len(translated)))
    return nkt * (aligned / len(translated)) ** ALPHA * penalty**BETA


def align(reference: Sequence[str], hypothesis: Sequence[str]) -> list[int]:
    """The position in the reference of each aligned word of the hypothesis, in the hypothesis's order.

    A word is aligned by the first n-gram of :func:`contexts` that occurs exactly once in each sentence.
    """
    characters: dict[str, str] = {}
    # With one character for each word, str.find finds n-grams.
    expected, translated = (
        "".join(characters.setdefault(word, chr(len(characters))) for word in words)
        for words in (reference, hypothesis)
    )
    positions = []
    for position, word in enumerate(translated):
        for start, end in contexts(position, len(translated)) if word in expected else ():
            ngram = translated[start:end]
            if all(-1 < side.find(ngram) == side.rfind(ngram) for side in (translated, expected)):  # occurs once
                positions.append(expected.find(ngram) + position - start)
                break
    return positions


def contexts(position: int, length: int) -> Iterator[tuple[int, int]]:
    """Start and end of the n-grams that may align the word at ``position`` in a sentence of ``length`` words.

    They are the word; it with one word before it, or after it; with two words before it, or after it; and so on.
    """
    for size in range(length):  # words beside the word; for 0, both are the word alone
        for start in (position - size, position):
            if 0 <= start < length - size:
                yield start, start + size + 1


@program
def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("reference", type=Path, help="the translations to compare with, as tokens")
    parser.add_argument("translations", type=Path, nargs="+", help="translations, as tokens")
    args = parser.parse_args()
    reference, *translations = read_parallel(args.reference, *args.translations)
    for path, hypotheses in zip(args.translations, translations):
        scores = score_tokens(reference, hypotheses)
        print(f"{path}\tBLEU {scores[BLEU].score:.2f}\tRIBES {scores[RIBES].score:.2f}")
