"""Whether the numbers of runs agree with the claims of Bahdanau et al. (2015)."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from math import inf

import numpy as np

from recipes.reproduce.bleu import scored_by_bleu
from recipes.reproduce.bootstrap import INTERVAL, PAIRED, PRESENT, Difference, Scored, draw
from recipes.reproduce.by_length import WIDTH, span
from recipes.reproduce.document import Section, bullets, escape
from recipes.reproduce.runs import BANNED, OTHERS, TRANSLATIONS, BahdanauRuns, by_seed

MIN_SENTENCES = 20  # to test a claim on
MIN_BLEU = 5  # below it nothing is decided
VERY_LONG = 50  # words
MARGIN, MARGIN_SHARE = 2, 0.1  # the margin in BLEU, and its largest share of the higher score
AT_LEAST_AS_GOOD, NO_FALL = (-1, inf), (-inf, 1)  # bounds of a difference, in margins
ALL, KNOWN, SHORT, LONG = "all sentences", "no unknown words", "short sentences", "long sentences"
FIFTY = f"sentences of {VERY_LONG} words or more"
ENCDEC_30, ENCDEC_50, SEARCH_30, SEARCH_50 = "RNNencdec-30", "RNNencdec-50", "RNNsearch-30", "RNNsearch-50"
LONGER = f"{SEARCH_50}⋆"
PHRASE_BASED = "phrase-based"  # of recipes/reproduce/phrase_based.sh; the paper's is Moses
VERDICTS = ("does not agree", "undecided", "agrees")
# A system and a part of the test set: its BLEU there. With two parts: the fall of its BLEU from the first part to the
# second, in percent of the first.
Quantity = tuple[str, ...]

HOW = (
    f"In brackets stand two BLEU scores, their difference, and {INTERVAL}; short and long sentences are resampled "
    f"separately. {PAIRED} Of 'falls less' they are two falls of BLEU from short to long sentences, in percent of the "
    "BLEU on short ones. 'Above', 'falls' and 'falls less' agree if the interval is above zero, and do not agree if it "
    f"is below. 'Does not fall' agrees if the interval is below the margin of {MARGIN} BLEU, but at most "
    f"{MARGIN_SHARE:.0%} of the higher score; 'at least as good' if it is above minus the margin. They do not agree if "
    "it is wholly outside. 'In every bin' agrees if every bin agrees, and does not agree if one of them does not. All "
    f"else is undecided, and so is what begins below {MIN_BLEU} BLEU. Claims on fewer than {MIN_SENTENCES} sentences "
    "are not tested."
)


class Claims:
    """The claims on ``seeds``, runs of one test set, whose sentences of more than ``longest`` words are one bin."""

    def __init__(self, seeds: Sequence[BahdanauRuns], longest: float = inf) -> None:
        self.seeds, self.test, least = seeds, seeds[0].test, seeds[0].least
        self.systems = {PHRASE_BASED}.union(*(runs.folders for runs in seeds))
        bins = {f"{span(*bin)} words": self.test.of_length(*bin) for bin in self.test.bins(WIDTH, longest)}
        self.bins = [name for name, sentences in bins.items() if len(sentences) >= MIN_SENTENCES]
        self.parts: dict[str, Sequence[int]] = {
            ALL: range(len(self.test)),
            KNOWN: seeds[0].known or [],
            SHORT: self.test.of_length(0, least - 1),
            LONG: self.test.of_length(least),
            FIFTY: self.test.of_length(VERY_LONG),
            **bins,
        }
        tested = [part for part, sentences in self.parts.items() if len(sentences) >= MIN_SENTENCES]
        self.drawn = dict(zip(tested, draw(*(len(self.parts[part]) for part in tested))))
        self._scored = cache(self._score)
        self._bleu = cache(self._score_part)

    def by_place(self) -> dict[str, list[str]]:
        """The claim of each place in the paper, and its verdicts; RNNsearch-50⋆ is not in Figure 2."""
        return {
            "Section 5.1 and Table 1: RNNsearch is better than RNNencdec in all cases; even RNNsearch-30 is better "
            "than RNNencdec-50.": [
                line
                for better, worse in ((SEARCH_30, ENCDEC_30), (SEARCH_50, ENCDEC_50), (SEARCH_30, ENCDEC_50))
                for part in (ALL, KNOWN)
                for line in self._above(better, worse, part)
            ],
            "Table 1: RNNsearch-50⋆, trained longer, is better than RNNsearch-50.": [
                line for part in (ALL, KNOWN) for line in self._above(LONGER, SEARCH_50, part)
            ],
            "Section 5.1: on sentences of known words, RNNsearch is as good as the phrase-based system.": [
                line for name in (SEARCH_50, LONGER) for line in self._as_good_as_phrase_based(name)
            ],
            "Figure 2: RNNsearch is better than RNNencdec at every length.": [
                *self._above_in_every_bin(SEARCH_30, ENCDEC_30),
                *self._above_in_every_bin(SEARCH_50, ENCDEC_50),
            ],
            "Section 5.1 and Figure 2: RNNencdec gets much worse as sentences get longer.": [
                *self._falls(ENCDEC_30),
                *self._falls(ENCDEC_50),
            ],
            "Section 5.1 and Figure 2: RNNsearch-30 and RNNsearch-50 are more robust to the length of sentences.": [
                line
                for robust in (SEARCH_30, SEARCH_50)
                for other in (ENCDEC_30, ENCDEC_50)
                for line in self._falls_less(robust, other)
            ],
            f"Section 5.1 and Figure 2: RNNsearch-50 does not get worse, even on {FIFTY}.": self._does_not_fall(
                SEARCH_50
            ),
        }

    def _above(self, better: str, worse: str, part: str) -> list[str]:
        return self._test(f"{better} is above {worse}, {part}", [((better, part), (worse, part))])

    def _as_good_as_phrase_based(self, name: str) -> list[str]:
        text = f"{name} is at least as good as {PHRASE_BASED}, {KNOWN}"
        return self._test(text, [((name, KNOWN), (PHRASE_BASED, KNOWN))], AT_LEAST_AS_GOOD)

    def _above_in_every_bin(self, better: str, worse: str) -> list[str]:
        pairs = [((better, part), (worse, part)) for part in self.bins]
        return self._test(f"{better} is above {worse} in every bin", pairs)

    def _falls(self, name: str) -> list[str]:
        return self._test(f"{name} falls with length", [((name, SHORT), (name, LONG))])

    def _falls_less(self, robust: str, other: str) -> list[str]:
        text = f"{robust} falls less with length than {other}"
        return self._test(text, [((other, SHORT, LONG), (robust, SHORT, LONG))])

    def _does_not_fall(self, name: str) -> list[str]:
        return self._test(f"{name} does not fall with length, {FIFTY}", [((name, SHORT), (name, FIFTY))], NO_FALL)

    def _test(
        self, claim: str, pairs: Sequence[tuple[Quantity, Quantity]], claimed: tuple[float, float] = PRESENT
    ) -> list[str]:
        """The claim that in each pair the first quantity minus the second lies between the bounds ``claimed``.

        With its verdict and the numbers behind it, or why it is not tested; nothing if a model has no folder.
        """
        used = [(name, part) for pair in pairs for name, *parts in pair for part in parts]
        if not used or not {name for name, _ in used} <= self.systems:
            return []
        absent = [_missing_file(name, part) for name, part in used if not self._scored(name, part == KNOWN)]
        few = [f"{part}: {len(self.parts[part])}" for _, part in used if part not in self.drawn]
        if absent or few:
            return [f"{claim}: not tested ({', '.join(dict.fromkeys(absent or few))})"]
        verdicts, numbers = zip(*(self._compare(*pair, claimed) for pair in pairs))
        if len(pairs) > 1:
            numbers = [f"{first[1]}: {text}" for (first, _), text in zip(pairs, numbers)]
        return [f"{claim}: {min(verdicts, key=VERDICTS.index)} ({'; '.join(numbers)})"]

    def _compare(self, first: Quantity, second: Quantity, claimed: tuple[float, float]) -> tuple[str, str]:
        """The verdict on the difference of two quantities, and the difference in words."""
        begin = [self._bleu(name, part)[:, 0].mean() for name, part, *_ in (first, second)]
        # Two falls must both have a height. Of two scores, one may be low: that it is the lower one is decided.
        if (max if len(first) == 2 else min)(begin) < MIN_BLEU:
            return "undecided", f"below {MIN_BLEU} BLEU: {begin[0]:.2f}, {begin[1]:.2f}"
        difference = Difference.between(self._value(first), self._value(second), first[0] == second[0])
        return verdict(difference, claimed), str(difference)

    def _value(self, quantity: Quantity) -> np.ndarray:
        """The quantity by each seed, in each row of a draw."""
        name, *parts = quantity
        scores = [self._bleu(name, part) for part in parts]
        return scores[0] if len(scores) == 1 else 100 * (1 - scores[1] / scores[0])

    def _score(self, name: str, banned: bool) -> list[Scored]:
        return [scored_by_bleu(lines, self.test.reference_words) for lines in by_seed(self.seeds, name, banned)]

    def _score_part(self, name: str, part: str) -> np.ndarray:
        """The BLEU on a part of the test set: a row for each seed, a column for each row of a draw."""
        seeds = self._scored(name, part == KNOWN)
        in_part = [replace(seed, statistics=seed.statistics[self.parts[part]]) for seed in seeds]
        return np.array([seed.scores(self.drawn[part]) for seed in in_part])


def verdict(difference: Difference, claimed: tuple[float, float]) -> str:
    """Whether a measured difference lies between the bounds ``claimed``: zero and infinity, or multiples of a margin.

    The margin is 2 BLEU, but at most a tenth of the higher score.
    """
    if claimed == PRESENT:
        return difference.verdict()
    margin = float(min(MARGIN, MARGIN_SHARE * max(difference.first, difference.second)))
    return difference.verdict((claimed[0] * margin, claimed[1] * margin))


def claims(seeds: Sequence[BahdanauRuns], longest: float = inf) -> Section | None:
    """Whether the numbers agree with each of the paper's claims, or why a claim is not tested.

    Claims on models that have no folder are left out; None if these are all.
    """
    tested = Claims(seeds, longest)
    blocks = [block for place, lines in tested.by_place().items() if lines for block in (escape(place), bullets(lines))]
    numbers = {part: f"{len(sentences):,}" for part, sentences in tested.parts.items()}
    how = (
        f"Of the {numbers[ALL]} sentences, {numbers[LONG]} are long ({seeds[0].least} words or more) and "
        f"{numbers[SHORT]} short; {numbers[FIFTY]} have {VERY_LONG} words or more. {HOW}"
    )
    return ("The paper's claims", [escape(how), *blocks]) if blocks else None


def _missing_file(name: str, part: str) -> str:
    """The file that a claim misses of a system."""
    if name == PHRASE_BASED:
        return f"no {OTHERS}/{name}"
    return f"no {BANNED if part == KNOWN else TRANSLATIONS} of {name}"
