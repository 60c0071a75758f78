"""Whether the numbers of runs agree with the claims of Bahdanau et al. (2015)."""

from collections.abc import Sequence
from functools import cache
from math import inf
from typing import NamedTuple

import numpy as np

from recipes.reproduce.bleu import scored_by_bleu
from recipes.reproduce.bootstrap import (
    INTERVAL,
    PAIRED,
    PRESENT,
    Difference,
    Scored,
    count_intervals,
    draw,
    in_words,
)
from recipes.reproduce.by_length import WIDTH, span
from recipes.reproduce.document import Section, bullets, escape
from recipes.reproduce.runs import BANNED, OTHERS, TRANSLATIONS, BahdanauRuns, by_seed

MIN_SENTENCES = 20  # to test a claim on
MIN_BLEU = 5  # below it nothing is decided
VERY_LONG = 50  # words
MARGIN, MARGIN_SHARE = 2, 0.1  # the margin in BLEU, and its largest share of the higher score
AT_LEAST_AS_GOOD, NO_FALL = (-1, inf), (-inf, 1)  # bounds of a difference, in margins
ALL, KNOWN, SHORT, LONG = "all sentences", "no unknown words", "short sentences", "long sentences"
FIFTY, UP_TO_50 = f"sentences of {VERY_LONG} words or more", f"sentences of up to {VERY_LONG} words"
ENCDEC_30, ENCDEC_50, SEARCH_30, SEARCH_50 = "RNNencdec-30", "RNNencdec-50", "RNNsearch-30", "RNNsearch-50"
LONGER = f"{SEARCH_50}⋆"
PHRASE_BASED = "phrase-based"  # of recipes/reproduce/phrase_based.sh; the paper's is Moses
BEYOND_ZERO = "; beyond zero, but not clearly beyond the margin"
VERDICTS = ("does not agree", "undecided", "agrees")
HOW = (
    f"In brackets stand two BLEU scores, their difference, and {INTERVAL}. Short and long sentences are resampled "
    f"separately. {PAIRED} {LONGER} is paired with the {SEARCH_50} that it continues. "
    "'Above', 'falls' and 'falls less' agree if the whole interval is above zero, and do not "
    "agree if it is below. For 'falls less, in percent' the two numbers are the losses from short to long sentences, "
    "in percent of the BLEU on short ones; for 'falls less, in BLEU' they are the losses in BLEU. 'Does not fall' "
    f"agrees if the interval is below the margin of {MARGIN} BLEU, but at most {MARGIN_SHARE:.0%} of the higher score; "
    "'at least as good' if it is above minus the margin. They do not agree if it is wholly outside. 'In every bin' "
    "agrees if every bin agrees, and does not agree if one of them does not. Otherwise a claim is undecided, and so is "
    f"a difference of two scores that are both below {MIN_BLEU} BLEU, or a loss of a score that is. Claims on fewer "
    f"than {MIN_SENTENCES} sentences are not tested."
)
WITHOUT_PENALTY = (
    "Translations that stop too early lose BLEU by its brevity penalty. Here the claims on length are tested again by "
    "BLEU without this penalty."
)


class Quantity(NamedTuple):
    """A system's BLEU on a part of the test set; with ``to``, its loss from that part to another one."""

    name: str
    part: str
    to: str = ""
    percent: bool = True  # a loss in percent of the BLEU on ``part``
    beside: str = ""  # only the runs that have this system, too, which continues them


