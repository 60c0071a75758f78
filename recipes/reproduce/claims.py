"""Whether the numbers of runs agree with the claims of Bahdanau et al. (2015)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import inf

import numpy as np

from recipes.reproduce.bleu import scored_by_bleu
from recipes.reproduce.bootstrap import INTERVAL, PAIRED, PRESENT, Difference, Scored, draw
from recipes.reproduce.by_length import WIDTH, span
from recipes.reproduce.document import Bullets, Section
from recipes.reproduce.runs import BANNED, OTHERS, TRANSLATIONS, BahdanauRuns, by_seed

FEWEST = 20  # sentences, to test a claim on
FLOOR = 5  # BLEU, below which nothing is decided
VERY_LONG = 50  # words
MARGIN, SHARE = 2, 0.1  # the margin in BLEU, and its largest share of the higher score
AS_GOOD, NO_FALL = (-1, inf), (-inf, 1)  # in margins
ALL, KNOWN, SHORT, LONG = "all sentences", "no unknown words", "short sentences", "long sentences"
FIFTY = f"sentences of {VERY_LONG} words or more"
RNNENCDEC, RNNSEARCH = ("RNNencdec-30", "RNNencdec-50"), ("RNNsearch-30", "RNNsearch-50")
PHRASE_BASED = "phrase-based"  # of recipes/reproduce/phrase_based.sh; the paper's is Moses
LONGER = f"{RNNSEARCH[1]}⋆"
# The BLEU of a system on a part of the test set: a row for each seed, a column for each row of a draw.
BleuOf = Callable[[str, str], np.ndarray]


@dataclass(frozen=True)
class Quantity:
    """The BLEU of a system on a part of the test set; of two parts, the fall to the second in percent of the first."""

    system: str
    parts: tuple[str, ...]

    def value(self, bleu: BleuOf) -> np.ndarray:
        """The quantity by each seed, in each row of a draw."""
        scores = [bleu(self.system, part) for part in self.parts]
        return scores[0] if len(scores) == 1 else 100 * (1 - scores[1] / scores[0])


@dataclass(frozen=True)
class Claim:
    """In each of ``pairs``, the first quantity minus the second lies between the bounds ``claimed``.

    The bounds are zero and infinity, or multiples of a margin: 2 BLEU, but at most a tenth of the higher score.
    """

    text: str
    pairs: Sequence[tuple[Quantity, Quantity]]
    claimed: tuple[float, float] = PRESENT

    @property
    def used(self) -> list[tuple[str, str]]:
        """The systems and parts of the test set that are compared."""
        return [(quantity.system, part) for pair in self.pairs for quantity in pair for part in quantity.parts]

    def verdict(self, difference: Difference) -> str:
        """Whether a measured difference agrees."""
        if self.claimed == PRESENT:
            return difference.verdict()
        margin = float(min(MARGIN, SHARE * max(difference.first, difference.second)))
        return difference.verdict((self.claimed[0] * margin, self.claimed[1] * margin))

    def answer(self, bleu: BleuOf) -> str:
        """The verdict, and the numbers behind it."""
        verdicts, numbers = [], []
        for pair in self.pairs:
            begin = [bleu(quantity.system, quantity.parts[0])[:, 0].mean() for quantity in pair]
            # Two falls must both have a height. Of two scores, one may be low: that it is the lower one is decided.
            if (max if len(pair[0].parts) == 1 else min)(begin) < FLOOR:
                verdicts.append("undecided")
                text = f"below {FLOOR} BLEU: {begin[0]:.2f}, {begin[1]:.2f}"
            else:
                same_models = pair[0].system == pair[1].system
                difference = Difference.between(*(quantity.value(bleu) for quantity in pair), same_models)
                verdicts.append(self.verdict(difference))
                text = str(difference)
            numbers.append(f"{pair[0].parts[0]}: {text}" if len(self.pairs) > 1 else text)
        verdict = min(verdicts, key=("does not agree", "undecided", "agrees").index)
        return f"{verdict} ({'; '.join(numbers)})"


def above(better: str, worse: str, part: str) -> Claim:
    """A system has a higher BLEU than another one."""
    return Claim(f"{better} is above {worse}, {part}", [(Quantity(better, (part,)), Quantity(worse, (part,)))])


HOW = (
    f"In brackets stand two BLEU scores, their difference, and {INTERVAL}; short and long sentences are resampled "
    f"separately. {PAIRED} Of 'falls less' they are two falls of BLEU from short to long sentences, in percent of the "
    "BLEU on short ones. 'Above', 'falls' and 'falls less' agree if the interval is above zero, and do not agree if it "
    f"is below. 'Does not fall' agrees if the interval is below the margin of {MARGIN} BLEU, but at most {SHARE:.0%} "
    "of the higher score; 'at least as good' if it is above minus the margin. They do not agree if it is wholly "
    "outside. 'In every bin' agrees if every bin agrees, and does not agree if one of them does not. All else is "
    f"undecided, and so is what begins below {FLOOR} BLEU. Claims on fewer than {FEWEST} sentences are not tested."
)


def of_paper(bins: Sequence[str]) -> dict[str, list[Claim]]:
    """The claims, by their place in the paper. RNNsearch-50⋆ is not in Figure 2."""
    return {
        "Section 5.1 and Table 1: RNNsearch is better than RNNencdec in all cases; even RNNsearch-30 is better than "
        "RNNencdec-50.": [
            above(better, worse, part)
            for better, worse in (*zip(RNNSEARCH, RNNENCDEC), (RNNSEARCH[0], RNNENCDEC[1]))
            for part in (ALL, KNOWN)
        ],
        "Table 1: RNNsearch-50⋆, trained longer, is better than RNNsearch-50.": [
            above(LONGER, RNNSEARCH[1], part) for part in (ALL, KNOWN)
        ],
        "Section 5.1: on sentences of known words, RNNsearch is as good as the phrase-based system.": [
            replace(
                above(name, PHRASE_BASED, KNOWN),
                text=f"{name} is at least as good as {PHRASE_BASED}, {KNOWN}",
                claimed=AS_GOOD,
            )
            for name in (RNNSEARCH[1], LONGER)
        ],
        "Figure 2: RNNsearch is better than RNNencdec at every length.": [
            Claim(
                f"{better} is above {worse} in every bin",
                [(Quantity(better, (part,)), Quantity(worse, (part,))) for part in bins],
            )
            for better, worse in zip(RNNSEARCH, RNNENCDEC)
        ],
        "Section 5.1 and Figure 2: RNNencdec gets much worse as sentences get longer.": [
            Claim(f"{name} falls with length", [(Quantity(name, (SHORT,)), Quantity(name, (LONG,)))])
            for name in RNNENCDEC
        ],
        "Section 5.1 and Figure 2: RNNsearch-30 and RNNsearch-50 are more robust to the length of sentences.": [
            Claim(
                f"{less} falls less with length than {more}",
                [(Quantity(more, (SHORT, LONG)), Quantity(less, (SHORT, LONG)))],
            )
            for less in RNNSEARCH
            for more in RNNENCDEC
        ],
        f"Section 5.1 and Figure 2: RNNsearch-50 does not get worse, even on {FIFTY}.": [
            Claim(
                f"{RNNSEARCH[1]} does not fall with length, {FIFTY}",
                [(Quantity(RNNSEARCH[1], (SHORT,)), Quantity(RNNSEARCH[1], (FIFTY,)))],
                NO_FALL,
            )
        ],
    }


def claims(seeds: Sequence[BahdanauRuns], longest: float = inf) -> Section | None:
    """Whether the numbers agree with each of the paper's claims, or why a claim is not tested.

    Claims on models that have no folder are left out; None if these are all. ``seeds`` are runs of one test set, whose
    sentences of more than ``longest`` words are one bin.
    """
    test, least = seeds[0].test, seeds[0].least
    parts: dict[str, Sequence[int]] = {ALL: range(len(test)), KNOWN: seeds[0].known or []}
    parts |= {SHORT: test.of_length(0, least - 1), LONG: test.of_length(least), FIFTY: test.of_length(VERY_LONG)}
    parts |= {f"{span(*bin)} words": test.of_length(*bin) for bin in test.bins(WIDTH, longest)}
    tested = [part for part, sentences in parts.items() if len(sentences) >= FEWEST]
    drawn = dict(zip(tested, draw(*(len(parts[part]) for part in tested))))

    @cache
    def scored(name: str, banned: bool) -> list[Scored]:
        return [scored_by_bleu(lines, test.reference_words) for lines in by_seed(seeds, name, banned)]

    @cache
    def bleu(name: str, part: str) -> np.ndarray:
        of = scored(name, part == KNOWN)
        return np.array([replace(one, statistics=one.statistics[parts[part]]).scores(drawn[part]) for one in of])

    def answer(claim: Claim) -> str:
        absent = [_file(name, part) for name, part in claim.used if not scored(name, part == KNOWN)]
        few = [f"{part}: {len(parts[part])}" for _, part in claim.used if part not in drawn]
        if absent or few:
            return f"not tested ({', '.join(dict.fromkeys(absent or few))})"
        return claim.answer(bleu)

    models = {PHRASE_BASED}.union(*(runs.folders for runs in seeds))
    section = Section("The paper's claims")
    section.blocks.append(
        f"Of the {len(test):,} sentences, {len(parts[LONG]):,} are long ({least} words or more) and "
        f"{len(parts[SHORT]):,} short; {len(parts[FIFTY]):,} have {VERY_LONG} words or more. {HOW}"
    )
    for place, of in of_paper([part for part in tested if part.endswith(" words") and part != KNOWN]).items():
        answers = [f"{one.text}: {answer(one)}" for one in of if one.pairs and {name for name, _ in one.used} <= models]
        section.blocks += [place, Bullets(answers)] if answers else []
    return section if len(section.blocks) > 1 else None


def _file(name: str, part: str) -> str:
    """The file that a claim misses of a system."""
    return (
        f"no {OTHERS}/{name}" if name == PHRASE_BASED else f"no {BANNED if part == KNOWN else TRANSLATIONS} of {name}"
    )
