"""Verdicts on the first paper's claims."""

import random
import re
from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np
import pytest

from recipes.reproduce.bleu import metric, scored_by_bleu
from recipes.reproduce.bootstrap import PRESENT, RESAMPLES, Difference, draw
from recipes.reproduce.claims import ALL, AS_GOOD, NO_FALL, Claim, Score, claims
from recipes.reproduce.document import Bullets
from recipes.reproduce.systems import TestSet

NO_DETERIORATION = "RNNsearch-50 does not fall with length, sentences of 50 words or more"
ABSENT = [f"RNNsearch-50{star} is as good as Moses, no unknown words" for star in ("", "⋆")] + [NO_DETERIORATION]
NUMBER = r"[+-]?\d+\.\d\d"


def reference(lengths: Sequence[int]) -> list[str]:
    return [" ".join(f"t{place % 7}" for place in range(length)) for length in lengths]


def broken(lengths: Sequence[int], short: int, long: int) -> list[str]:
    """The references with so many wrong words in each short and in each long sentence, spread out."""
    lines = []
    for line in reference(lengths):
        words = line.split()
        for place in range(short if len(words) < 30 else long):
            words[place * 3 % len(words)] = "wrong"
        lines.append(" ".join(words))
    return lines


def noisy(lengths: Sequence[int], share: float, seed: int) -> list[str]:
    """The references with wrong words, of which each sentence has its own share, up to ``share``."""
    generator = random.Random(seed)
    lines = []
    for line in reference(lengths):
        wrong = generator.random() * share
        lines.append(" ".join("wrong" if generator.random() < wrong else word for word in line.split()))
    return lines


def answers(lengths: Sequence[int], systems: dict[str, list[str]]) -> dict[str, str]:
    """The text behind each claim."""
    test = TestSet([" ".join(["s"] * length) for length in lengths], reference(lengths))
    known = range(len(lengths))
    section = claims(SimpleNamespace(test=test, systems=systems, banned=systems, known=known, least=30))
    items = [item for block in section.blocks if isinstance(block, Bullets) for item in block.items]
    return dict(item.split(": ", 1) for item in items)


def verdicts(answers: dict[str, str]) -> dict[str, str]:
    return {claim: text.split(" (")[0] for claim, text in answers.items()}


def test_claims_are_compared_with_the_numbers() -> None:
    lengths = [12] * 40 + [32] * 20 + [52] * 20
    texts = answers(
        lengths,
        {
            "RNNencdec-30": reference(lengths),
            "RNNsearch-30": broken(lengths, 1, 11),
            "RNNencdec-50": broken(lengths, 1, 11),
            "RNNsearch-50": broken(lengths, 3, 4),
            "RNNsearch-50⋆": broken(lengths, 1, 2),
            "Moses": broken(lengths, 1, 2),
        },
    )
    assert verdicts(texts) == {
        "RNNsearch-30 is above RNNencdec-30, all sentences": "does not agree",
        "RNNsearch-30 is above RNNencdec-30, no unknown words": "does not agree",
        "RNNsearch-50 is above RNNencdec-50, all sentences": "agrees",
        "RNNsearch-50 is above RNNencdec-50, no unknown words": "agrees",
        "RNNsearch-30 is above RNNencdec-50, all sentences": "undecided",  # they are equal
        "RNNsearch-30 is above RNNencdec-50, no unknown words": "undecided",
        "RNNsearch-50 is as good as Moses, no unknown words": "does not agree",
        "RNNsearch-50⋆ is as good as Moses, no unknown words": "agrees",
        "RNNencdec-30 falls with length": "undecided",  # it is right everywhere
        "RNNencdec-50 falls with length": "agrees",
        "RNNsearch-30 falls less with length than RNNencdec-30": "does not agree",
        "RNNsearch-30 falls less with length than RNNencdec-50": "undecided",
        "RNNsearch-50 falls less with length than RNNencdec-30": "agrees",  # it rises
        "RNNsearch-50 falls less with length than RNNencdec-50": "agrees",
        NO_DETERIORATION: "agrees",
    }
    equal = texts["RNNsearch-30 falls less with length than RNNencdec-50"]
    assert equal.endswith(": +0.00, 95 % interval +0.00 to +0.00)")  # both models are resampled together
    for text in texts.values():
        numbers = re.fullmatch(
            rf"[a-z ]+ \(({NUMBER}), ({NUMBER}): ({NUMBER}), 95 % interval ({NUMBER}) to ({NUMBER})\)", text
        )
        first, second, apart, low, high = map(float, numbers.groups())
        assert apart == pytest.approx(first - second, abs=0.011)
        assert low <= apart <= high


def test_few_sentences_are_not_tested() -> None:
    lengths = [15] * 30 + [55] * 19
    texts = answers(lengths, {"RNNsearch-50": reference(lengths)})
    assert texts[NO_DETERIORATION] == "not tested (sentences of 50 words or more: 19)"
    assert texts[ABSENT[0]] == "not tested (no others/Moses)"


@pytest.mark.parametrize(
    ("score", "low", "high", "present", "no_fall", "as_good"),
    [
        (30, 0.1, 1.9, "agrees", "agrees", "agrees"),
        (30, -0.1, 2.1, "undecided", "undecided", "undecided"),
        (30, -3, -2.1, "does not agree", "agrees", "does not agree"),
        (30, 2.1, 3, "agrees", "does not agree", "does not agree"),
        (30, 0, 0, "undecided", "agrees", "agrees"),
        (2.3, 0.1, 0.2, "agrees", "agrees", "agrees"),
        (2.3, 0.1, 1.9, "agrees", "undecided", "undecided"),
        (2.3, 0.6, 1.8, "agrees", "does not agree", "does not agree"),
        (0, 0, 0, "undecided", "undecided", "undecided"),
    ],
)
def test_verdicts(score: float, low: float, high: float, present: str, no_fall: str, as_good: str) -> None:
    difference = Difference(score, score, low, high)
    all_claims = [Claim("", Score("A", ALL), Score("B", ALL), claimed) for claimed in (PRESENT, NO_FALL, AS_GOOD)]
    assert [claim.verdict(difference) for claim in all_claims] == [present, no_fall, as_good]


def test_intervals_are_those_of_sacrebleu() -> None:
    lengths = [12] * 100
    hypotheses, references = noisy(lengths, 0.4, 1), reference(lengths)
    scores = scored_by_bleu(hypotheses, references).scores(draw(100)[0])
    assert scores[0] == pytest.approx(metric().corpus_score(hypotheses, [references]).score, abs=1e-12)
    expected = metric().corpus_score(hypotheses, [references], n_bootstrap=RESAMPLES)
    half = np.diff(np.quantile(scores[1:], [0.025, 0.975])) / 2
    assert half == pytest.approx(expected._ci, rel=0.1)
    same = Difference.between(scores, scores)
    assert (same.low, same.high) == (0, 0)  # paired
