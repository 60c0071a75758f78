"""Whether the numbers of runs agree with the claims of Bahdanau et al. (2015)."""

from collections.abc import Mapping, Sequence
from functools import cache
from math import inf
from typing import NamedTuple

import numpy as np

from recipes.reproduce.bootstrap import ABOVE, HOLM, INTERVAL, PAIRED, SEEDS, Difference, decide, draw, in_words
from recipes.reproduce.by_length import WIDTH, span
from recipes.reproduce.document import Section, bullets, escape
from recipes.reproduce.runs import BANNED, OTHERS, PHRASE_BASED, TRANSLATIONS, BahdanauRuns, bleu_by_seed

MIN_SENTENCES = 20  # to test a claim on
MIN_BLEU = 5  # below it nothing is decided
VERY_LONG = 50  # words
MARGIN, MARGIN_SHARE = 2, 0.1  # the margin in BLEU, and its largest share of the higher score
AT_LEAST_AS_GOOD, NO_FALL = (1, -1.0), (-1, 1.0)  # the side of a difference, and its bound in margins
ALL, KNOWN, SHORT, LONG = "all sentences", "no unknown words", "short sentences", "long sentences"
FIFTY, UP_TO_50 = f"sentences of {VERY_LONG} words or more", f"sentences of up to {VERY_LONG} words"
EVERY_BIN = "every bin"
ENCDEC_30, ENCDEC_50, SEARCH_30, SEARCH_50 = "RNNencdec-30", "RNNencdec-50", "RNNsearch-30", "RNNsearch-50"
LONGER = f"{SEARCH_50}⋆"
VERDICTS = ("does not agree", "undecided", "agrees")
HOW = f"""In brackets stand two BLEU scores, their difference, and {INTERVAL}.

- {SEEDS} {PAIRED} {LONGER} is paired with the {SEARCH_50} that it continues. Runs with the same seed count as one, \
with their mean. A phrase-based system has no seeds, and counts as not varying.
- Short and long sentences are resampled separately.
- 'Above', 'falls' and 'falls less' agree if the whole interval is above zero, and do not agree if it is below. For \
'falls less, in percent' the two numbers are the losses from short to long sentences, in percent of the BLEU on short \
ones; for 'falls less, in BLEU' they are the losses in BLEU.
- The margin is {MARGIN} BLEU, or {MARGIN_SHARE:.0%} of the higher score if that is less. 'Does not fall' agrees if \
the whole interval is below the margin, and does not agree if it is above. 'At least as good' agrees if the whole \
interval is above minus the margin, and does not agree if it is below.
- {HOLM}
- '{EVERY_BIN.capitalize()}' makes a test of each bin; it agrees if every bin agrees, and does not agree if one bin \
does not.
- A difference of two scores that are both below {MIN_BLEU} BLEU is undecided. So is a loss that starts from a score \
below {MIN_BLEU} BLEU. Claims on fewer than {MIN_SENTENCES} sentences are not tested."""
WITHOUT_PENALTY = (
    "Translations that stop too early lose BLEU by its brevity penalty. Here the claims on length, and those on the "
    "phrase-based system, are tested again by BLEU without this penalty."
)


class Quantity(NamedTuple):
    """A system's BLEU on a part of the test set; with ``to``, its loss from that part to another one."""

    name: str
    part: str
    to: str = ""
    percent: bool = True  # a loss in percent of the BLEU on ``part``
    beside: str = ""  # only the runs that have this system, too, which continues them


class Test(NamedTuple):
    """The sentence that the first quantity minus the second lies on a side of a bound, which is in margins."""

    sentence: str
    first: Quantity
    second: Quantity
    claimed: tuple[int, float] = ABOVE


def _above(better: str, worse: str, part: str, beside: str = "") -> Test:
    return Test(f"{better} is above {worse}, {part}", Quantity(better, part), Quantity(worse, part, beside=beside))


def _as_good(name: str, part: str) -> Test:
    text = f"{name} is at least as good as {PHRASE_BASED}, {part}"
    return Test(text, Quantity(name, part), Quantity(PHRASE_BASED, part), AT_LEAST_AS_GOOD)


def _falls_less(robust: str, other: str, percent: bool = True) -> Test:
    text = f"{robust} falls less with length than {other}, in {'percent' if percent else 'BLEU'}"
    return Test(text, *(Quantity(name, SHORT, LONG, percent) for name in (other, robust)))


