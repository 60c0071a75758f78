"""The paper's claims of the first paper, and verdicts."""

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


def noisy(lengths: Sequence[int], short: float, long: float, seed: int) -> list[str]:
    """The references with wrong words, of which each sentence has its own share, up to ``short`` or ``long``."""
    generator = random.Random(seed)
    lines = []
    for line in reference(lengths):
        words = line.split()
        share = generator.random() * (short if len(words) < 30 else long)
        lines.append(" ".join("wrong" if generator.random() < share else word for word in words))
    return lines


def said(lengths: Sequence[int], systems: dict[str, list[str]]) -> dict[str, str]:
    """What is said of each claim."""
    test = TestSet([" ".join(["s"] * length) for length in lengths], reference(lengths))
    known = range(len(lengths))
    section = claims(SimpleNamespace(test=test, systems=systems, banned=systems, known=known, least=30))
    places = [block for block in section.blocks[1:] if isinstance(block, str)]
    assert len(places) == 5 and all(re.search(r"Section \d\.\d", place) for place in places)
    items = [item for block in section.blocks if isinstance(block, Bullets) for item in block.items]
    return dict(item.split(": ", 1) for item in items)


def verdicts(said: dict[str, str]) -> dict[str, str]:
    return {claim: text.split(" (")[0] for claim, text in said.items()}


def test_claims_are_compared_with_the_numbers() -> None:
    lengths = [12] * 40 + [32] * 20 + [52] * 20
    found = said(
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
    assert verdicts(found) == {
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
    equal = found["RNNsearch-30 falls less with length than RNNencdec-50"]
    assert equal.endswith(": +0.00, 95 % interval +0.00 to +0.00)")  # both models are resampled together
    for text in found.values():
        numbers = re.fullmatch(
            rf"[a-z ]+ \(({NUMBER}), ({NUMBER}): ({NUMBER}), 95 % interval ({NUMBER}) to ({NUMBER})\)", text
        )
        first, second, apart, low, high = map(float, numbers.groups())
        assert apart == pytest.approx(first - second, abs=0.011)
        assert low <= apart <= high


def test_few_noisy_sentences_show_the_absence_of_nothing() -> None:
    lengths = [15] * 30 + [55] * 30
    names = ["RNNsearch-50", "RNNsearch-50⋆", "Moses"]
    for seed in range(4):
        found = said(lengths, {name: noisy(lengths, 1, 1, 10 * seed + k) for k, name in enumerate(names)})
        assert {claim: verdicts(found)[claim] for claim in ABSENT} == dict.fromkeys(ABSENT, "undecided")


def test_a_fall_is_shown_by_an_interval_beyond_the_margin() -> None:
    lengths = [15] * 30 + [55] * 30
    assert verdicts(said(lengths, {"RNNsearch-50": noisy(lengths, 0.1, 0.9, 1)}))[NO_DETERIORATION] == "does not agree"


def test_a_smaller_fall_may_be_chance() -> None:
    lengths = [15] * 100 + [40] * 30
    less, more = noisy(lengths, 0.3, 0.5, 3), noisy(lengths, 0.3, 0.5, 4)
    claim = "RNNsearch-50 falls less with length than RNNencdec-50"
    for systems in ((less, more), (more, less)):
        found = said(lengths, dict(zip(("RNNsearch-50", "RNNencdec-50"), systems)))
        assert verdicts(found)[claim] == "undecided", found[claim]


def test_few_sentences_are_not_tested() -> None:
    lengths = [15] * 30 + [55] * 19
    found = said(lengths, {"RNNsearch-50": reference(lengths)})
    assert found[NO_DETERIORATION] == "not tested (sentences of 50 words or more: 19)"
    assert found[ABSENT[0]] == "not tested (no others/Moses)"


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
    found = Difference(score, score, low, high)
    claims = [Claim("", (), (), claimed) for claimed in (PRESENT, NO_FALL, AS_GOOD)]
    assert [claim.verdict(found) for claim in claims] == [present, no_fall, as_good]


def test_resamples_are_independent_of_one_another_and_the_first_row_is_the_sample() -> None:
    first, second = draw(50, 50)
    for drawn in (first, second):
        assert drawn.shape == (1 + RESAMPLES, 50)
        assert (drawn[0] == 1).all() and (drawn.sum(axis=1) == 50).all()
    assert (first[1:] != second[1:]).any(axis=1).all()
    assert (draw(50, 9)[0] == first).all()


def test_intervals_are_those_of_sacrebleu() -> None:
    lengths = [12] * 100
    hypotheses, references = noisy(lengths, 0.4, 0, 1), reference(lengths)
    scores = scored_by_bleu(hypotheses, references).scores(draw(100)[0])
    assert scores[0] == pytest.approx(metric().corpus_score(hypotheses, [references]).score, abs=1e-12)
    expected = metric().corpus_score(hypotheses, [references], n_bootstrap=RESAMPLES)
    half = np.diff(np.quantile(scores[1:], [0.025, 0.975])) / 2
    assert half == pytest.approx(expected._ci, rel=0.1)
    found = Difference.between(scores, scores)
    assert (found.low, found.high) == (0, 0)  # paired


def test_an_interval_of_falls_adds_the_variances_of_short_and_long_sentences() -> None:
    values = np.random.default_rng(1).normal(size=(2, 400))
    short, long = (drawn @ row / 400 for drawn, row in zip(draw(400, 400), values))
    found = Difference.between(short, long)
    assert (found.high - found.low) / 2 == pytest.approx(1.96 * np.sqrt(values.var(axis=1).sum() / 400), rel=0.1)
