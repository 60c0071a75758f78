"""Whether the numbers of a folder of runs agree with the claims of Bahdanau et al. (2015)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import inf

import numpy as np

from recipes.reproduce.bleu import scored_by_bleu
from recipes.reproduce.bootstrap import PRESENT, RESAMPLES, Difference, draw
from recipes.reproduce.document import Bullets, Section
from recipes.reproduce.runs import BANNED, OTHERS, TRANSLATIONS, BahdanauRuns

FEWEST = 20  # sentences, to test a claim on
VERY_LONG = 50  # words
MARGIN, SHARE = 2, 0.1  # the margin in BLEU, and its largest share of the higher score
AS_GOOD, NO_FALL = (-1, 1), (-inf, 1)  # margins
ALL, KNOWN, SHORT, LONG = "all sentences", "no unknown words", "short sentences", "long sentences"
FIFTY = f"sentences of {VERY_LONG} words or more"
RNNENCDEC, RNNSEARCH, MOSES = ("RNNencdec-30", "RNNencdec-50"), ("RNNsearch-30", "RNNsearch-50"), "Moses"
ABOVE = (*zip(RNNSEARCH, RNNENCDEC), (RNNSEARCH[0], RNNENCDEC[1]))
# The BLEU of a system on a part of the test set, in each row of a draw.
BleuOf = Callable[[str, str], np.ndarray]


@dataclass(frozen=True)
class Score:
    """The BLEU of a system on a part of the test set."""

    system: str
    part: str

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of the test set that it needs."""
        return (self.part,)

    def value(self, bleu: BleuOf) -> np.ndarray:
        """The score in each row of a draw."""
        return bleu(self.system, self.part)


@dataclass(frozen=True)
class Fall:
    """The BLEU of a system on short sentences minus its BLEU on long ones."""

    system: str

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of the test set that it needs."""
        return (SHORT, LONG)

    def value(self, bleu: BleuOf) -> np.ndarray:
        """The fall in each row of a draw."""
        return bleu(self.system, SHORT) - bleu(self.system, LONG)


@dataclass(frozen=True)
class Claim:
    """The first quantity minus the second lies between the bounds ``claimed``.

    The bounds are zero and infinity, or multiples of a margin: 2 BLEU, but at most a tenth of the higher score, since a
    system of 2 BLEU can lose no more than that.
    """

    text: str
    first: Score | Fall
    second: Score | Fall
    claimed: tuple[float, float] = PRESENT

    def verdict(self, difference: Difference) -> str:
        """Whether the measured difference agrees."""
        if self.claimed == PRESENT:
            return difference.verdict()
        margin = float(min(MARGIN, SHARE * max(difference.first, difference.second)))
        low, high = (bound * margin for bound in self.claimed)
        return difference.verdict((low, high))


HOW = (
    "In brackets stand two BLEU scores (of 'falls less', two falls of BLEU from short to long sentences), their "
    f"difference, and its 95 % interval by paired bootstrap ({RESAMPLES:,} resamples; short and long sentences are "
    "resampled separately). 'Above', 'falls' and 'falls less' agree if the interval is above zero, and do not agree if "
    f"it is below. 'Does not fall' agrees if the interval is below the margin of {MARGIN} BLEU, but at most "
    f"{SHARE:.0%} of the higher score; 'as good' agrees if it is within the margin on both sides. They do not agree if "
    f"it is wholly outside. All else is undecided. Claims on fewer than {FEWEST} sentences are not tested."
)
# Each with its place in the paper. RNNsearch-50⋆ is not in Figure 2.
PAPER = {
    "Section 5.1 and Table 1: RNNsearch is better than RNNencdec in all cases; even RNNsearch-30 is better than "
    "RNNencdec-50.": [
        Claim(f"{better} is above {worse}, {part}", Score(better, part), Score(worse, part))
        for better, worse in ABOVE
        for part in (ALL, KNOWN)
    ],
    "Section 5.1: on sentences of known words, RNNsearch is as good as the phrase-based system.": [
        Claim(f"{name} is as good as {MOSES}, {KNOWN}", Score(name, KNOWN), Score(MOSES, KNOWN), AS_GOOD)
        for name in (RNNSEARCH[1], f"{RNNSEARCH[1]}⋆")
    ],
    "Section 5.1 and Figure 2: RNNencdec gets much worse as sentences get longer.": [
        Claim(f"{name} falls with length", Score(name, SHORT), Score(name, LONG)) for name in RNNENCDEC
    ],
    "Section 5.1 and Figure 2: RNNsearch-30 and RNNsearch-50 are more robust to the length of sentences.": [
        Claim(f"{less} falls less with length than {more}", Fall(more), Fall(less))
        for less in RNNSEARCH
        for more in RNNENCDEC
    ],
    f"Section 5.1 and Figure 2: RNNsearch-50 does not get worse, even on {FIFTY}.": [
        Claim(
            f"{RNNSEARCH[1]} does not fall with length, {FIFTY}",
            Score(RNNSEARCH[1], SHORT),
            Score(RNNSEARCH[1], FIFTY),
            NO_FALL,
        )
    ],
}


def claims(runs: BahdanauRuns) -> Section:
    """Whether the numbers agree with each of the paper's claims, or why a claim is not tested."""
    parts: dict[str, Sequence[int]] = {ALL: range(len(runs.test)), KNOWN: runs.known or []}
    parts |= {SHORT: runs.test.of_length(0, runs.least - 1), LONG: runs.test.of_length(runs.least)}
    parts[FIFTY] = runs.test.of_length(VERY_LONG)
    tested = [part for part, sentences in parts.items() if len(sentences) >= FEWEST]
    drawn = dict(zip(tested, draw(*(len(parts[part]) for part in tested))))

    def systems(part: str) -> dict[str, list[str]]:
        return runs.banned if part == KNOWN else runs.systems

    @cache
    def bleu(name: str, part: str) -> np.ndarray:
        texts = (systems(part)[name], runs.test.reference_words)
        return scored_by_bleu(*([text[n] for n in parts[part]] for text in texts)).scores(drawn[part])

    def answer(claim: Claim) -> str:
        used = [(quantity.system, part) for quantity in (claim.first, claim.second) for part in quantity.parts]
        absent = [_file(name, part) for name, part in used if name not in systems(part)]
        few = [f"{part}: {len(parts[part])}" for _, part in used if part not in drawn]
        if absent or few:
            return f"not tested ({', '.join(dict.fromkeys(absent or few))})"
        difference = Difference.between(claim.first.value(bleu), claim.second.value(bleu))
        return f"{claim.verdict(difference)} ({difference})"

    section = Section("The paper's claims")
    section.blocks.append(
        f"Of the {len(runs.test):,} sentences, {len(parts[LONG]):,} are long ({runs.least} words or more) and "
        f"{len(parts[SHORT]):,} short; {len(parts[FIFTY]):,} have {VERY_LONG} words or more. {HOW}"
    )
    for place, of_paper in PAPER.items():
        section.blocks += [place, Bullets([f"{claim.text}: {answer(claim)}" for claim in of_paper])]
    return section


def _file(name: str, part: str) -> str:
    """The file that a claim misses of a system."""
    return f"no {OTHERS}/{name}" if name == MOSES else f"no {BANNED if part == KNOWN else TRANSLATIONS} of {name}"