class Claims:
    """The claims on ``seeds``, runs of one test set, whose sentences of more than ``longest`` words are one bin.

    Not ``penalised``, BLEU has no brevity penalty.
    """

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
        self._scored = cache(self._score)
        self._bleu = cache(self._score_part)

    def by_place(self) -> dict[str, list[str]]:
        """The claim of each place in the paper, and its verdicts; RNNsearch-50⋆ is not in Figure 2."""
        pairs = (SEARCH_30, ENCDEC_30), (SEARCH_50, ENCDEC_50)
        return {
            "Section 5.1 and Table 1: RNNsearch is better than RNNencdec in all cases; even RNNsearch-30 is better "
            "than RNNencdec-50.": [
                self._above(*pair, part) for pair in (*pairs, (SEARCH_30, ENCDEC_50)) for part in (ALL, KNOWN)
            ],
            "Table 1: RNNsearch-50⋆, trained longer, is better than RNNsearch-50.": [
                self._test(
                    f"{LONGER} is above {SEARCH_50}, {part}",
                    [(Quantity(LONGER, part), Quantity(SEARCH_50, part, beside=LONGER))],
                )
                for part in (ALL, KNOWN)
            ],
            "Section 5.1: on sentences of known words, RNNsearch is as good as the phrase-based system. (The paper "
            "says nothing of sentences of up to 50 words.)": [
                self._as_good(name, part) for part in (KNOWN, UP_TO_50) for name in (SEARCH_50, LONGER)
            ],
            "Table 1: RNNsearch is below the phrase-based system on all sentences.": [
                self._above(PHRASE_BASED, name, ALL) for name in (SEARCH_50, LONGER)
            ],
            "Figure 2: RNNsearch is better than RNNencdec at every length.": [
                self._test(
                    f"{better} is above {worse} in every bin", [_both(better, worse, part) for part in self.bins]
                )
                for better, worse in pairs
            ],
            "Section 1: RNNsearch's lead over RNNencdec is larger on longer sentences.": [
                self._falls_less(*pair, percent=False) for pair in pairs
            ],
            **self.on_length(),
        }

    def on_length(self) -> dict[str, list[str]]:
        """Those of BLEU that falls with length."""
        fall = [(Quantity(SEARCH_50, SHORT), Quantity(SEARCH_50, FIFTY))]
        return {
            "Section 5.1 and Figure 2: RNNencdec gets much worse as sentences get longer.": [
                self._test(f"{name} falls with length", [(Quantity(name, SHORT), Quantity(name, LONG))])
                for name in (ENCDEC_30, ENCDEC_50)
            ],
            "Section 5.1 and Figure 2: RNNsearch-30 and RNNsearch-50 are more robust to the length of sentences.": [
                self._falls_less(robust, other) for robust in (SEARCH_30, SEARCH_50) for other in (ENCDEC_30, ENCDEC_50)
            ],
            f"Section 5.1 and Figure 2: RNNsearch-50 does not get worse, even on {FIFTY}.": [
                self._test(f"{SEARCH_50} does not fall with length, {FIFTY}", fall, NO_FALL)
            ],
        }

    def _above(self, better: str, worse: str, part: str) -> str:
        return self._test(f"{better} is above {worse}, {part}", [_both(better, worse, part)])

    def _as_good(self, name: str, part: str) -> str:
        text = f"{name} is at least as good as {PHRASE_BASED}, {part}"
        return self._test(text, [_both(name, PHRASE_BASED, part)], AT_LEAST_AS_GOOD)

    def _falls_less(self, robust: str, other: str, percent: bool = True) -> str:
        text = f"{robust} falls less with length than {other}, in {'percent' if percent else 'BLEU'}"
        return self._test(text, [tuple(Quantity(name, SHORT, LONG, percent) for name in (other, robust))])

    def _test(
        self, claim: str, pairs: Sequence[tuple[Quantity, Quantity]], claimed: tuple[float, float] = PRESENT
    ) -> str:
        """The claim that in each pair the first quantity minus the second lies between the bounds ``claimed``.

        With its verdict and the numbers behind it, or why it is not tested; empty if a model has no folder.
        """
        quantities = [quantity for pair in pairs for quantity in pair]
        used = [(of.name, part) for of in quantities for part in (of.part, of.to) if part]
        if not used or not {name for name, _ in used} <= self.systems:
            return ""
        absent = [_missing_file(name, part) for name, part in used if not self._scored(name, part == KNOWN)]
        few = [f"{part}: {len(self.parts[part])}" for _, part in used if part not in self.drawn]
        if absent or few:
            return f"{claim}: not tested ({', '.join(dict.fromkeys(absent or few))})"
        verdicts, numbers, seeds = zip(*(self._compare(*pair, claimed) for pair in pairs))
        if len(pairs) > 1:
            numbers = [f"{first.part}: {text}" for (first, _), text in zip(pairs, numbers)]
        return f"{claim}: {min(verdicts, key=VERDICTS.index)}, {in_words(seeds[0])} ({'; '.join(numbers)})"

    def _compare(
        self, first: Quantity, second: Quantity, claimed: tuple[float, float]
    ) -> tuple[str, str, tuple[int, int]]:
        """The verdict on the difference of two quantities, the difference in words, and the numbers of seeds."""
        begin = [self._bleu(of.name, of.part, of.beside)[:, 0].mean() for of in (first, second)]
        paired = first.name in (second.name, second.beside)
        difference = Difference.between(self._value(first), self._value(second), paired)
        # Two losses must both have a height. Of two scores, one may be low: that it is the lower one is decided.
        if (min if first.to else max)(begin) < MIN_BLEU:
            numbers = f"below {MIN_BLEU} BLEU: {begin[0]:.2f}, {begin[1]:.2f}"
            return "undecided", numbers, difference.seeds
        decided = verdict(difference, claimed)
        beyond = decided == "undecided" and (difference.low > 0 or difference.high < 0)
        return decided, f"{difference}{BEYOND_ZERO if beyond else ''}", difference.seeds

    def _value(self, quantity: Quantity) -> np.ndarray:
        """The quantity by each seed, in each row of a draw."""
        begin = self._bleu(quantity.name, quantity.part, quantity.beside)
        if not quantity.to:
            return begin
        loss = begin - self._bleu(quantity.name, quantity.to)
        return 100 * loss / begin if quantity.percent else loss

    def _score(self, name: str, banned: bool, beside: str = "") -> list[Scored]:
        references = self.test.reference_words
        seeds = [runs for runs in self.seeds if not beside or beside in runs.folders]
        return [scored_by_bleu(lines, references, self.penalised) for lines in by_seed(seeds, name, banned)]

    def _score_part(self, name: str, part: str, beside: str = "") -> np.ndarray:
        """The BLEU on a part of the test set: a row for each seed, a column for each row of a draw."""
        seeds = self._scored(name, part == KNOWN, beside)
        return np.array([seed.on(self.parts[part]).scores(self.drawn[part]) for seed in seeds])


