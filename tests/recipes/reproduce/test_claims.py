"""Verdicts on the first paper's claims."""

import random
import re
from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np
import pytest

from recipes.reproduce.bleu import metric, scored_by_bleu
from recipes.reproduce.bootstrap import PRESENT, RESAMPLES, Difference, draw
from recipes.reproduce.claims import AS_GOOD, NO_FALL, Claim, claims
from recipes.reproduce.document import Bullets
from recipes.reproduce.systems import TestSet
from tests.recipes.reproduce.builders import broken, reference

NO_DETERIORATION = "RNNsearch-50 does not fall with length, sentences of 50 words or more"
FALLS_LESS = "RNNsearch-50 falls less with length than RNNencdec-50"
NUMBER = r"[+-]?\d+\.\d\d"


def noisy(lengths: Sequence[int], share: float, seed: int) -> list[str]:
    """The references with wrong words, of which each sentence has its own share, up to ``share``."""
    generator = random.Random(seed)
    lines = []
    for line in reference(lengths):
        wrong = generator.random() * share
        lines.append(" ".join("wrong" if generator.random() < wrong else word for word in line.split()))
    return lines


def answers(lengths: Sequence[int], *seeds: dict[str, list[str]]) -> dict[str, str]:
    """The text behind each claim, on the translations of each system, by seed."""
    test = TestSet([" ".join(["s"] * length) for length in lengths], reference(lengths))
    same = {"test": test, "known": range(len(lengths)), "least": 30}
    section = claims([SimpleNamespace(systems=of, banned=of, folders=of, **same) for of in seeds])
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
            "phrase-based": broken(lengths, 1, 2),
        },
    )
    assert verdicts(texts) == {
        "RNNsearch-30 is above RNNencdec-30, all sentences": "does not agree",
        "RNNsearch-30 is above RNNencdec-30, no unknown words": "does not agree",
        "RNNsearch-50 is above RNNencdec-50, all sentences": "agrees",
        "RNNsearch-50 is above RNNencdec-50, no unknown words": "agrees",
        "RNNsearch-30 is above RNNencdec-50, all sentences": "undecided",  # they are equal
        "RNNsearch-30 is above RNNencdec-50, no unknown words": "undecided",
        "RNNsearch-50⋆ is above RNNsearch-50, all sentences": "agrees",
        "RNNsearch-50⋆ is above RNNsearch-50, no unknown words": "agrees",
        "RNNsearch-50 is at least as good as phrase-based, no unknown words": "does not agree",
        "RNNsearch-50⋆ is at least as good as phrase-based, no unknown words": "agrees",
        "RNNsearch-30 is above RNNencdec-30 in every bin": "does not agree",
        "RNNsearch-50 is above RNNencdec-50 in every bin": "does not agree",  # 11–20 words: it has more wrong ones
        "RNNencdec-30 falls with length": "undecided",  # it is right everywhere
        "RNNencdec-50 falls with length": "agrees",
        "RNNsearch-30 falls less with length than RNNencdec-30": "does not agree",
        "RNNsearch-30 falls less with length than RNNencdec-50": "undecided",
        "RNNsearch-50 falls less with length than RNNencdec-30": "agrees",  # it rises
        FALLS_LESS: "agrees",
        NO_DETERIORATION: "agrees",
    }
    equal = texts["RNNsearch-30 falls less with length than RNNencdec-50"]
    assert equal.endswith(": +0.00, 95 % interval +0.00 to +0.00; one seed)")  # both models are resampled together
    bins = (
        texts.pop("RNNsearch-30 is above RNNencdec-30 in every bin"),
        texts.pop("RNNsearch-50 is above RNNencdec-50 in every bin"),
    )
    assert all(re.findall(r"(\d+–\d+) words: ", text) == ["11–20", "31–40", "51–60"] for text in bins)
    for text in texts.values():
        numbers = re.fullmatch(
            rf"[a-z ]+ \(({NUMBER}), ({NUMBER}): ({NUMBER}), 95 % interval ({NUMBER}) to ({NUMBER}); one seed\)", text
        )
        first, second, apart, low, high = map(float, numbers.groups())
        assert apart == pytest.approx(first - second, abs=0.011)
        assert low <= apart <= high


def test_few_sentences_are_not_tested_and_what_has_no_model_is_left_out() -> None:
    lengths = [15] * 30 + [55] * 19
    assert answers(lengths, {"RNNsearch-50": reference(lengths)}) == {
        "RNNsearch-50 is at least as good as phrase-based, no unknown words": "not tested (no others/phrase-based)",
        NO_DETERIORATION: "not tested (sentences of 50 words or more: 19)",
    }
    test = TestSet(reference(lengths), reference(lengths))
    mine = {"mine": reference(lengths)}
    runs = SimpleNamespace(test=test, systems=mine, banned=mine, folders=mine, known=None, least=30)
    assert claims([runs]) is None