# The claims on BLEU that falls with length, and all claims, by their places in the paper. RNNsearch-50⋆ is not in
# Figure 2.
PAIRS = (SEARCH_30, ENCDEC_30), (SEARCH_50, ENCDEC_50)
FROM_SHORT_TO_FIFTY = Quantity(SEARCH_50, SHORT), Quantity(SEARCH_50, FIFTY)
ON_LENGTH = {
    "Section 1: RNNsearch's lead over RNNencdec is larger on longer sentences.": [
        _falls_less(*pair, percent=False) for pair in PAIRS
    ],
    "Section 5.1 and Figure 2: RNNencdec gets much worse as sentences get longer.": [
        Test(f"{name} falls with length", Quantity(name, SHORT), Quantity(name, LONG))
        for name in (ENCDEC_30, ENCDEC_50)
    ],
    "Section 5.1 and Figure 2: RNNsearch-30 and RNNsearch-50 are more robust to the length of sentences.": [
        _falls_less(robust, other) for robust in (SEARCH_30, SEARCH_50) for other in (ENCDEC_30, ENCDEC_50)
    ],
    f"Section 5.1 and Figure 2: RNNsearch-50 does not get worse, even on {FIFTY}.": [
        Test(f"{SEARCH_50} does not fall with length, {FIFTY}", *FROM_SHORT_TO_FIFTY, NO_FALL)
    ],
}
AS_GOOD = {
    "Section 5.1: on sentences of known words, RNNsearch is as good as the phrase-based system. (The paper "
    "says nothing of sentences of up to 50 words.)": [
        _as_good(name, part) for part in (KNOWN, UP_TO_50) for name in (SEARCH_50, LONGER)
    ],
}
CLAIMS = {
    "Section 5.1 and Table 1: RNNsearch is better than RNNencdec in all cases; even RNNsearch-30 is better "
    "than RNNencdec-50.": [_above(*pair, part) for pair in (*PAIRS, (SEARCH_30, ENCDEC_50)) for part in (ALL, KNOWN)],
    "Table 1: RNNsearch-50⋆, trained longer, is better than RNNsearch-50.": [
        _above(LONGER, SEARCH_50, part, beside=LONGER) for part in (ALL, KNOWN)
    ],
    **AS_GOOD,
    "Table 1: RNNsearch is below the phrase-based system on all sentences.": [
        _above(PHRASE_BASED, name, ALL) for name in (SEARCH_50, LONGER)
    ],
    "Figure 2: RNNsearch is better than RNNencdec at every length.": [_above(*pair, EVERY_BIN) for pair in PAIRS],
    **ON_LENGTH,
}