def verdict(difference: Difference, claimed: tuple[float, float]) -> str:
    """Whether a measured difference lies between the bounds ``claimed``: zero and infinity, or multiples of a margin.

    The margin is 2 BLEU, but at most a tenth of the higher score.
    """
    if claimed == PRESENT:
        return difference.verdict()
    margin = float(min(MARGIN, MARGIN_SHARE * max(difference.first, difference.second)))
    return difference.verdict((claimed[0] * margin, claimed[1] * margin))


def claims(seeds: Sequence[BahdanauRuns], longest: float = inf) -> list[Section]:
    """Whether the numbers agree with each of the paper's claims, or why a claim is not tested.

    Claims on models that have no folder are left out; no section if these are all.
    """
    tested = Claims(seeds, longest)
    blocks = _blocks(tested.by_place())
    numbers = {part: f"{len(sentences):,}" for part, sentences in tested.parts.items()}
    how = (
        f"Of the {numbers[ALL]} sentences, {numbers[LONG]} are long ({seeds[0].least} words or more) and "
        f"{numbers[SHORT]} short; {numbers[FIFTY]} have {VERY_LONG} words or more. {HOW} {count_intervals(blocks)}"
    )
    again = _blocks(Claims(seeds, longest, penalised=False).on_length())
    sections = [("The paper's claims", [escape(how), *blocks])] if blocks else []
    if again:
        how = f"{WITHOUT_PENALTY} {count_intervals(again)}"
        sections.append(("Claims on length without the brevity penalty", [escape(how), *again]))
    return sections


def _both(first: str, second: str, part: str) -> tuple[Quantity, Quantity]:
    return Quantity(first, part), Quantity(second, part)


def _blocks(by_place: dict[str, list[str]]) -> list[str]:
    tested = {place: [line for line in lines if line] for place, lines in by_place.items()}
    return [block for place, lines in tested.items() if lines for block in (escape(place), bullets(lines))]


def _missing_file(name: str, part: str) -> str:
    """The file that a claim misses of a system."""
    if name == PHRASE_BASED:
        return f"no {OTHERS}/{name}"
    return f"no {BANNED if part == KNOWN else TRANSLATIONS} of {name}"