def test_falls_are_relative_and_what_begins_below_the_floor_decides_nothing() -> None:
    lengths = [12] * 40 + [32] * 40
    # To lose 43 of 100 BLEU is less of a fall than 40 of 41.
    high, low = broken(lengths, 0, 6), broken(lengths, 3, 12)
    texts = answers(lengths, {"RNNsearch-50": high, "RNNencdec-50": low})
    falls = [float(number) for number in re.findall(NUMBER, texts[FALLS_LESS])[:2]]
    assert verdicts(texts)[FALLS_LESS] == "agrees"
    assert falls[0] > 90 > 50 > falls[1]  # percent
    nothing = ["wrong"] * len(lengths)
    texts = answers(lengths, {"RNNsearch-50": nothing, "RNNencdec-50": high})
    assert texts[FALLS_LESS].startswith("undecided (below 5 BLEU: ")
    assert verdicts(texts)["RNNsearch-50 is above RNNencdec-50, all sentences"] == "does not agree"
    texts = answers(lengths, {"RNNsearch-50": nothing, "RNNencdec-50": nothing})
    assert texts["RNNsearch-50 is above RNNencdec-50, all sentences"] == "undecided (below 5 BLEU: 0.00, 0.00)"


def test_seeds_are_pooled_and_three_of_them_give_their_variance() -> None:
    lengths = [12] * 60
    above = "RNNsearch-50 is above RNNencdec-50, all sentences"
    shares, other = (0.10, 0.30, 0.20), noisy(lengths, 0.2, 9)
    seeds = [
        {"RNNsearch-50": noisy(lengths, share, 1), "RNNencdec-50": noisy(lengths, 0.35, seed), "phrase-based": other}
        for seed, share in enumerate(shares, 2)
    ]
    texts = [answers(lengths, *seeds[:count])[above] for count in (1, 2, 3)]
    assert [re.search("; (.*)\\)", text)[1] for text in texts] == ["one seed", "two seeds", "3 seeds"]
    as_good = answers(lengths, *seeds)["RNNsearch-50 is at least as good as phrase-based, no unknown words"]
    assert as_good.endswith("; 3 seeds against one seed)")  # the same translations by another system are one seed
    widths = [float(high) - float(low) for low, high in (re.findall(NUMBER, text)[-2:] for text in texts)]
    assert texts[1].startswith("agrees")
    assert texts[2].startswith("undecided")  # three such seeds say little of a fourth one
    assert widths[2] > 2 * widths[1]
    # Student's t, 2 degrees of freedom, beside the sentences' interval.
    one = [np.array([score, score, score]) for score in (30.0, 31.0, 32.0)]
    apart = Difference.between(one, [np.array([20.0, 20, 20])] * 3)
    assert (apart.low, apart.high) == pytest.approx((11 - 4.30 / 3**0.5, 11 + 4.30 / 3**0.5))
    # The seeds of one system vary as much against two of another, or against one, and more freely beside an equal one.
    for seeds, spread in ((2, 4.30 / 3**0.5), (1, 4.30 / 3**0.5), (3, 2.78 * (2 / 3) ** 0.5)):
        apart = Difference.between(one, one[:seeds])
        assert apart.seeds == (3, seeds)
        assert apart.high - apart.low == pytest.approx(2 * spread)
    # Two searches by the same models: the seeds' differences are 10, 10 and 10.
    apart = Difference.between(one, [scores - 10 for scores in one], same_models=True)
    assert (apart.low, apart.high) == (10, 10)
    apart = Difference.between(one, [scores - gain for scores, gain in zip(one, (9, 10, 11))], same_models=True)
    assert (apart.low, apart.high) == pytest.approx((10 - 4.30 / 3**0.5, 10 + 4.30 / 3**0.5))


@pytest.mark.parametrize(
    ("score", "low", "high", "present", "no_fall", "as_good"),
    [
        (30, 0.1, 1.9, "agrees", "agrees", "agrees"),
        (30, -0.1, 2.1, "undecided", "undecided", "agrees"),
        (30, -3, -2.1, "does not agree", "agrees", "does not agree"),
        (30, 2.1, 3, "agrees", "does not agree", "agrees"),
        (30, -2.1, 1.9, "undecided", "agrees", "undecided"),
        (30, 0, 0, "undecided", "agrees", "agrees"),
        (2.3, 0.1, 0.2, "agrees", "agrees", "agrees"),
        (2.3, 0.1, 1.9, "agrees", "undecided", "agrees"),
        (2.3, 0.6, 1.8, "agrees", "does not agree", "agrees"),
        (0, 0, 0, "undecided", "undecided", "undecided"),
    ],
)
def test_verdicts(score: float, low: float, high: float, present: str, no_fall: str, as_good: str) -> None:
    difference = Difference(score, score, low, high)
    assert [Claim("", [], claimed).verdict(difference) for claimed in (PRESENT, NO_FALL, AS_GOOD)] == [
        *(present, no_fall, as_good)
    ]


def test_intervals_are_those_of_sacrebleu() -> None:
    lengths = [12] * 100
    hypotheses, references = noisy(lengths, 0.4, 1), reference(lengths)
    scores = scored_by_bleu(hypotheses, references).scores(draw(100)[0])
    assert scores[0] == pytest.approx(metric().corpus_score(hypotheses, [references]).score, abs=1e-12)
    expected = metric().corpus_score(hypotheses, [references], n_bootstrap=RESAMPLES)
    half = np.diff(np.quantile(scores[1:], [0.025, 0.975])) / 2
    assert half == pytest.approx(expected._ci, rel=0.1)
    same = Difference.between([scores], [scores])
    assert (same.low, same.high) == (0, 0)  # paired