class Judge:
    """Tests claims on ``seeds``, runs of one test set, whose sentences of more than ``longest`` words are one bin."""

    def __init__(self, seeds: Sequence[BahdanauRuns], longest: float = inf, penalised: bool = True) -> None:
        self.seeds, self.test, self.penalised, least = seeds, seeds[0].test, penalised, seeds[0].least
        self.systems = {PHRASE_BASED}.union(*(runs.folders for runs in seeds))
        bins = {f"{span(*bin)} words": self.test.select_length(*bin) for bin in self.test.bins(WIDTH, longest)}
        self.bins = [name for name, sentences in bins.items() if len(sentences) >= MIN_SENTENCES]
        self.parts: dict[str, Sequence[int]] = {
            ALL: range(len(self.test)),
            KNOWN: seeds[0].known or [],
            SHORT: self.test.select_length(0, least - 1),
            LONG: self.test.select_length(least),
            FIFTY: self.test.select_length(VERY_LONG),
            UP_TO_50: self.test.select_length(0, VERY_LONG),
            **bins,
        }
        tested = [part for part, sentences in self.parts.items() if len(sentences) >= MIN_SENTENCES]
        self.drawn = dict(zip(tested, draw(*(len(self.parts[part]) for part in tested))))
        self._bleu = cache(self._score_part)

    def judge(self, tests: Sequence[Test]) -> list[str]:
        """The tests of one claim, each with its verdict and numbers, or why it is not tested.

        Tests of models that have no folder are left out.
        """
        pairs = {test: self._pairs(test) for test in tests if {test.first.name, test.second.name} <= self.systems}
        lacking = {test: dict.fromkeys(why for pair in of for why in self._lacking(pair)) for test, of in pairs.items()}
        measured = {test: [self._measure(*pair) for pair in of] for test, of in pairs.items() if not lacking[test]}
        high = [(apart, *test.claimed) for test, of in measured.items() for apart, too_low in of if not too_low]
        margins = [min(MARGIN, MARGIN_SHARE * max(apart.first, apart.second)) for apart, *_ in high]
        bounds = [(apart, (side, share * margin)) for (apart, side, share), margin in zip(high, margins)]
        decided = iter(decide(bounds))
        lines = [f"{test.sentence}: not tested ({', '.join(why)})" for test, why in lacking.items() if why]
        for test, differences in measured.items():
            results = [("undecided", too_low) if too_low else next(decided) for _, too_low in differences]
            if not results:
                continue
            labels = [f"{first.part}: " if len(results) > 1 else "" for first, _ in pairs[test]]
            numbers = "; ".join(label + text for label, (_, text) in zip(labels, results))
            verdict = min((verdict for verdict, _ in results), key=VERDICTS.index)
            lines.append(f"{test.sentence}: {verdict}, {in_words(differences[0][0].seeds)} ({numbers})")
        return lines

    def _pairs(self, test: Test) -> list[tuple[Quantity, Quantity]]:
        """The quantities that are compared, on each bin if the test is of all bins."""
        if test.first.part != EVERY_BIN:
            return [(test.first, test.second)]
        return [(test.first._replace(part=bin), test.second._replace(part=bin)) for bin in self.bins]

    def _lacking(self, pair: tuple[Quantity, Quantity]) -> list[str]:
        """What a test misses: files, or sentences."""
        used = [(of.name, part) for of in pair for part in (of.part, of.to) if part]
        absent = []
        for name, part in used:
            file = BANNED if part == KNOWN else TRANSLATIONS
            if not any(name in (runs.banned if part == KNOWN else runs.systems) for runs in self.seeds):
                absent.append(f"no {OTHERS}/{name}" if name == PHRASE_BASED else f"no {file} of {name}")
        return absent or [f"{part}: {len(self.parts[part])}" for _, part in used if part not in self.drawn]

    def _measure(self, first: Quantity, second: Quantity) -> tuple[Difference, str]:
        """The difference of two quantities, and in words the scores that are too low to decide anything."""
        begin = [self._bleu(of.name, of.part, of.beside)[:, 0].mean() for of in (first, second)]
        paired = first.name in (second.name, second.beside)
        # Two losses must both have a height. Of two scores, one may be low: that it is the lower one is decided.
        too_low = (min if first.to else max)(begin) < MIN_BLEU
        words = f"below {MIN_BLEU} BLEU: {begin[0]:.2f}, {begin[1]:.2f}" if too_low else ""
        is_fixed = PHRASE_BASED in (first.name, second.name)
        return Difference.between(self._value(first), self._value(second), paired, is_fixed), words

    def _value(self, quantity: Quantity) -> np.ndarray:
        """The quantity by each seed, in each row of a draw."""
        begin = self._bleu(quantity.name, quantity.part, quantity.beside)
        if not quantity.to:
            return begin
        loss = begin - self._bleu(quantity.name, quantity.to)
        return 100 * loss / begin if quantity.percent else loss

    def _score_part(self, name: str, part: str, beside: str = "") -> np.ndarray:
        """The BLEU on a part of the test set: a row for each seed, a column for each row of a draw."""
        seeds = [runs for runs in self.seeds if not beside or beside in runs.folders]
        return bleu_by_seed(seeds, name, self.parts[part], self.drawn[part], part == KNOWN, self.penalised)


def claims(seeds: Sequence[BahdanauRuns], longest: float = inf) -> list[Section]:
    """Whether the numbers agree with each of the paper's claims, or why a claim is not tested.

    Claims on models that have no folder are left out; no section if these are all.
    """
    judge = Judge(seeds, longest)
    numbers = {part: f"{len(sentences):,}" for part, sentences in judge.parts.items()}
    how = (
        f"Of the {numbers[ALL]} sentences, {numbers[LONG]} are long ({seeds[0].least} words or more) and "
        f"{numbers[SHORT]} short; {numbers[FIFTY]} have {VERY_LONG} words or more. {HOW}"
    )
    again = Judge(seeds, longest, penalised=False)
    sections = [
        _section("The paper's claims", how, judge, CLAIMS),
        _section("Claims without the brevity penalty", WITHOUT_PENALTY, again, {**ON_LENGTH, **AS_GOOD}),
    ]
    return [section for section in sections if len(section[1]) > 1]


def _section(title: str, how: str, judge: Judge, by_place: Mapping[str, Sequence[Test]]) -> Section:
    lines = {place: judge.judge(tests) for place, tests in by_place.items()}
    return title, [escape(how), *(block for place, of in lines.items() if of for block in (escape(place), bullets(of)))]
